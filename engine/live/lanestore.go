package live

import (
	"encoding/json"
	"slices"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state"
)

// laneStore records the deliveries of one rule. It never writes text of Secrets. When it loads
// deliveries, it remakes the missing text from the caches.
type laneStore struct {
	lane     *state.Lane
	preparer *Preparer
	own      dispatch.Own // nil: the rule receives its own changes, or makes none
}

// laneIn returns a lane of the rule in the state.
func (r *Rule) laneIn(name string) *state.Lane {
	return r.Memory.store.Lane(name, state.LaneOptions{Secret: r.Preparer.IsSecret()})
}

// KeepLane opens the rule's lane in the state, and returns the store that keeps the deliveries
// there. r.Own is set by then.
func (r *Rule) KeepLane() queue.Store[delta.Key, delivery.Delivery] {
	r.laneStore = newLaneStore(r, r.ID)
	return r.laneStore
}

// newLaneStore returns a store that keeps deliveries of a rule in a lane of the state.
func newLaneStore(r *Rule, lane string) *laneStore {
	return &laneStore{r.laneIn(lane), r.Preparer, r.Own}
}

// OpenLanes opens the rule's lanes in the state once more: its id has changed, or its records were
// dropped. Without a state it does nothing.
func (r *Rule) OpenLanes() {
	if r.laneStore != nil {
		r.laneStore.lane = r.laneIn(r.ID)
	}
	if r.gathered != nil {
		r.gathered.lane = r.laneIn(gatheredLane(r.ID))
	}
}

// ForgetLanes makes the state forget the lanes of a rule that is about to get another id.
func (r *Rule) ForgetLanes() {
	r.Memory.store.ForgetLane(r.ID)
	r.Memory.store.ForgetLane(gatheredLane(r.ID))
}

// DropRule drops all records of a rule from a store, also what it has gathered. It is called within
// a cut.
func DropRule(store *state.Store, id string) {
	store.DropRule(id)
	store.DropRule(gatheredLane(id))
}

// Keys returns the objects for which deliveries of the rule wait in the state.
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
		s.recognize(&found[i].Record)
	}
	return found, nil
}

// recognize gives a delivery its Version if the rule made the change, so that the lane drops it. It
// was unknown when it was recorded, and is known now. A deletion stays a delivery: it may have
// changes of others in it.
func (s *laneStore) recognize(r *queue.Record[delivery.Delivery]) {
	d := &r.Value
	hasHistory := r.Redriven || d.Attempts > 0 || d.Answer != nil || len(d.Items) > 0
	if s.own == nil || hasHistory || d.Delta.Type == delta.Deleted {
		return
	}
	if version := action.VersionOf(d.Delta); s.own.Mine(d.Delta.Key(), version) {
		d.Version = version
	}
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
