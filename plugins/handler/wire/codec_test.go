package wire

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/plugins/handlerpb"
)

// A handler must not make the daemon's memory grow at next to no cost of its own.
func TestAnswersThatInflate(t *testing.T) {
	many := func(message []byte) []byte { return bytes.Repeat(message, handlerpb.MaxResponseBytes/len(message)) }
	actions := many([]byte{0x0a, 0x00})
	marshal := func(m proto.Message) []byte {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	reasons := &handlerpb.DeliverResponse{}
	for range 1000 {
		reasons.Answers = append(reasons.Answers, &handlerpb.Answer{Seq: 1, Result: &handlerpb.Answer_Retry{
			Retry: &handlerpb.Retry{Reason: string(bytes.Repeat([]byte("x"), handlerpb.MaxReasonBytes))},
		}})
	}
	for _, c := range []struct {
		what   string
		wire   []byte
		refuse bool
	}{
		{"empty answers", many([]byte{0x12, 0x00}), true},
		{"answers that are done", many([]byte{0x12, 0x02, 0x12, 0x00}), true},
		{"numbers", append(lengthPrefixed(0x0a, 15<<20), make([]byte, 15<<20)...), true},
		{"an answer of empty actions", marshalNested(actions), true},
		{"as many as there may be that are done", marshal(&handlerpb.DeliverResponse{Done: make([]uint64, 300_000)}), false},
		{"long reasons", marshal(reasons), false},
		{"one answer", []byte{0x12, 0x00}, false},
	} {
		var got handlerpb.DeliverResponse
		err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.wire)}, &got)
		if errors.Is(err, errInflated) != c.refuse {
			t.Errorf("%s, in %d bytes: %v, want refused: %v", c.what, len(c.wire), err, c.refuse)
		}
		var want handlerpb.DeliverResponse
		if c.refuse {
			continue
		}
		if err := proto.Unmarshal(c.wire, &want); err != nil || !proto.Equal(&got, &want) {
			t.Errorf("%s: decoded to something else, %v", c.what, err)
		}
	}
}

// marshalNested is a message with one answer that is done and has these actions.
func marshalNested(actions []byte) []byte {
	done := append(lengthPrefixed(0x12, len(actions)), actions...)
	return append(lengthPrefixed(0x12, len(done)), done...)
}

func lengthPrefixed(tag byte, n int) []byte {
	out := []byte{tag}
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}
