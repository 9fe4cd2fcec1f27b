package acting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// rows keeps the rows of a table.
type rows struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (r *rows) PutNote(n records.Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[n.Rule+"\n"+n.Name] = n.Value
}

func (r *rows) DeleteNote(rule, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, rule+"\n"+name)
}

// cluster stands for the API server and the executor. It performs what a rule does.
type cluster struct {
	t    *testing.T
	took time.Duration           // by each request
	fail func(name string) error // of an action
	stop func() bool             // of the last wave

	mu     sync.Mutex
	busy   map[string]bool
	most   int               // requests at once
	did    []string          // in order
	holds  map[string]string // by name: the last object that was applied
	pruned []string
}

func (c *cluster) One(ctx context.Context, r action.Request) (ended action.Ended, err error) {
	name := r.Action.Namespace + "/" + r.Action.Name
	c.mu.Lock()
	if c.busy[name] {
		c.t.Errorf("two requests for %s at once", name)
	}
	c.busy[name] = true
	c.most = max(c.most, len(c.busy))
	c.mu.Unlock()
	time.Sleep(c.took)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, name)
	object := strings.Trim(string(r.Action.Object), `{"v:}`)
	c.did = append(c.did, fmt.Sprintf("%s %s=%s", r.Action.Verb, name, object))
	if c.fail != nil {
		err = c.fail(name)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return ended, fmt.Errorf("%s: %s of %s: %w", r.Label, r.Action.Verb, name, err)
	}
	c.holds[name] = object
	return ended, nil
}

func (c *cluster) Prune(
	_ context.Context, resource schema.GroupVersionResource, selector string,
	keeps func(schema.GroupVersionResource, delta.Key) bool,
) (action.Ended, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, "prune "+selector)
	for name := range c.holds {
		if key := delta.ParseKey(name); !keeps(resource, key) {
			c.pruned = append(c.pruned, name)
			delete(c.holds, name)
		}
	}
	return action.Ended{}, nil
}

func (c *cluster) BeginPrune(int) (did, end func()) { return func() {}, func() {} }

// take returns what was done since it was last called, sorted.
func (c *cluster) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	did := c.did
	c.did = nil
	slices.Sort(did)
	return did
}

// world is a rule that acts in a cluster.
type world struct {
	*cluster
	rows   *rows
	acting *Acting
	rule   *live.Rule
	stop   bool
	heirs  []string         // source objects that have a target now
	cuts   dispatch.Journal // of the dispatcher; may be nil
}

func newWorld(t *testing.T) *world {
	w := &world{
		cluster: &cluster{t: t, busy: make(map[string]bool), holds: make(map[string]string)},
		rows:    &rows{all: make(map[string][]byte)},
	}
	w.start()
	return w
}

// start starts informd, with what the rows have.
func (w *world) start() {
	table := targets.New(w.rows)
	table.Restore(func(yield func(records.Note) bool) {
		for _, id := range slices.Sorted(keysOf(w.rows.all)) {
			rule, name, _ := strings.Cut(id, "\n")
			if !yield(records.Note{Rule: rule, Name: name, Value: w.rows.all[id]}) {
				return
			}
		}
	})
	w.rule = &live.Rule{
		Rule: &plan.Rule{
			Rule: rule.Rule{Name: "r", Actions: &rule.Actions{}}, Source: &plan.Source{Resource: configMaps},
		},
		ID: "id", Memory: new(live.Memory), Trails: live.NewTrails(new(trail.Counter), 1, time.Now()),
		Preparer: &live.Preparer{Confidential: func() bool { return false }},
	}
	for _, verb := range []string{handler.ActionApply, handler.ActionEvent, handler.ActionPatch} {
		w.rule.Actions.Each = append(w.rule.Actions.Each, rule.ActionTemplate{Verb: verb, Resource: secrets})
	}
	w.acting = &Acting{
		options: Options{
			Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}, Targets: table,
			Rule: func(string) *live.Rule { return w.rule },
			ByID: func(string) *live.Rule { return w.rule },
			Inherit: func(heirs []targets.Claim) {
				for _, c := range heirs {
					w.heirs = append(w.heirs, c.Asker.Key.String())
				}
			},
		},
		writes: action.NewWrites(),
		begin: func(_ context.Context, _ action.By, _ *handler.Event, stop func() bool) sequence {
			w.cluster.mu.Lock()
			defer w.cluster.mu.Unlock()
			w.cluster.stop = stop
			return w.cluster
		},
	}
	w.acting.breaker = action.NewBreaker(w.acting.writes, time.Now, slog.New(slog.DiscardHandler))
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func apply(namespace, name, object string) handler.Action {
	return handler.Action{
		Verb: handler.ActionApply, Resource: handler.Resource(secrets), Namespace: namespace, Name: name,
		Object: []byte(`{"v":` + object + `}`),
	}
}

// step returns a piece of the nth action of the manifest.
func step(n int, actions ...handler.Action) delivery.Piece {
	return delivery.Piece{Label: fmt.Sprintf("actions[%d]", n), Actions: actions}
}

// copies returns a step that applies an object in some namespaces.
func copies(object string, namespaces ...string) delivery.Piece {
	p := step(0)
	for _, ns := range namespaces {
		p.Actions = append(p.Actions, apply(ns, "x", object))
	}
	return p
}

// about returns an event.
func (w *world) about(version int) *handler.Event {
	return &handler.Event{
		ID: fmt.Sprint("r/u/updated/", version), Rule: "r", Event: handler.Updated, Attempt: 1,
		Resource: handler.Resource(configMaps), Namespace: "shop", Name: "a",
	}
}

func (w *world) key() delta.Key { return delta.Key{Namespace: "shop", Name: "a"} }

// perform makes one attempt.
func (w *world) perform(version int, acts *delivery.Acts) (trail.Verdict, error) {
	return w.acting.ForRules().Perform(w.t.Context(), dispatch.Performance{
		Key: delta.Key{Namespace: "shop", Name: "a"}, Event: w.about(version), Acts: acts,
		Stop: func() bool { return w.stop },
	})
}

func (w *world) do(version int, pieces ...delivery.Piece) error {
	_, err := w.perform(version, &delivery.Acts{Pieces: pieces, Digest: 1})
	return err
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

var errQuota = errors.New("403 Forbidden: exceeded quota")

func failingIn(namespace string, err error) func(string) error {
	return func(name string) error {
		if strings.HasPrefix(name, namespace+"/") {
			return err
		}
		return nil
	}
}

// run runs the rule's lane. Each change applies its version in some namespaces.
func (w *world) run(namespaces ...string) (offer func(version int), l *dispatch.Lane) {
	d := dispatch.New(dispatch.Recipient{}, dispatch.NewLetterBox(dispatch.LetterBoxOptions{}), dispatch.Options{
		Actor: w.acting.ForRules(), Journal: w.cuts,
	})
	o := dispatch.LaneOptions{ActsItself: true, Preparer: preparing(func(d delta.Delta) *delivery.Acts {
		return &delivery.Acts{Pieces: []delivery.Piece{copies(d.Object.ResourceVersion(), namespaces...)}}
	})}
	w.rule.Preparer.Recipe = &prepare.Recipe{Rule: w.rule.Rule}
	o.Account = account{w.acting, w.rule}
	l = d.Lane("r", handler.Resource(configMaps), o)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
	at := func(version int) *object.Object {
		return object.FromIdentity("shop", "a", "u", fmt.Sprint(version))
	}
	return func(version int) {
		l.Offer(rule.Match{Delta: delta.Delta{Type: delta.Updated, Object: at(version), Old: at(version - 1)}})
		synctest.Wait()
	}, l
}

// preparing is a Preparer that makes own actions.
type preparing func(delta.Delta) *delivery.Acts

func (p preparing) Prepare(_ context.Context, d delivery.Draft) (delivery.Prepared, error) {
	return delivery.Prepared{Delta: d.Delta, Acts: p(d.Delta)}, nil
}

func (preparing) IsConfidential() bool { return false }

// One target fails. The others have what is newest at once. The bad one is not tried more often for
// that, and has what is newest at its next attempt.
func TestOneTargetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = failingIn("b", errQuota)
		offer, l := w.run("a", "b", "c")
		offer(1)
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1"})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		again := w.take()
		if len(again) < 4 || len(again) > 6 || slices.ContainsFunc(again, func(did string) bool { return did != "apply b/x=1" }) {
			t.Fatalf("in the first seconds: %q", again)
		}
		for version := 2; version < 5; version++ {
			offer(version)
			want := []string{fmt.Sprint("apply a/x=", version), fmt.Sprint("apply c/x=", version)}
			equal(t, "at once", w.take(), want)
		}
		failure, _ := l.LastFailure()
		if want := "actions[0]: apply of b/x: 403 Forbidden: exceeded quota"; failure.Reason != want {
			t.Errorf("the failure is %q, want %q", failure.Reason, want)
		}
		w.cluster.mu.Lock()
		w.fail = nil
		w.cluster.mu.Unlock()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		equal(t, "in its time", w.take(), []string{"apply b/x=4"})
		equal(t, "rows", len(w.rows.all), 0)
		equal(t, "deliveries", l.Stats().Waiting, 0)
	})
}

// stopping is a cluster in which a wave is told to stop while its requests wait for their turn.
type stopping struct {
	*cluster
	isStopped *atomic.Bool
}

func (c *stopping) One(ctx context.Context, r action.Request) (action.Ended, error) {
	if r.Action.Namespace == "b" {
		time.Sleep(time.Second)
		c.isStopped.Store(true)
		if !c.stop() {
			c.t.Error("the wave is not told")
		}
		return action.Ended{}, fmt.Errorf("waiting: %w", action.ErrStopped)
	}
	return c.cluster.One(ctx, r)
}

// A request that is given up because the wave is to stop is no failure, and the delivery goes on
// there later.
func TestStopWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var isStopped atomic.Bool
		began := w.acting.begin
		w.acting.begin = func(ctx context.Context, by action.By, ev *handler.Event, stop func() bool) sequence {
			began(ctx, by, ev, stop)
			return &stopping{w.cluster, &isStopped}
		}
		all := []delivery.Piece{copies("1", "a", "b", "c"), step(1, apply("d", "x", "1"))}
		_, err := w.acting.ForRules().Perform(t.Context(), dispatch.Performance{
			Key: delta.Key{Namespace: "shop", Name: "a"}, Event: w.about(1),
			Acts: &delivery.Acts{Pieces: all, Digest: 1}, Stop: isStopped.Load,
		})
		if !errors.Is(err, dispatch.ErrStopped) || errors.Is(err, action.ErrStopped) {
			t.Fatal(err)
		}
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply c/x=1"})
		w.acting.begin = began
		if err := w.do(1, all...); err != nil {
			t.Fatal(err)
		}
		equal(t, "then", w.take(), []string{"apply b/x=1", "apply d/x=1"})
	})
}

// A webhook that refuses the deletions of a prune, or is down, concerns the prune alone: it waits by
// itself.
func TestWebhookThatRefusesAPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Prune = []schema.GroupVersionResource{secrets}
		w.acting.begin = func(context.Context, action.By, *handler.Event, func() bool) sequence {
			return &unpruned{w.cluster}
		}
		_, err := w.perform(1, &delivery.Acts{Prunes: true, Pieces: []delivery.Piece{
			copies("1", "a"), {Actions: []handler.Action{action.Prune(secrets, "by=me")}},
		}})
		if err == nil {
			t.Fatal("it does not fail")
		}
		waits := 0
		for _, c := range w.acting.options.Targets.Of(targets.Asker{Rule: "id", Key: delta.Key{Namespace: "shop", Name: "a"}}) {
			if c.State == targets.Waits {
				waits++
				if c.Cause != string(action.CauseWebhookDown) || time.Until(c.Due) < 7*time.Second {
					t.Errorf("%+v", c)
				}
			}
		}
		equal(t, "targets that wait", waits, 1)
	})
}

type unpruned struct{ *cluster }

func (c *unpruned) Prune(
	context.Context, schema.GroupVersionResource, string, func(schema.GroupVersionResource, delta.Key) bool,
) (action.Ended, error) {
	return action.Ended{Why: action.CauseWebhookDown, After: 7 * time.Second}, errors.New("a webhook is down")
}

// cuts knows the most rows that went within one cut of the dispatcher.
type cuts struct {
	rows   *rows
	before int
	most   int
}

func (c *cuts) count() int {
	c.rows.mu.Lock()
	defer c.rows.mu.Unlock()
	return len(c.rows.all)
}

func (c *cuts) Begin()                              { c.before = c.count() }
func (c *cuts) End()                                { c.most = max(c.most, c.before-c.count()) }
func (c *cuts) Written(context.Context) error       { return nil }
func (c *cuts) Await(context.Context, uint64) error { return nil }

// However many targets a delivery has, the cut that ends it is short.
func TestEndOfManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &cuts{rows: w.rows}
		w.cuts = c
		w.fail = failingIn("b", errQuota)
		all := []string{"b"}
		for i := range 3500 {
			all = append(all, fmt.Sprint("ns", i))
		}
		offer, _ := w.run(all...)
		offer(1)
		equal(t, "rows", c.count(), 3501)
		w.cluster.mu.Lock()
		w.fail = nil
		w.cluster.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "rows in the end", c.count(), 0)
		if c.most > thinAtOnce {
			t.Errorf("%d rows went within one cut", c.most)
		}
	})
}

// What the second walk does to a target beyond the first one is performed, too: in the same wave,
// or in the next one if a step before it fails.
func TestSecondWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		walks := 0
		acts := &delivery.Acts{Digest: 1, Make: func(visit func(delivery.Piece) error) error {
			walks++
			if err := visit(step(0, apply("a", "x", "1"))); err != nil || walks == 1 {
				return err
			}
			if err := visit(step(1, apply("b", "x", "1"), apply("c", "x", "1"))); err != nil {
				return err
			}
			return visit(step(2, apply("b", "x", "2")))
		}}
		if _, err := w.perform(1, acts); err != nil {
			t.Fatal(err)
		}
		want := []string{"apply a/x=1", "apply b/x=1", "apply b/x=2", "apply c/x=1"}
		equal(t, "in one wave", w.take(), want)
		walks, w.fail = 0, failingIn("c", errQuota)
		if _, err := w.perform(2, acts); err == nil {
			t.Fatal("it does not fail")
		}
		equal(t, "until a step fails", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1"})
		w.fail = nil
		time.Sleep(time.Minute)
		if _, err := w.perform(2, acts); err != nil {
			t.Fatal(err)
		}
		equal(t, "then", w.holds["b/x"], "2")
	})
}

// While a target waits, a resync does what is done again, but no attempt comes early for it.
func TestResyncWhileTargetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = failingIn("b", errQuota)
		offer, l := w.run("a", "b")
		offer(1)
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply b/x=1"})
		for round := int64(1); round < 4; round++ {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if slices.Contains(w.take(), "apply a/x=1") {
				t.Fatalf("before the resync %d: what is done was done again", round)
			}
			l.Offer(rule.Match{Delta: delta.Delta{
				Type: delta.Synced, Object: object.FromIdentity("shop", "a", "u", "1"), Round: round * 600,
			}})
			synctest.Wait()
			equal(t, "at once", w.take(), nil)
			time.Sleep(9 * time.Minute)
			synctest.Wait()
			did := w.take()
			again := slices.DeleteFunc(did, func(did string) bool { return did != "apply a/x=1" })
			equal(t, fmt.Sprint("after the resync ", round), again, []string{"apply a/x=1"})
		}
	})
}

// Long waves of one rule do not keep another rule's actions waiting until they end. They go on where
// they were, also if the other rule never has enough.
func TestLongWavesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.took = time.Second
		d := dispatch.New(dispatch.Recipient{Concurrency: 4}, dispatch.NewLetterBox(dispatch.LetterBoxOptions{}),
			dispatch.Options{Actor: w.acting.ForRules()})
		lane := func(rule string, targets int) func(object int) {
			l := d.Lane(rule, handler.Resource(configMaps), dispatch.LaneOptions{
				ActsItself: true, Preparer: preparing(func(d delta.Delta) *delivery.Acts {
					p := step(0)
					for i := range targets {
						p.Actions = append(p.Actions, apply(fmt.Sprint(d.Object.Name(), "-", i), "x", "1"))
					}
					return &delivery.Acts{Pieces: []delivery.Piece{p}}
				}),
			})
			return func(object int) {
				name := fmt.Sprint(rule, object) // the rules share their claims here
				l.Offer(matchOf(delta.Delta{Type: delta.Added, Object: objectOf(name)}))
			}
		}
		did := func(prefix string) (n int) {
			w.cluster.mu.Lock()
			defer w.cluster.mu.Unlock()
			for _, did := range w.did {
				if strings.HasPrefix(did, "apply "+prefix) {
					n++
				}
			}
			return n
		}
		long, short := lane("long", 800), lane("short", 1)
		for object := range 6 {
			long(object)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		short(0)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		equal(t, "the other rule's, in time", did("short"), 1)
		for object := range 4000 { // more than four places can take
			short(object + 1)
		}
		before := did("long")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := did("short"); n < 400 {
			t.Errorf("%d actions of the other rule in 5 minutes", n)
		}
		if n := did("long") - before; n < 3000 {
			t.Errorf("%d actions of the long waves in 5 minutes", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		equal(t, "in the end", []int{did("long"), did("short")}, []int{4800, 4001})
		equal(t, "in flight", d.InFlight(), 0)
		cancel()
		<-ended
	})
}

// A wave that rests ends at once when it is to stop.
func TestRestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.took = time.Second
		d := dispatch.New(dispatch.Recipient{Concurrency: 1}, dispatch.NewLetterBox(dispatch.LetterBoxOptions{}),
			dispatch.Options{Actor: w.acting.ForRules()})
		lane := func(rule string) {
			d.Lane(rule, handler.Resource(configMaps), dispatch.LaneOptions{
				ActsItself: true, Preparer: preparing(func(delta.Delta) *delivery.Acts {
					p := step(0)
					for i := range 400 {
						p.Actions = append(p.Actions, apply(fmt.Sprint(rule, i), "x", "1"))
					}
					return &delivery.Acts{Pieces: []delivery.Piece{p}}
				}),
			}).Offer(matchOf(delta.Delta{Type: delta.Added, Object: objectOf(rule)}))
		}
		lane("one")
		lane("two")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(15 * time.Second)
		cancel()
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %v", took)
		}
		did := w.take()
		for _, rule := range []string{"one", "two"} {
			if !slices.ContainsFunc(did, func(d string) bool { return strings.HasPrefix(d, "apply "+rule) }) {
				t.Errorf("%s has done nothing", rule)
			}
		}
	})
}

func matchOf(d delta.Delta) rule.Match { return rule.Match{Delta: d} }

func objectOf(name string) *object.Object { return object.FromIdentity("shop", name, name, "1") }

// While a rule is renamed, another one may have its name. The lane's own rule acts, or none.
func TestAnotherRuleHasTheName(t *testing.T) {
	w := newWorld(t)
	another := &live.Rule{
		Rule: &plan.Rule{
			Rule: rule.Rule{Name: "r", Actions: &rule.Actions{}}, Source: &plan.Source{Resource: secrets},
		},
		ID: "another", Memory: new(live.Memory), Trails: live.NewTrails(new(trail.Counter), 1, time.Now()),
		Preparer: &live.Preparer{Confidential: func() bool { return false }},
	}
	w.acting.options.Rule = func(string) *live.Rule { return another }
	w.stop = true
	if err := w.do(1, copies("1", "a")); !errors.Is(err, dispatch.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
	w.stop = false
	_, err := w.acting.ForRules().Perform(t.Context(), dispatch.Performance{
		Key: delta.Key{Namespace: "shop", Name: "a"}, Event: w.about(1), Stop: func() bool { return w.stop },
		Account: account{w.acting, w.rule},
		Acts: &delivery.Acts{Make: func(visit func(delivery.Piece) error) error {
			return visit(copies("1", "a"))
		}},
	})
	if err != nil {
		t.Errorf("the lane's rule: %v", err)
	}
	equal(t, "done", w.take(), []string{"apply a/x=1"})
}

// What an earlier attempt has done may have changed something, even if nobody remembers that.
func TestVerdictAfterEarlierAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acting.begin = func(context.Context, action.By, *handler.Event, func() bool) sequence {
			return &unchanged{w.cluster, w.rule.Trails.Acted}
		}
		perform := func(version int) trail.Verdict {
			did, _ := w.perform(version, &delivery.Acts{Pieces: []delivery.Piece{copies("1", "a", "b")}})
			return did
		}
		equal(t, "nothing changed", perform(1), trail.Unchanged)
		w.fail = failingIn("b", errQuota)
		perform(2)
		w.fail = nil
		time.Sleep(time.Second)
		equal(t, "one was done before", perform(2), trail.Acted)
	})
}

// unchanged is a cluster that is as it should be.
type unchanged struct {
	*cluster
	acted *live.Acted
}

func (c *unchanged) One(ctx context.Context, r action.Request) (action.Ended, error) {
	ended, err := c.cluster.One(ctx, r)
	if err == nil {
		for version := range 3 {
			id := fmt.Sprint("r/u/updated/", version)
			c.acted.Add(action.Done{Delivery: id, Result: action.Unchanged}, time.Now())
		}
	}
	return ended, err
}

// An operator's retry tries what is backing off.
func TestRetryNowTriesEachTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = failingIn("b", errQuota)
		offer, l := w.run("a", "b")
		offer(1)
		time.Sleep(100 * time.Second)
		synctest.Wait()
		w.take()
		equal(t, "retried", l.RetryNow(func(delta.Key) bool { return true }), 1)
		synctest.Wait()
		equal(t, "at once", w.take(), []string{"apply b/x=1"})
	})
}

// many returns 1,500 actions in pieces of 50, with the error of an expression at the end.
func many(walks *int, failure error) *delivery.Acts {
	return &delivery.Acts{Digest: 1, Prunes: true, Make: func(visit func(delivery.Piece) error) error {
		*walks++
		for i := range 30 {
			p := step(0)
			for j := range 50 {
				p.Actions = append(p.Actions, apply(fmt.Sprint("ns", i*50+j), "x", "1"))
			}
			if err := visit(p); err != nil {
				return err
			}
		}
		if failure != nil {
			return failure
		}
		return visit(delivery.Piece{Actions: []handler.Action{action.Prune(secrets, "by=me")}})
	}}
}

// Many targets are performed in pieces, eight requests at once. After a kill, what is done is
// skipped. What the rule applied and does not apply any more is pruned in the end.
func TestManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Prune = []schema.GroupVersionResource{secrets}
		w.took = 10 * time.Millisecond
		w.holds["old/x"] = "0"
		requests := 0
		w.fail = func(string) error {
			if requests++; requests == 600 {
				w.stop = true
			}
			return nil
		}
		walks := 0
		if _, err := w.perform(1, many(&walks, nil)); !errors.Is(err, dispatch.ErrStopped) {
			t.Fatalf("stopped: %v", err)
		}
		if requests < 600 || requests > 608 {
			t.Errorf("%d requests until the stop", requests)
		}
		equal(t, "requests at once", w.most, maxAtOnce)
		equal(t, "pruned too early", len(w.pruned), 0)
		w.start() // as after a kill
		w.rule.Prune = []schema.GroupVersionResource{secrets}
		w.stop = false
		if _, err := w.perform(1, many(&walks, nil)); err != nil {
			t.Fatal(err)
		}
		equal(t, "requests in all", requests, 1500)
		equal(t, "walks", walks, 4)
		equal(t, "pruned", w.pruned, []string{"old/x"})
		equal(t, "targets", len(w.holds), 1500)
		w.acting.options.Targets.Forget(targets.Asker{Rule: "id", Key: delta.Key{Namespace: "shop", Name: "a"}})
		equal(t, "rows", len(w.rows.all), 0)
	})
}

// An expression that fails for the last of many elements performs nothing.
func TestFailingExpression(t *testing.T) {
	w := newWorld(t)
	walks := 0
	_, err := w.perform(1, many(&walks, handler.Reject(errors.New("actions[0]: nil"))))
	if !errors.Is(err, handler.ErrReject) || walks != 1 {
		t.Errorf("%d walks, %v", walks, err)
	}
	equal(t, "requests", w.take(), nil)
}

// What was refused for good is not tried again with the same event. In the end it makes one letter,
// which names it.
func TestRefusedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		refused := handler.Reject(errors.New("422: invalid"))
		isDown := true
		w.fail = func(name string) error {
			switch {
			case name == "b/x":
				return refused
			case name == "c/x" && isDown:
				return errQuota
			}
			return nil
		}
		all := []delivery.Piece{copies("1", "a", "b", "c"), step(1, apply("a", "later", "1"))}
		err := w.do(1, all...)
		want := "2 of 4 targets failed: actions[0]: apply of "
		if err == nil || errors.Is(err, handler.ErrReject) || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("while another one may succeed: %v", err)
		}
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1"})
		isDown = false
		time.Sleep(time.Second)
		if err := w.do(1, all...); !errors.Is(err, handler.ErrReject) || err.Error() != "actions[0]: apply of b/x: rejected: 422: invalid" {
			t.Fatalf("in the end: %v", err)
		}
		equal(t, "then", w.take(), []string{"apply c/x=1"})
		if err := w.do(2, all...); !errors.Is(err, handler.ErrReject) {
			t.Fatal(err)
		}
		equal(t, "with the next event", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1"})
	})
}

// What was refused is known after a restart, too, in fewer words.
func TestRestartWithRefusedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = func(name string) error {
			return map[string]error{"b/x": handler.Reject(errors.New("422: invalid")), "c/x": errQuota}[name]
		}
		if err := w.do(1, copies("1", "a", "b", "c")); err == nil {
			t.Fatal("no error")
		}
		w.take()
		w.start()
		w.fail = nil
		time.Sleep(time.Second)
		err := w.do(1, copies("1", "a", "b", "c"))
		if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "b/x") {
			t.Fatalf("after the restart: %v", err)
		}
		equal(t, "then", w.take(), []string{"apply c/x=1"})
	})
}

// The steps keep their order: what comes behind a step waits until all of that is done.
func TestOrderOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.took = time.Millisecond
		w.fail = failingIn("b", errQuota)
		same := apply("a", "x", "2")
		event := handler.Action{Verb: handler.ActionEvent, Resource: handler.Resource(secrets), Namespace: "a", Name: "x"}
		all := []delivery.Piece{
			step(0, apply("a", "x", "1"), apply("b", "x", "1"), same), step(1, apply("c", "x", "1")), step(2, event),
		}
		if err := w.do(1, all...); err == nil || errors.Is(err, handler.ErrReject) {
			t.Fatal(err)
		}
		equal(t, "the last one", w.holds["a/x"], "2")
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply a/x=2", "apply b/x=1"})
		w.fail = nil
		time.Sleep(time.Second)
		if err := w.do(1, all...); err != nil {
			t.Fatal(err)
		}
		equal(t, "then", w.did, []string{"apply b/x=1", "apply c/x=1", "event a/x="})
	})
}

// The API server is in trouble, or the object has changed: both end the attempt, and are no failure
// of a target.
func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = failingIn("b", action.ErrConflict)
		if err := w.do(1, copies("1", "a", "b", "c"), step(1, apply("d", "x", "1"))); !errors.Is(err, dispatch.ErrStale) {
			t.Fatal(err)
		}
		equal(t, "at first", w.take(), []string{"apply a/x=1", "apply b/x=1", "apply c/x=1"})
		w.fail = nil
		if err := w.do(1, copies("1", "a", "b", "c"), step(1, apply("d", "x", "1"))); err != nil {
			t.Fatal(err)
		}
		equal(t, "then", w.take(), []string{"apply b/x=1", "apply d/x=1"})
	})
}

// A prune also follows if the only failures are objects of others, and nothing else does.
func TestPruneBesideForeignObjects(t *testing.T) {
	for foreign, want := range map[bool][]string{
		true: {"apply a/x=1", "apply b/x=1", "prune by=me"}, false: {"apply a/x=1", "apply b/x=1"},
	} {
		w := newWorld(t)
		w.rule.Prune = []schema.GroupVersionResource{secrets}
		w.acting.begin = func(context.Context, action.By, *handler.Event, func() bool) sequence {
			return &taken{cluster: w.cluster, isForeign: foreign}
		}
		event := handler.Action{Verb: handler.ActionEvent, Resource: handler.Resource(secrets), Namespace: "a", Name: "x"}
		_, err := w.perform(1, &delivery.Acts{Prunes: true, Pieces: []delivery.Piece{
			copies("1", "a", "b"), step(1, apply("c", "x", "1")),
			{Actions: []handler.Action{action.Prune(secrets, "by=me")}}, step(2, event),
		}})
		if !errors.Is(err, handler.ErrReject) || strings.Contains(err.Error(), "nothing was pruned") == foreign {
			t.Errorf("foreign %v: %v", foreign, err)
		}
		equal(t, "done", w.take(), want)
	}
}

// taken is a cluster in which b/x is somebody else's, or invalid.
type taken struct {
	*cluster
	isForeign bool
}

func (c *taken) One(ctx context.Context, r action.Request) (action.Ended, error) {
	ended, err := c.cluster.One(ctx, r)
	if r.Action.Namespace == "b" {
		if err = handler.Reject(errors.New("refused")); c.isForeign {
			ended.Why = action.CauseForeign
		}
	}
	return ended, err
}

// A rule that is gone makes no claims, and a name that cannot be is refused without a request.
func TestWavesThatCannotBegin(t *testing.T) {
	w := newWorld(t)
	if err := w.do(1, step(0, apply("a", "x/y", "1"), apply("a", "x", "1"))); !errors.Is(err, handler.ErrReject) {
		t.Errorf("a name with a slash: %v", err)
	}
	equal(t, "done", w.take(), []string{"apply a/x=1"})
	other := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(configMaps), Namespace: "a", Name: "x"}
	_, err := w.perform(1, &delivery.Acts{Make: func(visit func(delivery.Piece) error) error {
		return visit(step(0, other))
	}})
	if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "does not ask for") {
		t.Errorf("what the rule does not do: %v", err)
	}
	w.rule.Memory.End()
	if err := w.do(2, copies("1", "a")); !errors.Is(err, dispatch.ErrStopped) {
		t.Errorf("the rule is gone: %v", err)
	}
	equal(t, "done", w.take(), nil)
}

// The second walk may only do what the rule asks for, too.
func TestSecondWalkIsChecked(t *testing.T) {
	w := newWorld(t)
	other := handler.Action{Verb: handler.ActionDelete, Resource: handler.Resource(configMaps), Namespace: "b", Name: "x"}
	walks := 0
	_, err := w.perform(1, &delivery.Acts{Make: func(visit func(delivery.Piece) error) error {
		walks++
		if err := visit(copies("1", "a")); err != nil || walks == 1 {
			return err
		}
		return visit(step(1, other))
	}})
	if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "does not ask for") {
		t.Error(err)
	}
	equal(t, "done", w.take(), []string{"apply a/x=1"})
}

// A wave makes no claims once a reload has begun, which may have forgotten those of the rule.
func TestReloadWhileAWaveAsks(t *testing.T) {
	w := newWorld(t)
	asked := 0
	_, err := w.acting.ForRules().Perform(t.Context(), dispatch.Performance{
		Key: delta.Key{Namespace: "shop", Name: "a"}, Event: w.about(1),
		Acts: &delivery.Acts{Pieces: []delivery.Piece{copies("1", "a"), copies("1", "b")}},
		Stop: func() bool {
			asked++
			if asked == 4 { // in the cut of the second piece
				w.acting.options.Targets.Release("id", func(targets.Claim) bool { return true })
			}
			return asked >= 4
		},
	})
	if !errors.Is(err, dispatch.ErrStopped) {
		t.Error(err)
	}
	if left := w.acting.options.Targets.Of(targets.Asker{Rule: "id", Key: delta.Key{Namespace: "shop", Name: "a"}}); len(left) > 0 {
		t.Errorf("claims: %v", left)
	}
	equal(t, "done", w.take(), nil)
}
