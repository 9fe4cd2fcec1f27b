package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
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
				rule.saw(r)
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

// takeUp takes up whether the rule was paused, unless somebody has said something else meanwhile.
func (r *runningRule) takeUp(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked && paused {
		r.paused = true
		r.lane.Pause()
	}
}

// saw, within begin and end, records that the rule, as it is now, has been told of what an informer has.
func (r *runningRule) saw(at *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string]string)
	}
	r.seen[at.id] = r.whereText()
	r.put()
}

// knew says what the rule's where was when it saw an informer last. It has not been told yet what is different.
func (r *runningRule) knew(at *record, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string]string)
	}
	r.seen[at.id] = where
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
	r.asked, r.paused = true, paused
	if r.isKnown { // else it is recorded with what was saved of it
		r.put()
	}
}

// known, within begin and end, records the rule for the first time in this run.
func (r *runningRule) known() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isKnown = true
	r.put()
}

// put, with r.mu, records the rule.
func (r *runningRule) put() {
	if r.store != nil {
		r.store.PutRule(state.Rule{Name: r.Name, Resource: r.resource(), Seen: maps.Clone(r.seen), Paused: r.paused})
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

func (r *runningRule) whereText() string {
	if r.Where == nil {
		return ""
	}
	return r.Where.Text()
}

func (r *runningRule) resource() string { return resourceName(r.Source.Resource) }

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
type letterStore struct{ store *state.Store }

func (s letterStore) PutLetter(l dispatch.Letter) {
	resource := schema.GroupVersionResource(l.Resource)
	s.store.PutLetter(state.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: resourceName(resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
		Delta: l.Match.Delta, Payload: l.Match.Payload, Secret: resource == secrets,
	})
}

func (s letterStore) DeleteLetter(id string) { s.store.DeleteLetter(id) }

func letterOf(l state.Letter) dispatch.Letter {
	letter := dispatch.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: resourceOf(l.Resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
	}
	letter.Match.Delta, letter.Match.Payload = l.Delta, l.Payload
	if l.Secret && l.Reason == "" {
		letter.Reason = "not kept over the restart, as it may quote the secret"
	}
	return letter
}

// resourceOf is the inverse of resourceName.
func resourceOf(name string) (r handler.Resource) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 {
		r.Group, parts = parts[0], parts[1:]
	}
	if len(parts) == 2 {
		r.Version, r.Resource = parts[0], parts[1]
	}
	return r
}
