package wire

import (
	"errors"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/informd/informd/plugins/handlerpb"
)

// Encoded is a message that is encoded already. Codec sends its buffers as they are, and gRPC frees
// them once.
type Encoded interface {
	Buffers() mem.BufferSlice
}

// Codec returns gRPC's codec for protobuf with three additions. It sends an [Encoded] as it is. It
// decodes a [Request] by hand. It refuses a large handlerpb.DeliverResponse that would take many
// times its size in memory.
func Codec() encoding.CodecV2 { return protoCodec }

var protoCodec encoding.CodecV2 = codec{encoding.GetCodecV2("proto")}

type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(Encoded); ok {
		return m.Buffers(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *Request:
		return v.unmarshal(data)
	case *handlerpb.DeliverResponse:
		if data.Len() > shortAnswers {
			return c.unmarshalAnswers(data, v)
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// unmarshalAnswers decodes a long message of answers, unless it would take too much memory.
func (c codec) unmarshalAnswers(data mem.BufferSlice, v *handlerpb.DeliverResponse) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if decodedSize(buf.ReadOnlyData(), answersDepth) > maxDecoded {
		return errInflated
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{buf}, v)
}

var errInflated = errors.New("the message of answers would take many times its size in memory")

const (
	shortAnswers = 256 << 10 // bytes; a shorter message cannot become large in memory
	maxDecoded   = 64 << 20  // bytes that the answers of one message may take in memory

	sizeOfMessage = 128 // memory of an empty message; on the wire it takes 2 bytes
	sizeOfNumber  = 8

	// answersDepth is how deep messages nest within a DeliverResponse: answers, their results,
	// actions, targets.
	answersDepth = 4
)

// decodedSize estimates the memory that a DeliverResponse takes once it is decoded, from above. It
// treats every field of bytes as a message down to the given depth. Bytes that are no message are
// left to the decoder to refuse.
func decodedSize(wire []byte, depth int) (size int) {
	for len(wire) > 0 && size <= maxDecoded {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return size
		}
		length := protowire.ConsumeFieldValue(1, kind, wire[n:])
		if length < 0 {
			return size
		}
		value := wire[n : n+length]
		wire = wire[n+length:]
		if kind != protowire.BytesType {
			size += sizeOfNumber
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if depth == answersDepth && number == doneNumber {
			// Packed numbers: at most one for each byte.
			size += sizeOfNumber * len(value)
			continue
		}
		size += sizeOfMessage + len(value)
		if depth > 0 {
			size += decodedSize(value, depth-1)
		}
	}
	return size
}

const doneNumber = 1 // of DeliverResponse.done

// AppendElement appends the head of one element of a cache page to b: the element's n bytes follow
// it on the wire. Pages are handlerpb's GetResponse, ObjectPage, KeyPage and ValuePage, whose
// elements are all field 1.
func AppendElement(b []byte, n int) []byte { return appendLength(b, 1, n) }
