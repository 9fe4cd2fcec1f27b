package serve

import (
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// request is a handlerpb.DeliverRequest, decoded straight into what a handler gets. protobuf's own decoder costs three
// times as much, for it copies each message twice and makes garbage on the way.
type request struct {
	events []event
	cancel []uint64

	wire []byte // a message in one piece, while it is decoded; kept for the next, unless it was very large
	last names  // of the last event; most have the same
}

// event is one of a request. Its strings and its JSON share no memory with other events, so a handler that keeps one
// keeps no more than that; but for its names, which do not change.
type event struct {
	handler.Event
	seq   uint64
	limit limit
}

// limit is how long Handle may take for an event, as a google.protobuf.Duration.
type limit struct {
	set     bool
	seconds int64
	nanos   int32
}

func (l limit) duration() time.Duration {
	return (&durationpb.Duration{Seconds: l.seconds, Nanos: l.nanos}).AsDuration()
}

// names are those strings of an event that are few.
type names struct {
	rule, event string
	resource    handler.Resource
}

// codec is gRPC's codec of protobuf, which decodes a *request itself.
type codec struct{ encoding.CodecV2 }

var protoCodec = codec{encoding.GetCodecV2("proto")}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if len(data) == 1 {
		return r.decode(data[0].ReadOnlyData())
	}
	n := data.Len()
	r.wire = slices.Grow(r.wire[:0], n)[:n]
	data.CopyTo(r.wire)
	err := r.decode(r.wire)
	if cap(r.wire) > 2*handlerpb.MaxBatchBytes {
		r.wire = nil
	}
	return err
}

// decode makes r what a message says, and keeps nothing of wire. It takes what protobuf takes, and passes over fields
// that it does not know. The fields' numbers are those of handler.proto.
func (r *request) decode(wire []byte) error {
	r.events, r.cancel = r.events[:0], r.cancel[:0]
	return fields(wire, func(f field) error {
		switch f.number {
		case 1:
			if f.kind != protowire.BytesType {
				return nil
			}
			r.events = append(r.events, event{})
			e := &r.events[len(r.events)-1]
			err := e.decode(f.bytes, &r.last)
			r.last = names{e.Rule, e.Event.Event, e.Resource}
			return err
		case 2:
			return f.addTo(&r.cancel)
		}
		return nil
	})
}

// attach takes an entry of the map of what is attached.
func (e *event) attach(f field) error {
	if f.kind != protowire.BytesType {
		return nil
	}
	name, objects := "", []json.RawMessage{}
	err := f.message(func(f field) error {
		switch f.number {
		case 1:
			return f.text(&name, "")
		case 2:
			return f.message(func(f field) error {
				if f.number == 1 && f.kind == protowire.BytesType {
					var o json.RawMessage
					f.json(&o)
					objects = append(objects, o)
				}
				return nil
			})
		}
		return nil
	})
	if e.Attached == nil {
		e.Attached = make(map[string][]json.RawMessage)
	}
	e.Attached[name] = objects
	return err
}

func (e *event) decode(wire []byte, last *names) error {
	return fields(wire, func(f field) error {
		switch f.number {
		case 1:
			set(&e.seq, f)
		case 2:
			return f.text(&e.ID, "")
		case 3:
			return f.text(&e.Rule, last.rule)
		case 4:
			return f.text(&e.Event.Event, last.event)
		case 5:
			attempt := uint32(e.Attempt)
			set(&attempt, f)
			e.Attempt = int(attempt)
		case 6:
			return f.message(func(f field) error {
				switch f.number {
				case 1:
					return f.text(&e.Resource.Group, last.resource.Group)
				case 2:
					return f.text(&e.Resource.Version, last.resource.Version)
				case 3:
					return f.text(&e.Resource.Resource, last.resource.Resource)
				}
				return nil
			})
		case 7:
			return f.text(&e.Namespace, "")
		case 8:
			return f.text(&e.Name, "")
		case 9:
			return f.text(&e.UID, "")
		case 10:
			return f.text(&e.ResourceVersion, "")
		case 11:
			f.json(&e.Object)
		case 12:
			f.json(&e.Old)
		case 13:
			f.json(&e.Payload)
		case 14:
			e.limit.set = e.limit.set || f.kind == protowire.BytesType
			return f.message(func(f field) error {
				switch f.number {
				case 1:
					set(&e.limit.seconds, f)
				case 2:
					set(&e.limit.nanos, f)
				}
				return nil
			})
		case 15:
			return e.attach(f)
		}
		return nil
	})
}
