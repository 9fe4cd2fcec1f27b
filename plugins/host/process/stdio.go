package process

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// stdio is go-plugin's message StdioData, whose generated code is internal to go-plugin:
//
//	message StdioData { Channel channel = 1; bytes data = 2; }
type stdio struct {
	channel uint64
	data    []byte
}

// The channels of a message.
const (
	stdioStdout = 1
	stdioStderr = 2
)

// stdioCodec encodes any message as an empty one, and decodes messages into a *stdio. It is for one
// stream and is not registered.
type stdioCodec struct{}

// Name implements encoding.CodecV2. The content type must be protobuf's.
func (stdioCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (stdioCodec) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

// Unmarshal implements encoding.CodecV2.
func (stdioCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m := v.(*stdio)
	wire := data.Materialize()
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			m.channel, n = protowire.ConsumeVarint(wire)
		case number == 2 && kind == protowire.BytesType:
			m.data, n = protowire.ConsumeBytes(wire)
		default:
			n = protowire.ConsumeFieldValue(number, kind, wire)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
	}
	return nil
}
