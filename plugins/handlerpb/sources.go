package handlerpb

import "embed"

// Sources are the .proto files of the protocol, as authors of handlers in other languages need them.
//
//go:embed *.proto
var Sources embed.FS
