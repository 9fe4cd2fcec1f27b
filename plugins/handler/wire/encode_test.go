package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

const testLimit = 1500 * time.Millisecond

// batch holds the content of one message.
type batch struct {
	attempts []Attempt // without a limit: the encoder has one for all
	cancels  []uint64
}

func (b *batch) encode(e *Encoder) Message {
	e.Begin(len(b.attempts), len(b.cancels))
	for i := range b.attempts {
		e.Event(b.attempts[i].Seq, &b.attempts[i].Event)
	}
	return e.Finish(b.cancels)
}

// inProto returns the message as protobuf's generated code encodes it.
func (b *batch) inProto() *handlerpb.DeliverRequest {
	req := &handlerpb.DeliverRequest{Cancel: b.cancels}
	for _, a := range b.attempts {
		ev := eventInProto(&a.Event)
		ev.Seq, ev.TimeLimit = a.Seq, durationpb.New(testLimit)
		req.Events = append(req.Events, ev)
	}
	return req
}

func eventInProto(ev *handler.Event) *handlerpb.Event {
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	var attached map[string]*handlerpb.Objects
	for name, objects := range ev.Attached {
		if attached == nil {
			attached = make(map[string]*handlerpb.Objects)
		}
		attached[text(name)] = new(handlerpb.Objects)
		for _, o := range objects {
			attached[text(name)].Items = append(attached[text(name)].Items, o)
		}
	}
	var items []*handlerpb.Event
	for i := range ev.Items {
		items = append(items, eventInProto(&ev.Items[i]))
	}
	var epoch *handlerpb.Epoch
	if e := ev.Epoch; !e.IsZero() {
		epoch = &handlerpb.Epoch{Cluster: text(e.Cluster), Generation: e.Generation, Term: e.Term}
	}
	return &handlerpb.Event{
		Id: text(ev.ID), Rule: text(ev.Rule), Event: text(ev.Event), Attempt: uint32(max(1, ev.Attempt)),
		Resource: &handlerpb.Resource{
			Group: text(ev.Resource.Group), Version: text(ev.Resource.Version), Resource: text(ev.Resource.Resource),
		},
		Namespace: text(ev.Namespace), Name: text(ev.Name), Uid: text(ev.UID), ResourceVersion: text(ev.ResourceVersion),
		Object: ev.Object, Old: ev.Old, Payload: ev.Payload, Attached: attached, Items: items,
		Epoch: epoch, Traceparent: text(ev.Traceparent),
	}
}

// encodes checks that protobuf and a Request decode the encoder's message to its content.
func (e *Encoder) encodes(t *testing.T, b *batch) {
	t.Helper()
	message, err := Codec().Marshal(b.encode(e))
	if err != nil {
		t.Fatal(err)
	}
	wire := message.Materialize()
	message.Free()
	var got handlerpb.DeliverRequest
	if err := proto.Unmarshal(wire, &got); err != nil {
		t.Fatal(err)
	}
	want := b.inProto()
	if !proto.Equal(want, &got) {
		t.Error(cmp.Diff(want, &got, protocmp.Transform()))
	}
	var r Request
	if err := r.decode(wire); err != nil {
		t.Fatal(err)
	}
	if diff := r.diff(want); diff != "" {
		t.Error(diff)
	}
}

func full() handler.Event {
	item := handler.Event{
		ID: "r/u/added/6", Rule: "r", Event: "added", Attempt: 3,
		Resource:  handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "wéb", UID: "u", ResourceVersion: "6",
	}
	whole, summary := item, item
	whole.Object, whole.Old = []byte(`{"c":1}`), []byte(`{"c":0}`)
	summary.Payload = []byte(`{"d":1}`)
	return handler.Event{
		ID: "r/u/updated/7", Rule: "r", Event: "updated", Attempt: 3,
		Resource:  handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "wéb", UID: "u", ResourceVersion: "7",
		Object: []byte(`{"a":1}`), Old: []byte(`{"a":0}`), Payload: []byte(`[]`),
		Attached: map[string][]json.RawMessage{"pöds": {[]byte(`{"b":1}`), []byte(`{"b":2}`)}, "none": {}},
		Items:    []handler.Event{whole, {}, summary},
		Epoch:    handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 1 << 40}, Traceparent: "00-a-b-01",
	}
}

// A new field of the protocol is one that the encoder should know.
func TestEncodesEveryField(t *testing.T) {
	req := (&batch{attempts: []Attempt{{Event: full(), Seq: 1}}, cancels: []uint64{1}}).inProto()
	for _, m := range []proto.Message{req, req.GetEvents()[0], req.GetEvents()[0].GetResource(), req.GetEvents()[0].GetEpoch()} {
		reflected := m.ProtoReflect()
		for fields, i := reflected.Descriptor().Fields(), 0; i < fields.Len(); i++ {
			if !reflected.Has(fields.Get(i)) {
				t.Errorf("no %s", fields.Get(i).FullName())
			}
		}
	}
}

func TestEncode(t *testing.T) {
	e := NewEncoder(testLimit)
	var many batch
	for i := range 32 {
		ev := full()
		ev.Name = strings.Repeat("x", i*100) // more text than was expected
		many.attempts = append(many.attempts, Attempt{Event: ev, Seq: uint64(i) * 1000})
		many.cancels = append(many.cancels, 1<<63>>i)
	}
	empty := handler.Event{Attempt: -1, Object: []byte{}, Attached: map[string][]json.RawMessage{"": {{}, nil}}}
	broken := handler.Event{
		Attached: map[string][]json.RawMessage{"\xff": {[]byte(`{}`)}}, Name: "a\xffb", Rule: "\xc3",
		Resource: handler.Resource{Group: "\xff"}, Attempt: 1 << 32,
	}
	broken.Items = []handler.Event{{Name: "a\xffb", Epoch: handler.Epoch{Term: 1}}}
	broken.Epoch, broken.Traceparent = handler.Epoch{Cluster: "\xff"}, "\xff"
	var thousand handler.Event
	for n := range 1000 {
		item := handler.Event{Name: strings.Repeat("x", n%200), Payload: bytes.Repeat([]byte("1"), n%20)}
		thousand.Items = append(thousand.Items, item)
	}
	for _, c := range []struct {
		why string
		batch
	}{
		{"one event", batch{attempts: []Attempt{{Event: full(), Seq: 1 << 63}}}},
		{"with nothing in it", batch{attempts: []Attempt{{Event: empty}}}},
		{"with text that is not UTF-8", batch{attempts: []Attempt{{Event: broken, Seq: 1}}}},
		{"a thousand items", batch{attempts: []Attempt{{Event: thousand, Seq: 1}, {Event: full(), Seq: 2}}}},
		{"many events and cancels", many},
		{"after those", batch{attempts: []Attempt{{Event: full(), Seq: 1}}}},
		{"cancels alone", batch{cancels: []uint64{0, 1, 1 << 63}}},
	} {
		t.Run(c.why, func(t *testing.T) { e.encodes(t, &c.batch) })
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("r/u/updated/7", "r", "", "wéb", []byte(`{"a":1}`), []byte(`{}`), uint64(1), 1)
	f.Add("\xff", "\xc3\xc3", "x", "\xed\xa0\x80", []byte(nil), make([]byte, 5000), uint64(1<<63), 1<<40)
	e := NewEncoder(testLimit)
	f.Fuzz(func(t *testing.T, id, rule, namespace, name string, object, payload []byte, seq uint64, attempt int) {
		ev := handler.Event{
			ID: id, Rule: rule, Namespace: namespace, Name: name, UID: id, Attempt: attempt,
			Resource: handler.Resource{Resource: name}, Object: object, Old: payload, Payload: payload,
			Attached: map[string][]json.RawMessage{name: {object, payload}},
			Items:    []handler.Event{{ID: rule, Rule: rule, Name: namespace, Payload: object}, {}, {Name: id, Object: payload}},
		}
		e.encodes(t, &batch{attempts: []Attempt{{Event: ev, Seq: seq}, {Event: full(), Seq: seq + 1}}, cancels: []uint64{seq}})
	})
}

// JSON, which may be large, is not copied.
func TestEncodeSharesJSON(t *testing.T) {
	ev := full()
	found := 0
	for _, part := range (&batch{attempts: []Attempt{{Event: ev}, {Event: ev}}}).encode(NewEncoder(testLimit)) {
		for _, json := range [][]byte{
			ev.Object, ev.Old, ev.Payload, ev.Attached["pöds"][0], ev.Attached["pöds"][1],
			ev.Items[0].Object, ev.Items[0].Old, ev.Items[2].Payload,
		} {
			if b := part.ReadOnlyData(); bytes.Equal(b, json) && &b[0] == &json[0] {
				found++
			}
		}
	}
	if found != 16 {
		t.Errorf("%d of 16", found)
	}
}

// A small item counts too: a thousand of them are no empty event.
func TestSize(t *testing.T) {
	ev := full()
	json := len(ev.Object) + len(ev.Old) + len(ev.Payload) + 2*len(`{"b":1}`)
	items := 2*len(`{"c":1}`) + len(`{"d":1}`) + 3*512
	if got := Size(&ev); got != json+items {
		t.Errorf("got %d, want %d", got, json+items)
	}
}

// A message allocates its slice of buffers, the buffers themselves, and nothing else.
func TestEncodeAllocates(t *testing.T) {
	e, ev := NewEncoder(testLimit), full()
	ev.Attached, ev.Items = nil, nil
	b := &batch{attempts: []Attempt{{Event: ev, Seq: 1}}}
	if n := testing.AllocsPerRun(100, func() { mem.BufferSlice(b.encode(e)).Free() }); n > 8 {
		t.Errorf("%v allocations for one event", n)
	}
}

// Pages of the cache are read by protobuf.
func TestPage(t *testing.T) {
	elements := [][]byte{[]byte(`{"a":1}`), {}, bytes.Repeat([]byte("x"), 300)}
	var page []byte
	for _, e := range elements {
		page = append(AppendElement(page, len(e)), e...)
	}
	var got handlerpb.ObjectPage
	if err := proto.Unmarshal(page, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(elements, got.GetObjects()); diff != "" {
		t.Error(diff)
	}
	for _, m := range []proto.Message{&handlerpb.GetResponse{}, &handlerpb.ObjectPage{}, &handlerpb.KeyPage{}, &handlerpb.ValuePage{}} {
		if fields := m.ProtoReflect().Descriptor().Fields(); fields.Len() != 1 || fields.Get(0).Number() != 1 {
			t.Errorf("%T has other fields than its elements", m)
		}
	}
}

// BenchmarkEncode encodes one event of 3 KB, of a batch of 16.
func BenchmarkEncode(b *testing.B) {
	var batch batch
	for i := range 16 {
		ev := full()
		ev.Name, ev.Object, ev.Old, ev.Payload = fmt.Sprint("web-", i), make([]byte, 3000), nil, nil
		batch.attempts = append(batch.attempts, Attempt{Event: ev, Seq: uint64(i)})
	}
	e := NewEncoder(testLimit)
	b.ReportAllocs()
	for n := 0; n < b.N; n += 16 {
		mem.BufferSlice(batch.encode(e)).Free()
	}
}
