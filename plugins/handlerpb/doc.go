// Package handlerpb holds the protocol between informd and handler processes: handler.proto, which is its
// specification and readable on its own, and the Go code generated from it (make generate). It guarantees nothing beyond the
// encoding; plugins/serve speaks one side of it and plugins/host the other.
package handlerpb
