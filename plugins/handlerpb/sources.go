package handlerpb

import "embed"

// Sources are the protocol's .proto files, which authors of handlers in other languages need.
//
//go:embed *.proto
var Sources embed.FS
