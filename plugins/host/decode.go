package host

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/informd/informd/plugins/handlerpb"
)

const (
	shortAnswers = 256 << 10 // bytes; a message that is no longer cannot become large
	maxDecoded   = 64 << 20  // bytes that the answers of one message may take in memory

	sizeOfMessage = 128 // bytes that an empty one takes in memory, and two in a message
	sizeOfNumber  = 8

	doneNumber = 1 // of DeliverResponse.done
)

var errInflated = errors.New("a message of answers that takes many times its size in memory")

// Unmarshal decodes a message, unless it is one of answers that would take all too much memory.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*handlerpb.DeliverResponse); !ok || data.Len() <= shortAnswers {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if decodedSize(buf.ReadOnlyData(), answersWithin) > maxDecoded {
		return errInflated
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{buf}, v)
}

// answersWithin is how many messages lie in each other: answers, the result of each, its actions, their targets.
const answersWithin = 4

// decodedSize is about how much memory a message takes at most, of which nothing is known but that others lie in it so deep.
// What is no message is for the decoder to refuse.
func decodedSize(wire []byte, within int) (size int) {
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
		if within == answersWithin && number == doneNumber { // as many numbers as there are bytes, at most
			size += sizeOfNumber * len(value)
			continue
		}
		size += sizeOfMessage + len(value)
		if within > 0 {
			size += decodedSize(value, within-1)
		}
	}
	return size
}
