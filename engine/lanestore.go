package engine

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

var errNotSynced = fmt.Errorf("the source has not synced: %w", dispatch.ErrNotYet)

// laneStore records the deliveries of one rule.
type laneStore struct {
	lane *state.Lane
	rule *runningRule
}

// Put implements dispatch.LaneStore.
func (s *laneStore) Put(n uint64, key delta.Key, w dispatch.Waiting) {
	if s.rule.reveals && w.Payload != nil {
		w.Payload, w.Stale = notKept, true
	}
	s.lane.Put(n, key, state.Delivery(w))
}

func (s *laneStore) Delete(n uint64, key delta.Key) { s.lane.Delete(n, key) }

func (s *laneStore) Room(size int64) bool { return s.lane.Room(size) }

// Load implements dispatch.LaneStore. Nothing is there yet while the caches are not: deliveries of secrets are filled from
// them, payloads that are made anew and what is undecided may look into them, what is attached comes from them, and a rule's
// actions are made of them.
func (s *laneStore) Load(key delta.Key, after uint64, maxItems int, maxBytes int64) ([]dispatch.Numbered, error) {
	if s.rule.isMadeAnew() && !s.rule.isFresh(key) {
		return nil, errNotSynced
	}
	found, err := s.lane.Load(key, after, maxItems, maxBytes)
	if err != nil {
		return nil, err
	}
	out := make([]dispatch.Numbered, 0, len(found))
	for _, f := range found {
		w := dispatch.Waiting(f.Delivery)
		if w.Undecided && !s.rule.isFresh(key) {
			return nil, errNotSynced
		}
		switch {
		case s.rule.isSecret():
			w.Delta, w.Payload = s.rule.refill(w.Delta)
			w.Stale = false
		case s.rule.reveals && w.Payload != nil:
			w.Payload, w.Stale = s.rule.anew(w.Delta), false
		}
		out = append(out, dispatch.Numbered{N: f.N, Waiting: w})
	}
	return out, nil
}

// isMadeAnew tells whether what is delivered, or a part of it, may be made of the caches as they are then.
func (r *runningRule) isMadeAnew() bool {
	return r.isSecret() || r.reveals || r.Payload.ReadsChange() || len(r.Attached) > 0 || r.Actions != nil
}

// isFresh tells whether the caches are what a delivery of the key may be made of: of a secret, that it is what the server has;
// of others also that there is nothing to wait for.
func (r *runningRule) isFresh(key delta.Key) bool {
	if len(r.unsettled()) > 0 {
		return false
	}
	for _, i := range r.view.Informers() {
		if of := i.Selection().Namespace; of != "" && of != key.Namespace || i.HasSynced() {
			continue
		}
		state, _ := i.State()
		if r.isSecret() || state != source.NotServed && state != source.Forbidden {
			return false
		}
	}
	return true
}

// refill fills a change of a secret, of which only identities were kept, from the cache: as the object is by now, and without
// its old state. What is not there any more was deleted.
func (r *runningRule) refill(d delta.Delta) (delta.Delta, json.RawMessage) {
	o, ok := r.view.Get(d.Object.Namespace(), d.Object.Name())
	d.Old = nil
	switch {
	case d.Type == delta.Deleted:
	case ok && o.UID() == d.Object.UID():
		d.Object = o
	case r.Events.Has(delta.Deleted):
		d = delta.Delta{Type: delta.Deleted, Object: d.Object}
	}
	if r.Payload == nil {
		return d, nil
	}
	return d, r.anew(d)
}

// notKept stands for a payload of which nothing may be kept, and for one that cannot be made.
var notKept = json.RawMessage("null")

// anew is the payload of a change, made of the caches as they are now.
func (r *runningRule) anew(d delta.Delta) json.RawMessage {
	payload, err := r.remerge(d)
	if err != nil || payload == nil {
		return notKept
	}
	return payload
}

// isSecret tells whether the rule is about objects of which no text may be kept.
func (r *runningRule) isSecret() bool { return r.Source.Resource == secrets }

// isIdentity tells whether of an object nothing but its identity is left.
func isIdentity(o *object.Object) bool {
	alone := object.FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
	return bytes.Equal(o.JSON(), alone.JSON())
}
