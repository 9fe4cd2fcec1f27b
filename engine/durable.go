package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/state"
)

// durable is what connects the engine with its state. What is kept of an informer is said by its [record], what of a rule's
// deliveries by its [laneStore].
type durable struct {
	store   *state.Store
	server  string
	records map[*plan.Informer]*record
	lanes   map[string]*laneStore // by rule
}

func newDurable(store *state.Store, server string) *durable {
	return &durable{
		store: store, server: server, records: make(map[*plan.Informer]*record), lanes: make(map[string]*laneStore),
	}
}

// begin begins a change of what is recorded, and end ends it. The nil durable records nothing.
func (d *durable) begin() (end func()) {
	if d == nil {
		return func() {}
	}
	d.store.Begin()
	return d.store.End
}

// changed are the records of which rules have to be told whose where is another.
func (d *durable) changed() (out []*record) {
	if d == nil {
		return nil
	}
	for _, r := range d.records {
		if r.saved != nil && len(r.saved.changed) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// lane is where the deliveries of a rule are recorded.
func (d *durable) lane(r *runningRule) *laneStore {
	lane := &laneStore{d.store.Lane(r.Name, state.LaneOptions{Secret: r.isSecret()}), r}
	d.lanes[r.Name] = lane
	return lane
}

// loaded is what a state had when it was opened.
type loaded struct {
	snapshots map[*record]state.Snapshot
	rules     map[string]state.Rule
	informers []string // ids
	letters   []state.Letter
	waiting   map[string][]state.LaneKey // by rule
}

// restore takes up what the state has, once it is known to be this cluster's. It returns early when ctx ends.
func (e *Engine) restore(ctx context.Context) error {
	if e.durable == nil {
		return nil
	}
	uid, err := e.informers.ClusterUID(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for the cluster's identity: %w", err)
	}
	if uid == "" {
		e.log.Warn("the namespace kube-system may not be read: the state cannot be bound to this cluster, only to its address",
			"server", e.durable.server)
	}
	if err := e.durable.store.Bind(state.Cluster{UID: uid, Server: e.durable.server}); err != nil {
		return err
	}
	from, err := e.load()
	if errors.Is(err, state.ErrSetAside) { // the store has said so; there is nothing any more
		from, err = e.load()
	}
	if err != nil {
		return err
	}
	e.takeUp(from)
	return nil
}

// load reads everything before anything is used.
func (e *Engine) load() (from loaded, err error) {
	from = loaded{snapshots: make(map[*record]state.Snapshot), rules: make(map[string]state.Rule), waiting: make(map[string][]state.LaneKey)}
	rules, err := e.durable.store.Rules()
	if err != nil {
		return loaded{}, err
	}
	for _, r := range rules {
		from.rules[r.Name] = r
	}
	if from.letters, err = e.durable.store.Letters(); err != nil {
		return loaded{}, err
	}
	if from.informers, err = e.durable.store.Informers(); err != nil {
		return loaded{}, err
	}
	for _, r := range e.durable.records {
		if from.snapshots[r], err = r.informer.Load(); err != nil {
			return loaded{}, err
		}
	}
	for name, lane := range e.durable.lanes {
		if from.waiting[name], err = lane.lane.Keys(); err != nil {
			return loaded{}, err
		}
	}
	return from, nil
}

// takeUp has informers, lanes and dead letters go on from what was loaded.
func (e *Engine) takeUp(from loaded) {
	e.dropUnknown(from)
	letters := make([]dispatch.Letter, 0, len(from.letters))
	for _, l := range from.letters {
		letters = append(letters, letterOf(l))
	}
	end := e.durable.begin() // there may be more than there may be
	e.dead.Restore(letters)
	end()
	waiting := 0
	for _, r := range e.rules {
		for _, k := range from.waiting[r.Name] {
			r.lane.Restore(k.Key, k.N, k.First, k.Last, k.Bytes)
			waiting += k.N
		}
		r.takeUp(from.rules[r.Name].Paused)
	}
	objects := 0
	for _, r := range e.durable.records {
		snapshot := from.snapshots[r]
		objects += len(snapshot.Objects)
		r.takeUp(snapshot, from.rules)
	}
	end = e.durable.begin()
	for _, r := range e.durable.records { // after all of what rules knew was taken up
		if r.saved == nil {
			for _, rule := range r.rules {
				if !r.waitOf(rule).hides(rule) { // else it has seen what there is when it goes on
					rule.saw(r)
				}
			}
		}
	}
	for _, r := range e.rules { // also one that has seen nothing yet: what waits for it is to be found by its name
		r.known()
	}
	end()
	if objects+waiting+len(letters) > 0 {
		e.log.Info("going on from the saved state", "objects", objects, "waiting", waiting, "dead", len(letters))
	}
}

// dropUnknown drops what was kept of informers and rules that there are none of any more.
func (e *Engine) dropUnknown(from loaded) {
	e.durable.store.Begin()
	defer e.durable.store.End()
	for name, saved := range from.rules {
		r := e.rule(name)
		if r != nil && r.resource() == saved.Resource {
			continue
		}
		waiting := 0
		for _, k := range from.waiting[name] {
			waiting += k.N
		}
		reason := "a rule is gone"
		if r != nil {
			reason = "a rule is about another resource"
		}
		e.log.Warn(reason+", and what waited for its deliveries is dropped", "rule", name, "waiting", waiting)
		e.durable.store.DropRule(name)
		delete(from.rules, name)
		delete(from.waiting, name)
		if r != nil {
			e.durable.lanes[name].lane = e.durable.store.Lane(name, state.LaneOptions{Secret: r.isSecret()})
		}
	}
	for _, id := range from.informers {
		if !e.durable.watches(id) {
			e.durable.store.DropInformer(id)
		}
	}
}

func (d *durable) watches(id string) bool {
	for _, r := range d.records {
		if r.id == id {
			return true
		}
	}
	return false
}
