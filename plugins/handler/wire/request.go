package wire

import (
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Request is a handlerpb.DeliverRequest, decoded straight into what a handler gets. protobuf's own
// decoder costs three times as much, because it copies each message twice and leaves garbage
// behind. One Request decodes the messages of one stream, one after the other: each replaces the
// one before.
type Request struct {
	Attempts []Attempt
	Cancel   []uint64 // sequence numbers of attempts whose answers are no longer wanted

	wire []byte // one message in one piece while it is decoded; reused unless very large
	last names  // of the last event; most events have the same
}

// Attempt is one event that was sent. Its strings and JSON share no memory with other events, so a
// handler that keeps one event keeps no more than that. Only its rule, kind, resource and the
// cluster of its epoch are shared, which never change.
type Attempt struct {
	Seq   uint64 // the number that the answer names
	Event handler.Event
	limit limit
}

// Limit returns how long Handle may take for the event; ok is false if there is no time limit.
func (a *Attempt) Limit() (d time.Duration, ok bool) {
	if !a.limit.set {
		return 0, false
	}
	return (&durationpb.Duration{Seconds: a.limit.seconds, Nanos: a.limit.nanos}).AsDuration(), true
}

// limit is a google.protobuf.Duration.
type limit struct {
	set     bool
	seconds int64
	nanos   int32
}

// names are the strings of an event that take few different values.
type names struct {
	rule, event string
	resource    handler.Resource
	cluster     string // of the epoch
}

func namesOf(ev *handler.Event) names {
	return names{ev.Rule, ev.Event, ev.Resource, ev.Epoch.Cluster}
}

func (r *Request) unmarshal(data mem.BufferSlice) error {
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

// decode replaces r's content by that of a message, and keeps nothing of wire. It accepts what
// protobuf accepts, and skips fields that it does not know. The fields' numbers are those of
// handler.proto.
func (r *Request) decode(wire []byte) error {
	r.Attempts, r.Cancel = r.Attempts[:0], r.Cancel[:0]
	return fields(wire, func(f field) error {
		switch f.number {
		case 1:
			if f.kind != protowire.BytesType {
				return nil
			}
			r.Attempts = append(r.Attempts, Attempt{})
			a := &r.Attempts[len(r.Attempts)-1]
			err := a.decode(f.bytes, r.last, 0)
			r.last = namesOf(&a.Event)
			return err
		case 2:
			return f.addTo(&r.Cancel)
		}
		return nil
	})
}

// decode adds what a message says to an empty Attempt. last are the names of the event before it.
// depth says how deep the message is within other events.
func (a *Attempt) decode(wire []byte, last names, depth int) error {
	if depth > protowire.DefaultRecursionLimit {
		return errDepth
	}
	ev := &a.Event
	return fields(wire, func(f field) error {
		switch f.number {
		case 1:
			set(&a.Seq, f)
		case 2:
			return f.text(&ev.ID, "")
		case 3:
			return f.text(&ev.Rule, last.rule)
		case 4:
			return f.text(&ev.Event, last.event)
		case 5:
			attempt := uint32(ev.Attempt)
			set(&attempt, f)
			ev.Attempt = int(attempt)
		case 6:
			return f.message(func(f field) error {
				switch f.number {
				case 1:
					return f.text(&ev.Resource.Group, last.resource.Group)
				case 2:
					return f.text(&ev.Resource.Version, last.resource.Version)
				case 3:
					return f.text(&ev.Resource.Resource, last.resource.Resource)
				}
				return nil
			})
		case 7:
			return f.text(&ev.Namespace, "")
		case 8:
			return f.text(&ev.Name, "")
		case 9:
			return f.text(&ev.UID, "")
		case 10:
			return f.text(&ev.ResourceVersion, "")
		case 11:
			f.json(&ev.Object)
		case 12:
			f.json(&ev.Old)
		case 13:
			f.json(&ev.Payload)
		case 14:
			a.limit.set = a.limit.set || f.kind == protowire.BytesType
			return f.message(func(f field) error {
				switch f.number {
				case 1:
					set(&a.limit.seconds, f)
				case 2:
					set(&a.limit.nanos, f)
				}
				return nil
			})
		case 15:
			return attach(ev, f)
		case 16:
			if f.kind != protowire.BytesType {
				return nil
			}
			last := namesOf(ev)
			if n := len(ev.Items); n > 0 {
				last = namesOf(&ev.Items[n-1])
			}
			var item Attempt
			err := item.decode(f.bytes, last, depth+1)
			ev.Items = append(ev.Items, item.Event)
			return err
		case 17:
			return f.message(func(f field) error {
				switch f.number {
				case 1:
					return f.text(&ev.Epoch.Cluster, last.cluster)
				case 2:
					set(&ev.Epoch.Generation, f)
				case 3:
					set(&ev.Epoch.Term, f)
				}
				return nil
			})
		case 18:
			return f.text(&ev.Traceparent, "")
		}
		return nil
	})
}

// attach takes one entry of the map of attached objects.
func attach(ev *handler.Event, f field) error {
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
	if ev.Attached == nil {
		ev.Attached = make(map[string][]json.RawMessage)
	}
	ev.Attached[name] = objects
	return err
}
