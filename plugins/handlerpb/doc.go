// Package handlerpb holds the protocol between informd and handler processes. Its specification is
// handler.proto and, for handlers' reads of informd's cache, cache.proto. Both can be read on their
// own. The Go code is generated from them (make generate). The package guarantees nothing
// beyond the encoding: plugins/serve speaks one side of it and plugins/host the other.
package handlerpb
