package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
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
		r.takeUp(from.rules[r.Name])
	}
	objects := 0
	for _, r := range e.durable.records {
		snapshot := from.snapshots[r]
		objects += len(snapshot.Objects)
		r.takeUp(snapshot, from.rules)
	}
	if objects+waiting+len(letters) > 0 {
		e.log.Info("going on from the saved state", "objects", objects, "waiting", waiting, "dead", len(letters))
	}
	e.durable.store.Begin()
	defer e.durable.store.End()
	for _, r := range e.rules {
		r.settle()
	}
}

// dropUnknown drops what was kept of informers and rules that there are none of any more.
func (e *Engine) dropUnknown(from loaded) {
	e.durable.store.Begin()
	defer e.durable.store.End()
	for name := range from.rules {
		if e.rule(name) == nil {
			e.log.Warn("a rule is gone, and what waited for its deliveries is dropped", "rule", name)
			e.durable.store.DropRule(name)
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

// takeUp takes up what is known of the rule.
func (r *runningRule) takeUp(saved state.Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = saved
	if saved.Paused {
		r.lane.Pause()
	}
}

// settle, within Begin and End, records the rule as it is now, unless what it was when the state was saved is needed still.
func (r *runningRule) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil || len(r.following) > 0 {
		return
	}
	r.saved = state.Rule{Name: r.Name, Where: r.whereText(), Informers: r.informerIDs(), Paused: r.saved.Paused}
	r.store.PutRule(r.saved)
}

// pause, within begin and end, has the rule's deliveries wait or not, and records it.
func (r *runningRule) pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if paused {
		r.lane.Pause()
	} else {
		r.lane.Resume()
	}
	r.saved.Paused = paused
	if r.store != nil && r.saved.Name != "" { // else it will be recorded with the rest
		r.store.PutRule(r.saved)
	}
}

// catchUp says that an informer is to catch up with what was saved. What the last process was killed over is told again
// meanwhile: it may have been delivered, and must not be merged as if it had not.
func (r *runningRule) catchUp(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.catching == nil {
		r.catching = make(map[*record]bool)
	}
	r.catching[at] = true
	r.lane.Doubt(true)
}

// caughtUp says that it has.
func (r *runningRule) caughtUp(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.catching, at); len(r.catching) == 0 {
		r.lane.Doubt(false)
	}
}

// follow says that the rule is late at an informer, and what was saved of the rule needed until it has caught up.
func (r *runningRule) follow(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.following == nil {
		r.following = make(map[*record]bool)
	}
	r.following[at] = true
}

// followed says that it has.
func (r *runningRule) followed(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.following, at)
}

func (r *runningRule) whereText() string {
	if r.Where == nil {
		return ""
	}
	return r.Where.Text()
}

func (r *runningRule) informerIDs() (ids []string) {
	for _, i := range r.Source.Informers {
		ids = append(ids, informerID(i))
	}
	return ids
}

// informerID is what an informer's state is kept under.
func informerID(i *plan.Informer) string {
	return fmt.Sprint(source.Selection(i.Selection))
}

// kept is which paths the informer keeps, for the state: "" is all of an object.
func kept(p *object.Paths) string {
	if p == nil {
		return ""
	}
	text, err := json.Marshal(p.List())
	if err != nil {
		panic(err) // strings have no errors
	}
	return string(text)
}

// covers tells whether objects of which saved was kept have all that is to be kept now.
func covers(saved string, now *object.Paths) bool {
	if saved == "" {
		return true
	}
	var paths [][]string
	if json.Unmarshal([]byte(saved), &paths) != nil || now == nil {
		return false
	}
	have := new(object.Paths)
	for _, path := range paths {
		have.Add(path...)
	}
	return !slices.ContainsFunc(now.List(), func(path []string) bool { return !have.Covers(path...) })
}

// letterStore records dead letters.
type letterStore struct {
	store *state.Store
	rules func(name string) *runningRule
}

func (s letterStore) PutLetter(l dispatch.Letter) {
	r := s.rules(l.Rule)
	s.store.PutLetter(state.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
		Delta: l.Match.Delta, Payload: l.Match.Payload, Secret: r == nil || r.isSecret(),
	})
}

func (s letterStore) DeleteLetter(id string) { s.store.DeleteLetter(id) }

func letterOf(l state.Letter) dispatch.Letter {
	letter := dispatch.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
	}
	letter.Match.Delta, letter.Match.Payload = l.Delta, l.Payload
	if l.Secret && l.Reason == "" {
		letter.Reason = "not kept over the restart, as it may quote the secret"
	}
	return letter
}
