// Package handlerpb holds the protocol between informd and handler processes: handler.proto and, for what
// handlers may read of informd's cache, cache.proto, which are its specification and readable on their own, and the Go code
// generated from them (make generate). It guarantees nothing beyond the encoding; plugins/serve speaks one side of it and
// plugins/host the other.
package handlerpb
