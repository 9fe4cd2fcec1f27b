module github.com/informd/informd/plugins/serve

go 1.24.0

// grpc v1.80.0 is the last release that Go 1.24 builds. Later ones, which need Go 1.25, mend xds and
// bound what a peer may make a server read: require v1.82.2 or later if your Go allows it, above all
// for serve.Remote. A handler that informd starts has informd as its only peer.

require (
	github.com/google/go-cmp v0.7.0
	github.com/hashicorp/go-hclog v1.6.3
	github.com/hashicorp/go-plugin v1.8.0
	github.com/informd/informd/plugins/handler v0.1.0
	github.com/informd/informd/plugins/handlerpb v0.1.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/fatih/color v1.13.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.17 // indirect
	github.com/oklog/run v1.1.0 // indirect
	golang.org/x/net v0.49.0 // indirect
	golang.org/x/sys v0.40.0 // indirect
	golang.org/x/text v0.33.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260120221211-b8f7ae30c516 // indirect
)
