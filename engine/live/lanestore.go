package live

import (
	"encoding/json"
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state"
)

// laneStore records the deliveries of one rule. It never writes text of Secrets. When it loads
// deliveries, it remakes the missing text from the caches.
type laneStore struct {
	lane     *state.Lane
	preparer *Preparer
}

// laneIn returns a lane of the rule in the state.
func (r *Rule) laneIn(name string) *state.Lane {
	return r.Memory.store.Lane(name, state.LaneOptions{Secret: r.Preparer.IsSecret()})
}

// KeepLane has the rule's deliveries kept in the state, with the result.
func (r *Rule) KeepLane() queue.Store[delta.Key, delivery.Delivery] {
	r.laneStore = &laneStore{r.laneIn(r.ID), r.Preparer}
	return r.laneStore
}

// OpenLanes opens the rule's lanes in the state, under its id.
func (r *Rule) OpenLanes() {
	if r.laneStore != nil {
		r.laneStore.lane = r.laneIn(r.ID)
	}
	if r.gathered != nil {
		r.gathered.lane = r.laneIn(gatheredLane(r.ID))
	}
}

// ForgetLanes makes the state forget the lanes of a rule that is to have another id.
func (r *Rule) ForgetLanes() {
	r.Memory.store.ForgetLane(r.ID)
	r.Memory.store.ForgetLane(gatheredLane(r.ID))
}

// DropRule drops the records of a rule from a store. It is called within a cut.
func DropRule(store *state.Store, id string) {
	store.DropRule(id)
	store.DropRule(gatheredLane(id))
}

// Keys returns what waits in the state for the rule's delivery.
func (r *Rule) Keys() ([]state.LaneKey, error) { return r.laneStore.lane.Keys() }

var _ queue.Store[delta.Key, delivery.Delivery] = (*laneStore)(nil)

// Put implements queue.Store.
func (s *laneStore) Put(
	n uint64, key delta.Key, r queue.Record[delivery.Delivery],
) (cut uint64) {
	if s.preparer.Reveals() {
		if r.Value.Payload != nil {
			r.Value.Payload, r.Value.Stale = prepare.Null, true
		}
		r.Value.Items = slices.Clone(r.Value.Items)
		for i := range r.Value.Items {
			if item := &r.Value.Items[i]; item.Payload != nil {
				item.Payload, item.Stale = prepare.Null, true
			}
		}
	}
	return s.lane.Put(n, key, r)
}

// Delete implements queue.Store.
func (s *laneStore) Delete(n uint64, key delta.Key) { s.lane.Delete(n, key) }

// Room implements queue.Store.
func (s *laneStore) Room(size int64) bool { return s.lane.Room(size) }

// Load implements queue.Store. If deliveries are made from the caches, it returns errNotSynced
// until these are fresh. They fill Secrets, when and payload may look into them, and attachments
// and actions are made from them.
func (s *laneStore) Load(
	key delta.Key, after uint64, maxItems int, maxBytes int64,
) ([]queue.Numbered[delivery.Delivery], error) {
	if s.preparer.IsMadeOfCaches() && !s.preparer.isFresh(key) {
		return nil, errNotSynced
	}
	found, err := s.lane.Load(key, after, maxItems, maxBytes)
	if err != nil {
		return nil, err
	}
	for i := range found {
		d := &found[i].Value
		isUndecided := func(i delivery.Item) bool { return i.Undecided }
		if (d.Undecided || slices.ContainsFunc(d.Items, isUndecided)) && !s.preparer.isFresh(key) {
			return nil, errNotSynced
		}
		s.fill(d)
	}
	return found, nil
}

// fill restores what could not be written.
func (s *laneStore) fill(d *delivery.Delivery) {
	s.fillOne(&d.Delta, &d.Payload, &d.Stale)
	for i := range d.Items {
		item := &d.Items[i]
		s.fillOne(&item.Delta, &item.Payload, &item.Stale)
	}
}

// fillOne restores one change. If its payload cannot be made, the change is stale and has none.
// The attempt then tries once more, and makes a dead letter of the event if that fails.
func (s *laneStore) fillOne(d *delta.Delta, payload *json.RawMessage, isStale *bool) {
	switch {
	case s.preparer.IsSecret():
		*d, *payload = s.preparer.refill(*d)
	case s.preparer.Reveals() && *payload != nil:
		*payload = s.preparer.payload(*d)
	default:
		return
	}
	*isStale = s.preparer.Rule.Payload != nil && *payload == nil
}
