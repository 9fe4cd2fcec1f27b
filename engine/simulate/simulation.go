package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// Options configure a Simulation. The zero Options work.
type Options struct {
	// Start is the time at which the simulation begins. The zero Start means 2026-01-01T00:00:00Z.
	Start time.Time
	// Answer answers the events of all handlers. nil acknowledges every event. It must not call the
	// Simulation.
	Answer func(Event) Answer
	// Acted says what comes of one of a rule's own actions: Retry and Reject are the API server's
	// answers, and the zero Answer means that the action was performed. The Event has no Actions. nil
	// performs all of them. It must not call the Simulation.
	Acted func(Event, handler.Action) Answer
	// Failed gets each failure of an expression that makes no dead letter. rule is empty if it is
	// of an index or a metric, which f.Reason names. It must not call the Simulation. nil discards.
	Failed func(rule string, f engine.ExpressionFailure)
	// Logger gets what the daemon would log, for example expressions that fail. nil discards.
	Logger *slog.Logger
	// Stopped makes the engine begin stopped: what is applied before Run exists when it starts, and
	// comes as synced.
	Stopped bool
}

// Simulation runs the rules of a plan in virtual time. New makes it, and Close ends it. Its methods
// must not be called at the same time.
type Simulation struct {
	plan    *plan.Plan
	options Options
	clock   *clock
	cluster *cluster
	memory  *state.InMemory // of the engine's state
	told    *told

	stepper     *engine.Stepper // nil while the engine is stopped
	hands       []hand
	isConnected bool
	missed      []change // what came while the engine was stopped or disconnected
	away        map[schema.GroupVersionResource]*away
}

// away is a resource that is not served, or whose changes do not arrive.
type away struct {
	isUnserved, isWithdrawn bool
	missed                  []change
}

// hand is an informer of the engine, with what it selects.
type hand struct {
	engine.Hand
	*plan.Selector
}

// New returns a Simulation of a plan. The cluster is empty, and the engine runs.
func New(p *plan.Plan, o Options) (*Simulation, error) {
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Simulation{
		plan: p, options: o, clock: &clock{now: o.Start}, cluster: newCluster(),
		memory: state.NewInMemory(), away: make(map[schema.GroupVersionResource]*away),
	}
	s.told = &told{clock: s.clock, acted: o.Acted, cluster: s.cluster}
	if o.Stopped {
		return s, nil
	}
	return s, s.Run(Resumption{})
}

// Now returns the time.
func (s *Simulation) Now() time.Time { return s.clock.now }

// Events returns what has come since the last call, in order.
func (s *Simulation) Events() []Event {
	all := s.told.events
	s.told.events = nil
	return all
}

// Status reports what the engine does, as the daemon does. ok is false while it is stopped.
func (s *Simulation) Status() (status admin.Status, ok bool) {
	if s.stepper == nil {
		return admin.Status{}, false
	}
	return s.stepper.Engine().Status(), true
}

// Resync has a rule see all objects of its source as synced, as informd rule resync does. Its
// events come with the next Advance.
func (s *Simulation) Resync(rule string) (selected int, err error) {
	if s.stepper == nil {
		return 0, errors.New("the engine is stopped")
	}
	return s.stepper.Engine().Resync(context.Background(), rule)
}

// Explain says why a rule does, or does not, deliver anything about an object, as informd explain
// does.
func (s *Simulation) Explain(rule, namespace, name string) (explain.Explanation, error) {
	if s.stepper == nil {
		return explain.Explanation{}, errors.New("the engine is stopped")
	}
	key := delta.Key{Namespace: namespace, Name: name}
	return s.stepper.Engine().Explain(rule, key, nil)
}

// Apply creates or replaces an object of a source's resource. The object is JSON. What an API
// server adds is made up where it is missing: apiVersion, uid, resourceVersion, creationTimestamp
// and generation. An object with another uid than the one that exists replaces it. Every source
// whose selection takes the object sees it. Its events come with the next Advance.
func (s *Simulation) Apply(source string, object []byte) error {
	resource, err := s.resource(source)
	if err != nil {
		return err
	}
	changes, err := s.cluster.apply(resource, object, s.clock.now)
	if err != nil {
		return err
	}
	return s.send(changes...)
}

// Get returns an object as it is in the cluster. ok is false if there is none.
func (s *Simulation) Get(source, namespace, name string) (object []byte, ok bool) {
	resource, err := s.resource(source)
	if err != nil {
		return nil, false
	}
	found := s.cluster.objects[resource][delta.Key{Namespace: namespace, Name: name}]
	if found == nil {
		return nil, false
	}
	return slices.Clone(found.text), true
}

// Delete deletes an object.
func (s *Simulation) Delete(source, namespace, name string) error {
	resource, err := s.resource(source)
	if err != nil {
		return err
	}
	key := delta.Key{Namespace: namespace, Name: name}
	c, err := s.cluster.delete(resource, key)
	if err != nil {
		return err
	}
	s.told.marked.Deleted(resource, key)
	return s.send(c)
}

// DeleteAs deletes an object as a watch has reported it: last is its last state, with the
// resourceVersion of the deletion. It is for recordings.
func (s *Simulation) DeleteAs(source string, last []byte) error {
	resource, err := s.resource(source)
	if err != nil {
		return err
	}
	c, err := s.cluster.deleteAs(resource, last)
	if err != nil {
		return err
	}
	return s.send(c)
}

func (s *Simulation) resource(source string) (schema.GroupVersionResource, error) {
	for _, of := range s.plan.Sources {
		if of.Name == source {
			return of.Resource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("there is no source %q", source)
}

// Advance moves the time on, and delivers everything that is due until then. A d of 0 delivers what
// is due now.
func (s *Simulation) Advance(d time.Duration) error {
	if d < 0 {
		return errors.New("time does not go back")
	}
	end := s.clock.now.Add(d)
	for s.stepper != nil {
		due := s.work()
		if due.IsZero() || due.After(end) {
			break
		}
		s.clock.now = due
	}
	s.clock.now = end
	return nil
}

// work does everything that is due now, and returns when something is due again; zero means never.
func (s *Simulation) work() (due time.Time) {
	for {
		s.clock.ring()
		due = s.stepper.Work(context.Background())
		timer := s.clock.next()
		if !timer.IsZero() && (due.IsZero() || timer.Before(due)) {
			due = timer
		}
		if due.IsZero() || due.After(s.clock.now) {
			return due
		}
	}
}

// Resumption says with what the engine runs again after it was stopped.
type Resumption struct {
	// StateLost means that it begins without its state, as in another replica.
	StateLost bool
	// HistoryLost means that the API server cannot tell what changed meanwhile. The engine lists.
	HistoryLost bool
	// ClockSet is by how much the clock was set meanwhile, forward or back.
	ClockSet time.Duration
	// Plan is the plan to run now. nil means the one before.
	Plan *plan.Plan
}

// Stop stops the engine. It has written its state, so it loses nothing; a crash would show the same
// events. Until Run, changes of the cluster are not seen.
func (s *Simulation) Stop() error {
	if s.stepper == nil {
		return errors.New("the engine is stopped already")
	}
	stepper := s.stepper
	for _, h := range s.hands {
		if s.isConnected && s.away[h.Selector.Resource] == nil { // as API servers do every minute
			h.Bookmark(s.version())
		}
	}
	s.hear()
	s.stepper, s.hands, s.isConnected = nil, nil, false
	return stepper.Stop()
}

// Run runs the engine after Stop. It resumes as the daemon does when it starts. Its events come
// with the next Advance.
func (s *Simulation) Run(r Resumption) error {
	if s.stepper != nil {
		return errors.New("the engine runs already")
	}
	if r.Plan != nil {
		s.plan = r.Plan
	}
	if r.StateLost {
		s.memory = state.NewInMemory()
	}
	s.clock.now = s.clock.now.Add(r.ClockSet)
	if err := s.begin(); err != nil {
		return err
	}
	missed := s.missed
	s.missed, s.isConnected = nil, true
	if r.HistoryLost {
		s.cluster.next() // the server has moved on
	}
	for _, h := range s.hands {
		if a := s.away[h.Selector.Resource]; a != nil {
			h.Unserve(a.isWithdrawn)
			continue
		}
		if err := s.resume(h, missed, r.HistoryLost); err != nil {
			return err
		}
	}
	s.stepper.Settle(context.Background())
	return nil
}

// Restart says how the engine is restarted.
type Restart struct {
	Down time.Duration // how long it is stopped
	Resumption
}

// Restart stops the engine and runs it again.
func (s *Simulation) Restart(r Restart) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.Advance(r.Down); err != nil {
		return err
	}
	return s.Run(r.Resumption)
}

// Disconnect makes the API server unreachable while the engine runs. Until Relist, changes of the
// cluster are not seen.
func (s *Simulation) Disconnect() {
	s.isConnected = false
	for _, h := range s.hands {
		h.Disconnect()
	}
}

// Relist opens the watches again, after Disconnect or as if they had just broken. If the history is
// lost, the informers list, and what came and went meanwhile is not seen.
func (s *Simulation) Relist(historyLost bool) error {
	if s.stepper == nil {
		return errors.New("the engine is stopped")
	}
	s.hear()
	missed := s.missed
	s.missed, s.isConnected = nil, true
	for _, h := range s.hands {
		if s.away[h.Selector.Resource] == nil {
			h.Connect()
		}
	}
	if !historyLost {
		return s.send(missed...)
	}
	s.cluster.next() // the server has moved on
	for _, h := range s.hands {
		if s.away[h.Selector.Resource] != nil {
			continue
		}
		if err := s.list(h); err != nil {
			return err
		}
	}
	return nil
}

// Stall silences the watch of a source's resource, while other watches go on. Until Relist, changes
// of its objects are not seen.
func (s *Simulation) Stall(source string) error {
	resource, err := s.begone(source, &away{})
	if err != nil {
		return err
	}
	for _, h := range s.of(resource) {
		h.Disconnect()
	}
	return nil
}

// hear ends all that Stall began. What was missed comes before what was missed since.
func (s *Simulation) hear() {
	byName := func(a, b schema.GroupVersionResource) int {
		return strings.Compare(a.String(), b.String())
	}
	for _, resource := range slices.SortedFunc(maps.Keys(s.away), byName) {
		if a := s.away[resource]; !a.isUnserved {
			delete(s.away, resource)
			s.missed = append(a.missed, s.missed...)
		}
	}
}

// Unserve has the API server serve a source's resource no more in that version. The objects live on
// in another version, unless the resource is withdrawn altogether. Until Serve, their changes are
// not seen.
func (s *Simulation) Unserve(source string, isWithdrawn bool) error {
	resource, err := s.begone(source, &away{isUnserved: true, isWithdrawn: isWithdrawn})
	if err != nil {
		return err
	}
	for _, h := range s.of(resource) {
		h.Unserve(isWithdrawn)
	}
	return nil
}

// Serve ends Unserve: the informers list the current objects.
func (s *Simulation) Serve(source string) error {
	resource, err := s.resource(source)
	if err != nil {
		return err
	}
	if a := s.away[resource]; a == nil || !a.isUnserved {
		return fmt.Errorf("%s is served", object.ResourceName(resource))
	}
	delete(s.away, resource)
	if !s.isConnected {
		return nil
	}
	for _, h := range s.of(resource) {
		if err := s.list(h); err != nil {
			return err
		}
	}
	return nil
}

// begone notes that a source's resource is away.
func (s *Simulation) begone(source string, a *away) (schema.GroupVersionResource, error) {
	resource, err := s.resource(source)
	if err == nil && s.away[resource] != nil {
		err = fmt.Errorf("%s is away already", object.ResourceName(resource))
	}
	if err == nil {
		s.away[resource] = a
	}
	return resource, err
}

// of returns the informers of a resource.
func (s *Simulation) of(resource schema.GroupVersionResource) (found []hand) {
	for _, h := range s.hands {
		if h.Selector.Resource == resource {
			found = append(found, h)
		}
	}
	return found
}

// Close stops the engine if it runs.
func (s *Simulation) Close() error {
	if s.stepper == nil {
		return nil
	}
	return s.Stop()
}

// begin makes an engine over the state.
func (s *Simulation) begin() error {
	store, err := state.Open("/state", state.Options{
		Logger: s.options.Logger, Clock: s.clock, Memory: s.memory,
	})
	if err != nil {
		return err
	}
	handlers := make(map[string]engine.Handler, len(s.plan.Handlers))
	for _, h := range s.plan.Handlers {
		handlers[h.Name] = recipient{s, h.Name}
	}
	s.stepper, err = engine.NewStepper(s.plan, handlers, engine.Options{
		Logger: s.options.Logger, Clock: s.clock, AfterFunc: s.clock.AfterFunc, State: store,
		Stepping: &engine.Stepping{
			Cluster: s.told, Died: s.told.died, Failed: s.options.Failed,
		},
	})
	if err != nil {
		return err
	}
	for _, h := range s.stepper.Hands() {
		of, err := plan.NewSelector(h.Selection)
		if err != nil {
			return errors.Join(err, s.Stop())
		}
		s.hands = append(s.hands, hand{h, of})
	}
	return nil
}

// resume begins an informer: it follows the cluster from where it was, or lists.
func (s *Simulation) resume(h hand, missed []change, historyLost bool) error {
	if h.Position() == "" || historyLost {
		return s.list(h)
	}
	h.Resume()
	for _, c := range missed {
		if err := h.take(c); err != nil {
			return err
		}
	}
	if h.CaughtUp(s.version()) {
		return s.list(h)
	}
	return nil
}

func (s *Simulation) list(h hand) error {
	return h.List(s.version(), s.cluster.list(h.Selector))
}

// version returns the resourceVersion of the cluster. A cluster has one before its first object.
func (s *Simulation) version() string { return strconv.FormatUint(s.cluster.version, 10) }

// send sends changes to the informers.
func (s *Simulation) send(changes ...change) error {
	if !s.isConnected {
		s.missed = append(s.missed, changes...)
		return nil
	}
	for _, c := range changes {
		if a := s.away[c.resource]; a != nil {
			if !a.isUnserved { // otherwise Serve lists
				a.missed = append(a.missed, c)
			}
			continue
		}
		for _, h := range s.hands {
			if err := h.take(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// take sends the informer what a watch of its selection reports of a change.
func (h hand) take(c change) error {
	switch {
	case h.Selector.Resource != c.resource:
		return nil
	case has(h.Selector, c.after):
		return h.Hand.Apply(c.after.text)
	case has(h.Selector, c.before) && c.last != nil:
		return h.Hand.Delete(c.last)
	case has(h.Selector, c.before):
		return h.Hand.Delete(c.before.at(c.version))
	}
	return nil
}
