module github.com/informd/informd/plugins/serve

go 1.25.0

// grpc v1.83.2 is the oldest release without GO-2026-6061, GO-2026-6348 and GO-2026-6443, by which a
// peer can exhaust or end a server: serve.Remote has peers on the network. It needs Go 1.25. The
// three modules of authors require no later one than that, so that authors choose.

require (
	github.com/google/go-cmp v0.7.0
	github.com/hashicorp/go-hclog v1.6.3
	github.com/hashicorp/go-plugin v1.8.0
	github.com/informd/informd/plugins/handler v0.1.0
	github.com/informd/informd/plugins/handlerpb v0.1.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/fatih/color v1.13.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.17 // indirect
	github.com/oklog/run v1.1.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)
