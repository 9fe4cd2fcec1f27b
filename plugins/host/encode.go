package host

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
)

// encoded is a message in the wire's form.
type encoded mem.BufferSlice

// codec is gRPC's codec of protobuf, which lets through what is encoded already.
type codec struct{ encoding.CodecV2 }

var protoCodec = codec{encoding.GetCodecV2("proto")}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(encoded); ok {
		return mem.BufferSlice(m), nil
	}
	return c.CodecV2.Marshal(v)
}

// encoder makes messages of one stream: handlerpb.DeliverRequests. It does not copy the events' JSON. The bytes that the
// cache holds, and that other handlers are sent as well, are what gRPC copies into the connection's buffer. For one
// goroutine.
type encoder struct {
	limit []byte // every event's time_limit

	text     []byte // of a message: all but the JSON
	json     []part // which stands between
	event    []byte // the text of one event
	resource []byte // and within that of its resource
}

// part is JSON that stands behind so many bytes of text.
type part struct {
	behind int
	json   []byte
}

func newEncoder(limit time.Duration) *encoder {
	d, err := proto.Marshal(durationpb.New(limit))
	if err != nil {
		panic(err) // a Duration has nothing that could fail
	}
	return &encoder{limit: d}
}

// How much text a message has, more or less; one that has more only costs more.
const (
	textBytes = 400 // of an event with long names
	maxVarint = 10
)

// message encodes a batch. The fields' numbers are those of handler.proto.
func (e *encoder) message(b *batch) encoded {
	pool := mem.DefaultBufferPool()
	buf := pool.Get(len(b.calls)*textBytes + len(b.cancels)*maxVarint)
	e.text = (*buf)[:0]
	for _, c := range b.calls {
		e.add(c.seq, c.event)
	}
	e.cancel(b.cancels)

	*buf = e.text
	text := mem.NewBuffer(buf, pool)
	defer text.Free() // its slices hold it
	out := make(encoded, 0, 2*len(e.json)+1)
	at := 0
	for _, p := range e.json {
		out = append(out, text.Slice(at, p.behind), mem.SliceBuffer(p.json))
		at = p.behind
	}
	out = append(out, text.Slice(at, text.Len()))
	clear(e.json)
	e.text, e.json = nil, e.json[:0]
	return out
}

func (e *encoder) add(seq uint64, ev *handler.Event) {
	e.resource = appendString(e.resource[:0], 1, ev.Resource.Group)
	e.resource = appendString(e.resource, 2, ev.Resource.Version)
	e.resource = appendString(e.resource, 3, ev.Resource.Resource)

	t := appendNumber(e.event[:0], 1, seq)
	t = appendString(t, 2, ev.ID)
	t = appendString(t, 3, ev.Rule)
	t = appendString(t, 4, ev.Event)
	t = appendNumber(t, 5, uint64(uint32(max(1, ev.Attempt))))
	t = appendBytes(t, 6, e.resource)
	t = appendString(t, 7, ev.Namespace)
	t = appendString(t, 8, ev.Name)
	t = appendString(t, 9, ev.UID)
	t = appendString(t, 10, ev.ResourceVersion)
	t = appendBytes(t, 14, e.limit)
	e.event = t

	attached := 0
	for name, objects := range ev.Attached {
		attached += sizeOf(15, sizeAttached(name, objects))
	}
	e.text = appendLength(e.text, 1, len(t)+sizeJSON(11, ev.Object)+sizeJSON(12, ev.Old)+sizeJSON(13, ev.Payload)+attached)
	e.text = append(e.text, t...)
	e.addJSON(11, ev.Object)
	e.addJSON(12, ev.Old)
	e.addJSON(13, ev.Payload)
	for name, objects := range ev.Attached {
		e.addAttached(name, objects)
	}
}

// addAttached adds an entry of the map: its name, and a message of items, each there even if it is empty.
func (e *encoder) addAttached(name string, objects []json.RawMessage) {
	e.text = appendLength(e.text, 15, sizeAttached(name, objects))
	e.text = appendBytes(e.text, 1, []byte(valid(name)))
	e.text = appendLength(e.text, 2, sizeItems(objects))
	for _, o := range objects {
		e.text = appendLength(e.text, 1, len(o))
		e.json = append(e.json, part{len(e.text), o})
	}
}

func sizeAttached(name string, objects []json.RawMessage) int {
	return sizeOf(1, len(valid(name))) + sizeOf(2, sizeItems(objects))
}

func sizeItems(objects []json.RawMessage) (size int) {
	for _, o := range objects {
		size += sizeOf(1, len(o))
	}
	return size
}

// sizeOf is how many bytes a field of so many takes.
func sizeOf(num protowire.Number, n int) int { return protowire.SizeTag(num) + protowire.SizeBytes(n) }

func (e *encoder) addJSON(num protowire.Number, json []byte) {
	if len(json) > 0 {
		e.text = appendLength(e.text, num, len(json))
		e.json = append(e.json, part{len(e.text), json})
	}
}

func sizeJSON(num protowire.Number, json []byte) int {
	if len(json) == 0 {
		return 0
	}
	return sizeOf(num, len(json))
}

func (e *encoder) cancel(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	size := 0
	for _, seq := range seqs {
		size += protowire.SizeVarint(seq)
	}
	e.text = appendLength(e.text, 2, size)
	for _, seq := range seqs {
		e.text = protowire.AppendVarint(e.text, seq)
	}
}

func appendNumber(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// appendLength begins a field of so many bytes.
func appendLength(b []byte, num protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(n))
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	return append(appendLength(b, num, len(v)), v...)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	s = valid(s)
	return append(appendLength(b, num, len(s)), s...)
}

// valid is s, which protobuf insists to be UTF-8: one string that is not would break the stream for all.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
