package wire

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
)

// Message is an encoded handlerpb.DeliverRequest.
type Message mem.BufferSlice

// Buffers implements [Encoded].
func (m Message) Buffers() mem.BufferSlice { return mem.BufferSlice(m) }

// Size returns the bytes of an event that windows and batches count: those of its JSON, and of its
// items with itemBytes for the other fields of each.
func Size(ev *handler.Event) int {
	size := sizeOfJSON(ev)
	for _, objects := range ev.Attached {
		for _, o := range objects {
			size += len(o)
		}
	}
	for i := range ev.Items {
		size += itemBytes + sizeOfJSON(&ev.Items[i])
	}
	return size
}

// itemBytes is what an item counts for besides its JSON. A thousand small items would otherwise
// count for nothing.
const itemBytes = 512

func sizeOfJSON(ev *handler.Event) int { return len(ev.Object) + len(ev.Old) + len(ev.Payload) }

// Encoder makes the messages of one stream. It does not copy the events' JSON: the bytes that the
// cache holds, and that other handlers are sent as well, are what gRPC copies into the connection's
// buffer. They must not change until gRPC has freed the message. An Encoder is for one goroutine.
//
//	e.Begin(2, 0)
//	e.Event(1, first)
//	e.Event(2, second)
//	message := e.Finish(nil)
type Encoder struct {
	limit []byte // time_limit of every event, encoded

	pooled   *[]byte // what text began as, to be given back
	text     []byte  // of the message: all but the JSON
	json     []part  // what stands between pieces of text
	event    []byte  // scratch: the text of one event, then of its items
	items    []int   // scratch: where the text of each item ends in event
	resource []byte  // scratch: its resource
	epoch    []byte  // scratch: its epoch
}

// part is JSON that follows the first behind bytes of text.
type part struct {
	behind int
	json   []byte
}

// NewEncoder returns an Encoder that gives each event the same time limit.
func NewEncoder(limit time.Duration) *Encoder {
	d, err := proto.Marshal(durationpb.New(limit))
	if err != nil {
		panic(err) // a Duration has nothing that could fail
	}
	return &Encoder{limit: d}
}

// Estimates of a message's text. One that needs more only costs another allocation.
const (
	textBytes = 400 // of an event with long names
	maxVarint = 10
)

// Begin begins a message. The numbers of its events and cancels are estimates of its size.
func (e *Encoder) Begin(events, cancels int) {
	e.pooled = mem.DefaultBufferPool().Get(events*textBytes + cancels*maxVarint)
	e.text = (*e.pooled)[:0]
}

// Event adds an event under its sequence number.
func (e *Encoder) Event(seq uint64, ev *handler.Event) {
	t := appendNumber(e.event[:0], 1, seq)
	t = e.appendText(t, ev)
	t = appendBytes(t, 14, e.limit)
	own := len(t)
	e.items = e.items[:0]
	size := own + sizeContents(ev)
	for name, objects := range ev.Attached {
		size += sizeOf(15, sizeAttached(name, objects))
	}
	for i := range ev.Items {
		item := &ev.Items[i]
		start := len(t)
		t = e.appendText(t, item)
		e.items = append(e.items, len(t))
		size += sizeOf(16, len(t)-start+sizeContents(item))
	}
	e.event = t

	e.text = appendLength(e.text, 1, size)
	e.text = append(e.text, t[:own]...)
	e.addContents(ev)
	for name, objects := range ev.Attached {
		e.addAttached(name, objects)
	}
	start := own
	for i, end := range e.items {
		item := &ev.Items[i]
		e.text = appendLength(e.text, 16, end-start+sizeContents(item))
		e.text = append(e.text, t[start:end]...)
		e.addContents(item)
		start = end
	}
}

// appendText appends the fields that an event and its items have, but for the JSON.
func (e *Encoder) appendText(t []byte, ev *handler.Event) []byte {
	e.resource = appendString(e.resource[:0], 1, ev.Resource.Group)
	e.resource = appendString(e.resource, 2, ev.Resource.Version)
	e.resource = appendString(e.resource, 3, ev.Resource.Resource)

	t = appendString(t, 2, ev.ID)
	t = appendString(t, 3, ev.Rule)
	t = appendString(t, 4, ev.Event)
	t = appendNumber(t, 5, uint64(uint32(max(1, ev.Attempt))))
	t = appendBytes(t, 6, e.resource)
	t = appendString(t, 7, ev.Namespace)
	t = appendString(t, 8, ev.Name)
	t = appendString(t, 9, ev.UID)
	t = appendString(t, 10, ev.ResourceVersion)
	if !ev.Epoch.IsZero() {
		e.epoch = appendString(e.epoch[:0], 1, ev.Epoch.Cluster)
		e.epoch = appendNumber(e.epoch, 2, ev.Epoch.Generation)
		e.epoch = appendNumber(e.epoch, 3, ev.Epoch.Term)
		t = appendBytes(t, 17, e.epoch)
	}
	return appendString(t, 18, ev.Traceparent)
}

// addContents adds the JSON that an event and its items have.
func (e *Encoder) addContents(ev *handler.Event) {
	e.addJSON(11, ev.Object)
	e.addJSON(12, ev.Old)
	e.addJSON(13, ev.Payload)
}

func sizeContents(ev *handler.Event) int {
	return sizeJSON(11, ev.Object) + sizeJSON(12, ev.Old) + sizeJSON(13, ev.Payload)
}

// Finish adds the sequence numbers of events whose answers are no longer wanted, and returns the
// message. The caller sends it, or frees its buffers.
func (e *Encoder) Finish(cancels []uint64) Message {
	e.cancel(cancels)

	*e.pooled = e.text
	rest := mem.NewBuffer(e.pooled, mem.DefaultBufferPool())
	out := make(Message, 0, 2*len(e.json)+1)
	at := 0
	for _, p := range e.json {
		var text mem.Buffer // shares rest's memory, which the last piece returns to the pool
		text, rest = mem.SplitUnsafe(rest, p.behind-at)
		out = append(out, text, mem.SliceBuffer(p.json))
		at = p.behind
	}
	out = append(out, rest)
	clear(e.json)
	e.pooled, e.text, e.json = nil, nil, e.json[:0]
	return out
}

// addAttached adds one entry of the map: a name, and a message of items. Empty ones are encoded
// too.
func (e *Encoder) addAttached(name string, objects []json.RawMessage) {
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

// sizeOf returns the size of a field with n bytes of content.
func sizeOf(num protowire.Number, n int) int {
	return protowire.SizeTag(num) + protowire.SizeBytes(n)
}

func (e *Encoder) addJSON(num protowire.Number, json []byte) {
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

func (e *Encoder) cancel(seqs []uint64) {
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

// appendLength appends the head of a field whose content has n bytes.
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

// valid returns s as UTF-8. protobuf refuses a message with any other string in it, which would
// break the stream.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
