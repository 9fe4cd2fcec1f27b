package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// sample has every field of a request and of an event.
func sample() *handlerpb.DeliverRequest {
	return &handlerpb.DeliverRequest{
		Events: []*handlerpb.Event{
			{
				Seq: 1 << 40, Id: "r/u/updated/7", Rule: "r", Event: "updated", Attempt: 3,
				Resource:  &handlerpb.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
				Namespace: "shop", Name: "wéb", Uid: "u", ResourceVersion: "7",
				Object: []byte(`{"a":1}`), Old: []byte(`{"a":0}`), Payload: []byte(`[]`),
				TimeLimit: durationpb.New(1500 * time.Millisecond),
				Attached: map[string]*handlerpb.Objects{
					"pöds": {Items: [][]byte{[]byte(`{"a":1}`), []byte(`{"a":2}`)}}, "none": {}, "": {Items: [][]byte{{}}},
				},
				Items: []*handlerpb.Event{
					{
						Id: "r/u/added/6", Rule: "r", Event: "added", Attempt: 3, Name: "wéb", Object: []byte(`{"a":0}`),
						Resource: &handlerpb.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
					},
					{Seq: 5, Rule: "q", TimeLimit: &durationpb.Duration{}, Items: []*handlerpb.Event{{Rule: "q"}, {}}},
					{},
				},
				Epoch: &handlerpb.Epoch{Cluster: "6b1e", Generation: 1, Term: 1 << 40}, Traceparent: "00-a-b-01",
			},
			{Seq: 2, Rule: "r", TimeLimit: &durationpb.Duration{}, Epoch: &handlerpb.Epoch{Cluster: "6b1e", Term: 1}},
			{Event: "added", Resource: &handlerpb.Resource{}, TimeLimit: &durationpb.Duration{Seconds: -1, Nanos: -5}},
			{},
		},
		Cancel: []uint64{1, 1 << 63, 0},
	}
}

// converted returns what a Request should hold after it decoded p.
func converted(p *handlerpb.DeliverRequest) (attempts []Attempt, cancel []uint64) {
	for _, e := range p.GetEvents() {
		ev := convertedEvent(e)
		a := Attempt{Seq: e.GetSeq(), Event: ev}
		if l := e.GetTimeLimit(); l != nil {
			a.limit = limit{true, l.GetSeconds(), l.GetNanos()}
		}
		attempts = append(attempts, a)
	}
	return attempts, p.GetCancel()
}

func convertedEvent(e *handlerpb.Event) handler.Event {
	ev := handler.Event{
		ID: e.GetId(), Rule: e.GetRule(), Event: e.GetEvent(), Attempt: int(e.GetAttempt()),
		Resource: handler.Resource{
			Group: e.GetResource().GetGroup(), Version: e.GetResource().GetVersion(), Resource: e.GetResource().GetResource(),
		},
		Namespace: e.GetNamespace(), Name: e.GetName(), UID: e.GetUid(), ResourceVersion: e.GetResourceVersion(),
		Object: e.GetObject(), Old: e.GetOld(), Payload: e.GetPayload(), Traceparent: e.GetTraceparent(),
		Epoch: handler.Epoch{
			Cluster: e.GetEpoch().GetCluster(), Generation: e.GetEpoch().GetGeneration(), Term: e.GetEpoch().GetTerm(),
		},
	}
	for name, objects := range e.GetAttached() {
		if ev.Attached == nil {
			ev.Attached = make(map[string][]json.RawMessage)
		}
		ev.Attached[name] = []json.RawMessage{}
		for _, o := range objects.GetItems() {
			ev.Attached[name] = append(ev.Attached[name], o)
		}
	}
	for _, item := range e.GetItems() {
		ev.Items = append(ev.Items, convertedEvent(item))
	}
	return ev
}

func (r *Request) diff(p *handlerpb.DeliverRequest) string {
	attempts, cancel := converted(p)
	return cmp.Diff([]any{attempts, cancel}, []any{r.Attempts, r.Cancel}, cmp.AllowUnexported(Attempt{}, limit{}), cmpopts.EquateEmpty())
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sample covers every field only as long as it has every field.
func TestSampleHasEveryField(t *testing.T) {
	m := sample().ProtoReflect()
	event := m.Get(m.Descriptor().Fields().ByName("events")).List().Get(0).Message()
	for fields, i := event.Descriptor().Fields(), 0; i < fields.Len(); i++ {
		if !event.Has(fields.Get(i)) {
			t.Errorf("no %s", fields.Get(i).Name())
		}
	}
	if n := m.Descriptor().Fields().Len(); n != 2 {
		t.Errorf("a request has %d fields", n)
	}
}

// FuzzRequest compares with protobuf's own decoder. Both messages are decoded into the same
// Request, as a stream does it, and keep nothing of each other, nor of the bytes that they were
// decoded from.
func FuzzRequest(f *testing.F) {
	whole := marshal(f, sample())
	f.Add(whole, []byte{})
	f.Add(whole[:len(whole)-3], whole)
	f.Add(append(whole, whole...), whole)
	f.Add([]byte{0x10, 0x05, 0x0a, 0x06, 0x32, 0x00, 0x72, 0x02, 0x18, 0x01}, []byte{0x0a, 0x03, 0x1a, 0x01, 0xff})
	f.Add([]byte{0x0a, 0x04, 0x0b, 0x58, 0x01, 0x0c, 0x15, 1, 2, 3, 4}, []byte{0x0a, 0x02, 0x5a, 0x00})
	f.Add([]byte("\xa2\xa2\xa2\xa2\xa2\x00\x00"), whole) // a field's number past protobuf's
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var r Request
		for _, wire := range [][]byte{first, second} {
			var want handlerpb.DeliverRequest
			refused := proto.Unmarshal(wire, &want)
			own := bytes.Clone(wire)
			err := r.decode(own)
			if (err != nil) != (refused != nil) {
				t.Fatalf("got %v, want %v", err, refused)
			}
			for i := range own {
				own[i] = '!'
			}
			if err != nil {
				return // so ends a stream
			}
			if diff := r.diff(&want); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// A message comes in as many pieces as the transport likes.
func TestMessageInPieces(t *testing.T) {
	wire := marshal(t, sample())
	for _, size := range []int{1, 7, len(wire)} {
		var pieces mem.BufferSlice
		for rest := wire; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, mem.SliceBuffer(rest[:min(size, len(rest))]))
		}
		var r Request
		if err := protoCodec.Unmarshal(pieces, &r); err != nil {
			t.Fatal(err)
		}
		if diff := r.diff(sample()); diff != "" {
			t.Errorf("in pieces of %d: %s", size, diff)
		}
	}
}

// Items within items are no reason to run out of stack.
func TestNestedTooDeeply(t *testing.T) {
	var wire []byte
	for range 12_000 {
		wire = append(appendLength(nil, 16, len(wire)), wire...)
	}
	wire = append(appendLength(nil, 1, len(wire)), wire...)
	if err := new(Request).decode(wire); err != errDepth {
		t.Errorf("got %v", err)
	}
}

// The buffer for one very large event is not kept.
func TestLargeMessage(t *testing.T) {
	req := &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Object: make([]byte, 8<<20)}}}
	wire := mem.SliceBuffer(marshal(t, req))
	var r Request
	if err := protoCodec.Unmarshal(mem.BufferSlice{wire[:1], wire[1:]}, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Attempts[0].Event.Object) != 8<<20 || cap(r.wire) != 0 {
		t.Errorf("got %d bytes, keeps %d", len(r.Attempts[0].Event.Object), cap(r.wire))
	}
}

// BenchmarkDecode decodes one event of 3 KB, of a batch of 16.
func BenchmarkDecode(b *testing.B) {
	req := &handlerpb.DeliverRequest{}
	for i := range 16 {
		ev := sample().Events[0]
		ev.Name, ev.Object, ev.Old, ev.Payload = fmt.Sprint("web-", i), make([]byte, 3000), nil, nil
		req.Events = append(req.Events, ev)
	}
	wire := marshal(b, req)
	b.ReportAllocs()
	var r Request
	for n := 0; n < b.N; n += 16 {
		if err := r.decode(wire); err != nil {
			b.Fatal(err)
		}
	}
}
