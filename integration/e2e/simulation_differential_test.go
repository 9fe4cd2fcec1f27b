package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

var (
	simulatedMaps    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	simulatedSecrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	simulatedNodes   = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// sourceOf names a source of each resource.
var sourceOf = map[schema.GroupVersionResource]string{simulatedMaps: "maps", simulatedSecrets: "hidden", simulatedNodes: "zones"}

// began is when all histories begin.
var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// patience is how long a test waits for something that must happen. Only a failing test uses it up.
const patience = 2 * time.Minute

// howMany returns how many histories a test runs, and the seed of the first. An environment variable
// and INFORMD_SEED say it; otherwise there are few, or many under make soak.
func howMany(variable string, few, many uint64) (histories, seed uint64) {
	histories, seed = few, 1
	if harness.Soak() {
		histories = many
	}
	for name, to := range map[string]*uint64{variable: &histories, "INFORMD_SEED": &seed} {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			*to = n
		}
	}
	return histories, seed
}

// TestSimulatorAgainstEngine runs random histories through a Simulation and through an engine that
// runs against a server, with goroutines, watches and a state on disk. INFORMD_HISTORIES says how
// many, and INFORMD_SEED with which to begin.
func TestSimulatorAgainstEngine(t *testing.T) {
	t.Parallel()
	histories, seed := howMany("INFORMD_HISTORIES", 8, 300)
	var compared atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for n := range histories {
			t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
				t.Parallel()
				compared.Add(int64(compare(t, seed+n)))
			})
		}
	})
	t.Logf("%d histories, %d events", histories, compared.Load())
}

// history makes the rules and the steps of one comparison.
type history struct {
	*rand.Rand
	t     *testing.T
	seed  uint64
	rules string // the manifests of the last plan
	// hasLatest says that a rule merges changes that wait. Then an object changes at most once while
	// the engine is stopped, because it depends on the weather what the engine merges.
	hasLatest bool
	// hasGroups says that rules may have groups, and that one may have no source.
	hasGroups bool
	// gathersMoments says that a rule gathers the events of a moment. Then no moment passes while the
	// engine is stopped: once it runs again, what it missed and a group that is due come at once, in
	// no order.
	gathersMoments bool
	// isOrdered says that groups have changes of several objects. Then whatever shows the engine many
	// objects at once, in no order, is left out. It begins with nothing and keeps its state, the
	// history of the server is not lost, and another plan has the same rules with other groups.
	isOrdered bool
	specs     []spec // of the rules, if isOrdered
}

// spec is what a rule of an ordered history keeps, whatever its group. by is what groups are by.
type spec struct{ text, by string }

func compare(t *testing.T, seed uint64) (events int) {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 16)), t: t, seed: seed, hasGroups: true}
	h.isOrdered = h.IntN(3) == 0
	p := h.plan()
	real := newReal(t)
	sim, err := simulate.New(p, simulate.Options{Start: began, Answer: answer, Stopped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	both := &sides{history: h, real: real, sim: sim, plan: p, told: make(map[string][]string)}
	for range h.IntN(8) {
		if !h.isOrdered {
			both.change()
		}
	}
	both.run(simulate.Resumption{})
	for range 4 {
		for range 10 + h.IntN(20) {
			if h.IntN(4) == 0 {
				both.pass()
			} else {
				both.change()
			}
			both.settle()
		}
		both.restart()
	}
	both.settle()
	both.stop()
	got := real.perObject()
	if diff := gocmp.Diff(both.told, got); diff != "" {
		t.Errorf("seed %d: (-simulation +engine)\n%s\n%s", seed, diff, strings.Join(both.log, "\n"))
	}
	return both.count
}

// pick returns one of the values.
func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }

const handlers = `
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec: {builtin: log}
`

// plan makes a plan with random rules. The rules of all plans of a history have the same names.
func (h *history) plan() *plan.Plan {
	h.t.Helper()
	var text strings.Builder
	manifest := func(kind, name, spec string) {
		fmt.Fprintf(&text, "---\napiVersion: informd.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n", kind, name, spec)
	}
	keep := pick(h, "whole", "needed")
	if h.isOrdered { // what is kept must not change either
		keep = "whole"
	}
	manifest("Source", "maps", "resource: v1/configmaps, keep: "+keep)
	manifest("Source", "labelled", "resource: v1/configmaps, labelSelector: app=web, keep: "+keep)
	manifest("Source", "shop", "resource: v1/configmaps, namespaces: [shop], keep: "+keep)
	manifest("Source", "hidden", "resource: v1/secrets, keep: "+keep)
	manifest("Source", "zones", "resource: v1/nodes, indexes: {size: object.data.size}, keep: "+keep)
	text.WriteString(handlers)
	if h.isOrdered {
		h.groupedRules(manifest)
		return h.compile(text.String())
	}
	h.hasLatest, h.gathersMoments = false, false
	if cron := pick(h, "", "*/2 * * * *", "* * * * *"); h.hasGroups && cron != "" {
		group := pick(h, "", "", ", group: {wait: 2m}", ", group: {every: 3m}")
		h.gathersMoments = group != ""
		manifest("Rule", "alone", "handler: h, schedule: {cron: '"+cron+"'}, delivery: every, "+
			`payload: 'map(lookup("zones.size", "1"), .metadata.name)'`+group)
	}
	for i := range 5 {
		source := pick(h, "maps", "maps", "labelled", "shop", "hidden", "hidden", "zones")
		spec := "handler: h, source: " + source
		delivery := pick(h, "latest", "every", "every")
		h.hasLatest = h.hasLatest || delivery == "latest"
		spec += ", delivery: " + delivery
		if where := pick(h, "", `object.data.size == "1"`, `object.data.size != "2"`, `object.metadata.labels.app == "web"`,
			`object.data.size in ["1", "3"]`, `object.data.due != nil`); where != "" {
			spec += ", where: '" + where + "'"
		}
		if events := pick(h, "", "", "added, deleted, synced", "added, updated", "updated, deleted"); events != "" {
			spec += ", events: [" + events + "]"
		}
		// A rule that gathers looks into no other source, also not in another plan. It might look when a
		// change comes or when its group is delivered, and which of the two is a matter of chance.
		mayGather := h.hasGroups && i < 3
		group := ""
		if mayGather {
			group = h.group(pick(h, "none", "none", "", "[object.metadata.name, object.metadata.namespace]"))
		}
		zones := `map(lookup("zones.size", object.data.size), .metadata.name)`
		found := `len(lookup("zones.size", object.data.size)) > 0`
		if source == "zones" || mayGather { // while it catches up, what it finds in its own source depends on the weather
			zones, found = "object.data", ""
		}
		if payload := pick(h, "", `[event, object.data.size, old.data.size]`, `object.data`, zones); payload != "" || keep == "needed" {
			spec += ", payload: '" + cmp.Or(payload, "object.metadata.labels") + "'"
		}
		when := pick(h, "", "", "", `object.data.size != old.data.size`, found)
		if when != "" {
			spec += ", when: '" + when + "'"
		}
		switch h.IntN(7) {
		case 0:
			spec += ", for: 1m"
		case 1:
			spec += ", for: 3m"
		case 2:
			spec += ", due: 'object.data.due == nil ? nil : time(object.data.due)'"
		case 4:
			if when == "" && delivery == "every" && !strings.Contains(spec, "events:") {
				spec += `, schedule: {cron: "*/2 * * * *"}, events: [synced, deleted]`
			}
		case 3:
			// With a when, nobody sees when the engine is done with a round. One that was missed comes
			// right after the start, and then it depends on the weather whether latest merges it.
			if when == "" && delivery == "every" {
				spec += ", resync: 1m"
			}
		}
		// Rounds are left out for the same reason. What counts together are changes of one object,
		// because the order of others depends on the weather.
		if count := pick(h, "", "", "times: 2, within: 2m", "times: 3, within: 30m", "times: 2, within: 3m, by: [object.metadata.name, object.metadata.namespace, object.data.size]",
			"times: 2, within: 2m, at: 'object.data.due == nil ? nil : time(object.data.due)'"); count != "" && delivery == "every" &&
			!strings.Contains(spec, "schedule") && !strings.Contains(spec, "resync") {
			spec += ", count: {" + strings.Replace(strings.Replace(count, "[", "'[", 1), "]", "]'", 1) + "}"
		}
		if group != "" {
			isMoment := func(field string) bool { return strings.Contains(spec, field) }
			h.gathersMoments = h.gathersMoments || slices.ContainsFunc([]string{" for:", " due:", " schedule:", " resync:"}, isMoment)
		}
		spec += group
		manifest("Rule", fmt.Sprint("r", i), spec)
	}
	return h.compile(text.String())
}

// group returns a random group by an expression, or by the object if there is none.
func (h *history) group(by string) string {
	if by == "none" {
		return ""
	}
	fields := pick(h, "wait: 1m", "wait: 2m", "every: 2m", "every: 3m", "wait: 1m, every: 1m", "wait: 2m, every: 3m")
	if by != "" {
		fields += ", by: '" + by + "'"
	}
	return ", group: {" + fields + "}"
}

// groupedRules makes rules with groups of many objects. Only their groups differ from one plan to
// the next. Their payloads name the group, so that its events can be compared in their order.
func (h *history) groupedRules(manifest func(kind, name, spec string)) {
	if h.specs == nil {
		for range 5 {
			text := "handler: h, source: " + pick(h, "maps", "maps", "labelled", "shop", "hidden", "zones") +
				", delivery: " + pick(h, "latest", "every")
			if where := pick(h, "", "", `object.data.size != "2"`, `object.metadata.labels.app == "web"`); where != "" {
				text += ", where: '" + where + "'"
			}
			if events := pick(h, "", "", "added, deleted, synced", "updated, deleted"); events != "" {
				text += ", events: [" + events + "]"
			}
			if when := pick(h, "", "", `object.data.size != old.data.size`); when != "" {
				text += ", when: '" + when + "'"
			}
			if count := pick(h, "", "", "times: 2, within: 2m", "times: 2, within: 30m"); count != "" {
				text += ", count: {" + count + "}"
			}
			by := pick(h, "1", "object.data.size", "[object.metadata.namespace, object.data.size]")
			text += ", payload: '{group: " + by + ", change: [event, object.data.size, old.data.size]}'"
			h.specs = append(h.specs, spec{text, by})
		}
	}
	h.hasLatest = true // a rule may have no group in the next plan
	for i, s := range h.specs {
		manifest("Rule", fmt.Sprint("r", i), s.text+h.group(pick(h, "none", s.by, s.by, s.by)))
	}
}

func (h *history) compile(text string) *plan.Plan {
	h.t.Helper()
	h.rules = text
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(text)}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		h.t.Fatalf("%v in\n%s", m, text)
	}
	return p
}

// answer rejects some events, which then are dead letters.
func answer(e simulate.Event) simulate.Answer {
	if e.Event.Event == "updated" && e.Event.Name == "d" {
		return simulate.Answer{Reject: "no"}
	}
	return simulate.Answer{}
}

// sides are the simulation and the engine.
type sides struct {
	*history
	real  *real
	sim   *simulate.Simulation
	plan  *plan.Plan
	told  map[string][]string // by the simulation, about each object, by rule
	count int
	log   []string
	// changed are the objects that have changed since the engine was stopped.
	changed map[string]bool
}

func (s *sides) note(format string, args ...any) {
	now := ""
	if s.sim != nil {
		now = s.sim.Now().Format(time.TimeOnly) + " "
	}
	s.log = append(s.log, now+fmt.Sprintf(format, args...))
}

func (s *sides) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("seed %d: %v\n%s", s.seed, err, strings.Join(s.log, "\n"))
	}
}

// change applies or deletes an object, in both worlds.
func (s *sides) change() {
	s.t.Helper()
	resource := pick(s.history, simulatedMaps, simulatedMaps, simulatedSecrets, simulatedNodes)
	namespace, name := pick(s.history, "shop", "web"), pick(s.history, "a", "b", "c", "d")
	if resource == simulatedNodes {
		namespace = ""
	}
	key := resource.Resource + " " + namespace + "/" + name
	if s.changed != nil && s.hasLatest && s.changed[key] {
		return
	}
	if s.changed != nil {
		s.changed[key] = true
	}
	if _, ok := s.sim.Get(sourceOf[resource], namespace, name); ok && s.IntN(4) == 0 {
		s.note("delete %s", key)
		s.real.server.Delete(resource, namespace, name)
		s.must(s.sim.Delete(sourceOf[resource], namespace, name))
		return
	}
	data := map[string]string{"size": pick(s.history, "1", "2", "3")}
	if s.IntN(2) == 0 {
		data["due"] = s.sim.Now().Add(time.Duration(s.IntN(6)-1) * time.Minute).Format(time.RFC3339)
	}
	object := map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]string{"app": pick(s.history, "web", "db")}},
		"data":     data,
	}
	stored, err := s.real.server.Apply(resource, object).MarshalJSON()
	s.must(err)
	s.note("apply %s %s", key, stored)
	s.must(s.sim.Apply(sourceOf[resource], stored))
}

// pass lets a minute pass.
func (s *sides) pass() {
	s.t.Helper()
	s.note("pass")
	s.must(s.sim.Advance(time.Minute))
	s.real.pass(time.Minute)
}

// settle delivers what is due, and waits until the engine has done so, too.
func (s *sides) settle() {
	s.t.Helper()
	s.must(s.sim.Advance(0))
	for _, e := range s.sim.Events() {
		key, text := line(e.Event)
		s.told[key] = append(s.told[key], text)
		s.count++
		s.note("  %s: %s", key, text)
	}
	status, _ := s.sim.Status()
	s.real.settle(s.count, status, func() string { return fmt.Sprintf("seed %d\n%s", s.seed, strings.Join(s.log, "\n")) })
}

func (s *sides) stop() {
	s.t.Helper()
	s.real.stop()
	s.must(s.sim.Stop())
}

func (s *sides) run(r simulate.Resumption) {
	s.t.Helper()
	if r.Plan != nil {
		s.plan = r.Plan
	}
	s.note("run %+v %s", r, s.rules)
	s.must(s.sim.Run(r))
	s.real.run(s.plan, r)
	s.settle()
}

// restart stops both, changes the cluster, and starts both again.
func (s *sides) restart() {
	s.t.Helper()
	s.stop()
	s.changed = make(map[string]bool)
	for range s.IntN(8) {
		s.change()
	}
	s.changed = nil
	r := simulate.Resumption{HistoryLost: !s.isOrdered && s.IntN(4) == 0, StateLost: !s.isOrdered && s.IntN(6) == 0}
	gathersMoments := s.gathersMoments
	if s.IntN(3) == 0 {
		r.Plan = s.history.plan()
	}
	if down := time.Duration(s.IntN(3)) * time.Minute; !gathersMoments && !s.gathersMoments {
		s.must(s.sim.Advance(down))
		s.real.clock.ahead.Add(int64(down))
	}
	s.run(r)
}

// line returns whom an event is about, and its text. An event of many objects is about the group that
// its payload names.
func line(ev handler.Event) (key, text string) {
	sortFields(&ev)
	ev.Items = slices.Clone(ev.Items)
	for i := range ev.Items {
		sortFields(&ev.Items[i])
	}
	body, _ := json.Marshal(ev)
	var payload struct{ Group any }
	if json.Unmarshal(ev.Payload, &payload) == nil && payload.Group != nil && ev.Items != nil {
		return fmt.Sprintf("%s of group %v", ev.Rule, payload.Group), string(body)
	}
	return fmt.Sprintf("%s of %s %s/%s", ev.Rule, ev.Resource.Resource, ev.Namespace, ev.Name), string(body)
}

// sortFields sorts the fields of an event's objects, whose order differs.
func sortFields(ev *handler.Event) {
	for _, object := range []*json.RawMessage{&ev.Object, &ev.Old} {
		var tree any
		if *object != nil && json.Unmarshal(*object, &tree) == nil {
			*object, _ = json.Marshal(tree)
		}
	}
}

// still is a clock that moves only when a test moves it.
type still struct {
	ahead  atomic.Int64
	mu     sync.Mutex
	timers map[*timer]bool // those that are set; guarded by mu
}

func (c *still) Now() time.Time                  { return began.Add(time.Duration(c.ahead.Load())) }
func (c *still) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// timer is a timer of a still clock. It implements queue.Timer.
type timer struct {
	clock *still
	call  func()
	due   time.Time // guarded by clock.mu
}

// AfterFunc returns a timer that ring calls.
func (c *still) AfterFunc(d time.Duration, call func()) queue.Timer {
	t := &timer{clock: c, call: call}
	t.Reset(d)
	return t
}

// Reset implements queue.Timer.
func (t *timer) Reset(d time.Duration) (was bool) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was = t.clock.timers[t]
	t.due, t.clock.timers[t] = t.clock.Now().Add(d), true
	return was
}

// Stop implements queue.Timer.
func (t *timer) Stop() (was bool) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was = t.clock.timers[t]
	delete(t.clock.timers, t)
	return was
}

// ring calls the functions of the timers that are due, and reports whether there were any.
func (c *still) ring() (rang bool) {
	var due []*timer
	c.mu.Lock()
	for t := range c.timers {
		if !t.due.After(c.Now()) {
			due = append(due, t)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.call()
	}
	return len(due) > 0
}

// real is an engine that runs against a server.
type real struct {
	t      *testing.T
	server *apistub.Server
	clock  *still
	dir    string
	states int
	engine *engine.Engine
	end    func()

	mu   sync.Mutex
	told []handler.Event
}

func newReal(t *testing.T) *real {
	server := apistub.New(t)
	server.Serve(simulatedMaps, "ConfigMap", true)
	server.Serve(simulatedSecrets, "Secret", true)
	server.Serve(simulatedNodes, "Node", false)
	return &real{t: t, server: server, clock: &still{timers: make(map[*timer]bool)}, dir: t.TempDir(), end: func() {}}
}

// Handle implements handler.Handler.
func (r *real) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	r.mu.Lock()
	r.told = append(r.told, ev)
	r.mu.Unlock()
	if a := answer(simulate.Event{Event: ev}); a.Reject != "" {
		return handler.Answer{}, handler.Reject(fmt.Errorf("%s", a.Reject))
	}
	return handler.Answer{}, nil
}

func (*real) Ready(context.Context) error { return nil }
func (*real) Limit() (int, bool)          { return 8, false }
func (*real) Grown() <-chan struct{}      { return nil }

func (r *real) run(p *plan.Plan, o simulate.Resumption) {
	r.t.Helper()
	if o.StateLost {
		r.states++
	}
	if o.HistoryLost {
		r.server.Expire()
	}
	log := slog.New(slog.DiscardHandler)
	store, err := state.Open(filepath.Join(r.dir, fmt.Sprint("state-", r.states)), state.Options{Logger: log})
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(r.server.Config())
	if err != nil {
		r.t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(r.server.Config())
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine, err = engine.New(p, engine.Cluster{Config: r.server.Config(), HTTP: client, Discovery: served},
		map[string]engine.Handler{"h": r}, engine.Options{Logger: log, Clock: r.clock, AfterFunc: r.clock.AfterFunc, State: store})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.engine.Run(ctx) }()
	r.end = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

func (r *real) stop() { r.end() }

// pass lets time pass for the engine. As in a simulation, groups that are due come before the
// objects that are.
func (r *real) pass(d time.Duration) {
	var informers []*source.Informer
	for _, s := range r.engine.Status().Sources {
		view, _ := r.engine.Source(s.Name)
		for _, i := range view.Informers() {
			if !slices.Contains(informers, i) {
				informers = append(informers, i)
			}
		}
	}
	between(informers, func() {
		r.clock.ahead.Add(int64(d))
		r.clock.ring()
	})
	r.engine.Wake()
}

// between calls f between two steps of all informers. So it also waits for one that is telling a rule
// that has just ceased to wait for another source.
func between(informers []*source.Informer, f func()) {
	if len(informers) == 0 {
		f()
		return
	}
	informers[0].Visit(func(iter.Seq[*object.Object]) { between(informers[1:], f) })
}

// settle waits until the engine has told n events in all, is at rest, and its rules are where those of
// the simulation are. Timers that are due ring only while it is at rest otherwise: so it does not
// depend on the weather which changes come in one event of a group.
func (r *real) settle(n int, want admin.Status, about func() string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		why := r.unrest()
		if why == "" && r.clock.ring() {
			continue
		}
		r.mu.Lock()
		told := len(r.told)
		r.mu.Unlock()
		if why == "" {
			why = r.differs(want)
		}
		if told >= n && why == "" {
			return
		} else if time.Now().After(deadline) {
			r.t.Fatalf("the engine has told %d events of %d: %s; %s", told, n, why, about())
		}
	}
}

// unrest says what the engine has yet to do.
func (r *real) unrest() string {
	status := r.engine.Status()
	for _, s := range status.Sources {
		if !s.Ready || s.Pending > 0 || s.ResourceVersion != r.server.ResourceVersion() {
			r.server.Bookmark()
			return fmt.Sprintf("source %s is at %q", s.Name, s.ResourceVersion)
		}
	}
	for _, rule := range status.Rules {
		if q := rule.Queue; q.Waiting+q.Away+q.InFlight > 0 || rule.State != admin.RuleActive {
			return fmt.Sprintf("rule %s is %s: %+v", rule.Name, rule.State, q)
		}
		if rule.Pending > 0 && !rule.NextDue.After(r.clock.Now()) {
			return fmt.Sprintf("rule %s has members since %v", rule.Name, rule.NextDue)
		}
		if !rule.NextRound.IsZero() && !rule.NextRound.After(r.clock.Now()) {
			return fmt.Sprintf("rule %s has a round to come since %v", rule.Name, rule.NextRound)
		}
	}
	return ""
}

// differs says what rules have yet to gather and to wait for, to be where those of the simulation are.
func (r *real) differs(want admin.Status) string {
	type waits struct {
		Rule               string
		Pending, Gathered  int
		NextDue, NextRound time.Time
		NextEvent          time.Time
	}
	of := func(s admin.Status) (all []waits) {
		for _, rule := range s.Rules {
			all = append(all, waits{rule.Name, rule.Pending, rule.Gathered, rule.NextDue, rule.NextRound, rule.NextEvent})
		}
		return all
	}
	return gocmp.Diff(of(want), of(r.engine.Status()))
}

// perObject returns the events that were delivered about each object, by rule.
func (r *real) perObject() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]string)
	for _, ev := range r.told {
		key, text := line(ev)
		all[key] = append(all[key], text)
	}
	return all
}
