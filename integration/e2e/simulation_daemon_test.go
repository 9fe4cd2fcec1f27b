package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// TestSimulatorAgainstDaemon runs random histories through a Simulation and through a daemon on a
// real control plane. The daemon is killed in between, sometimes in the middle of changes, and goes on
// from its state. Nothing depends on how long anything takes: groups gather for an hour, until another
// plan makes that a second, or takes the group away, while nothing changes. Other moments are compared
// in TestSimulatorAgainstEngine, whose clock can be moved. INFORMD_DAEMONS says how many histories, and
// INFORMD_SEED with which to begin.
func TestSimulatorAgainstDaemon(t *testing.T) {
	t.Parallel()
	histories, seed := howMany("INFORMD_DAEMONS", 1, 100)
	var compared atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for n := range histories {
			t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
				t.Parallel()
				newDaemons(t, seed+n).compare(&compared)
			})
		}
	})
	t.Logf("%d histories, %d events", histories, compared.Load())
}

// daemons are a simulation, and the daemons that do the same one after the other.
type daemons struct {
	*history
	*harness.Kube
	kubeconfig, state string
	sources           string // and the rules that are the same in all plans
	sim               *simulate.Simulation
	daemon            *harness.Daemon     // nil while none runs
	told              map[string][]string // by the simulation, about each object, by rule
	got               map[string][]string // by daemons that have ended
	running           int                 // events that the daemon has to tell
	log               []string
	// isExact says that each change has its own event or item, which does not depend on when it is
	// looked at. Then the daemon may be killed at any moment.
	isExact bool
	texts   []ruleText
	// killed has the events of a daemon that was killed at any moment, by their ids. The next one may
	// repeat them.
	killed map[string]string
}

// ruleText is a rule without its group. by is what the group is by; hasGroup is false if it has
// none. ends means that the test has the group delivered by removing it from the rule.
type ruleText struct {
	spec, by                   string
	hasGroup, isThrottle, ends bool
}

func newDaemons(t *testing.T, seed uint64) *daemons {
	c := cluster.Shared(t)
	d := &daemons{
		history: &history{Rand: rand.New(rand.NewPCG(seed, 17)), t: t, seed: seed},
		Kube:    harness.NewKube(t, c), kubeconfig: c.Kubeconfig(), state: harness.ShortDir(t),
		told: make(map[string][]string), got: make(map[string][]string),
	}
	return d
}

func (d *daemons) compare(compared *atomic.Int64) {
	p := d.makePlan()
	sim, err := simulate.New(p, simulate.Options{Stopped: true})
	d.must(err)
	defer sim.Close()
	d.sim = sim
	for range d.IntN(8) {
		d.change()
	}
	d.run(simulate.Resumption{})
	for range 3 {
		for range 10 + d.IntN(10) {
			d.change()
			d.settle()
		}
		if d.isExact {
			d.crash()
		}
		d.tellGroups()
		d.restart()
	}
	d.tellGroups()
	d.stop()
	if diff := gocmp.Diff(d.told, d.got); diff != "" {
		d.t.Errorf("seed %d: (-simulation +daemon)\n%s\n%s", d.seed, diff, strings.Join(d.log, "\n"))
	}
	for _, texts := range d.told {
		compared.Add(int64(len(texts)))
	}
}

func (d *daemons) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

func (d *daemons) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("seed %d: %v\n%s", d.seed, err, strings.Join(d.log, "\n"))
	}
}

// makePlan makes random rules. Besides them, a rule for each source sees every change: so the
// test knows that the daemon has seen it.
func (d *daemons) makePlan() *plan.Plan {
	d.t.Helper()
	keep := pick(d.history, "whole", "needed")
	d.sources = harness.Source("maps", "resource: v1/configmaps, namespaces: [NS], keep: "+keep) +
		harness.Source("labelled", "resource: v1/configmaps, namespaces: [NS], labelSelector: app=web, keep: "+keep) +
		harness.Source("hidden", "resource: v1/secrets, namespaces: [NS], keep: "+keep) +
		harness.Source("zones", "resource: v1/serviceaccounts, namespaces: [NS], indexes: {size: object.metadata.labels.size}, keep: "+keep) +
		harness.Handler("log", "builtin: log")
	d.hasLatest, d.isExact, d.texts = false, d.IntN(2) == 0, nil
	for _, source := range []string{"maps", "hidden", "zones"} {
		d.sources += harness.Rule("all-"+source, "source: "+source+", handler: log, delivery: every, payload: object.metadata.resourceVersion")
	}
	if !d.isExact && d.IntN(2) == 0 {
		d.sources += harness.Rule("alone", "handler: log, schedule: {cron: '@start'}, payload: "+
			`'map(lookup("zones.size", "1"), .metadata.name)'`)
	}
	for range 5 {
		source := pick(d.history, "maps", "maps", "labelled", "hidden", "hidden", "zones")
		delivery := pick(d.history, "latest", "every", "every")
		if d.isExact {
			delivery = "every"
		}
		rule := ruleText{hasGroup: d.IntN(2) == 0}
		if rule.hasGroup {
			rule.by = pick(d.history, "", "object.metadata.name", "[object.metadata.namespace, object.metadata.name]")
			rule.isThrottle = !d.isExact && d.IntN(2) == 0
			rule.ends = rule.isThrottle || d.IntN(3) == 0 // a throttle's last event would matter later
			d.hasLatest = d.hasLatest || rule.isThrottle
		}
		d.hasLatest = d.hasLatest || delivery == "latest"
		spec := "handler: log, source: " + source + ", delivery: " + delivery
		if where := pick(d.history, "", `object.metadata.labels.size == "1"`, `object.metadata.labels.size != "2"`, `object.metadata.labels.app == "web"`,
			`object.metadata.labels.size in ["1", "3"]`); where != "" {
			spec += ", where: '" + where + "'"
		}
		if events := pick(d.history, "", "", "added, deleted, synced", "added, updated", "updated, deleted"); events != "" {
			spec += ", events: [" + events + "]"
		}
		zones := `map(lookup("zones.size", object.metadata.labels.size), .metadata.name)`
		if source == "zones" || d.isExact || rule.hasGroup { // while it catches up, what it finds in its own source depends on the weather
			zones = "object.metadata.labels"
		}
		if payload := pick(d.history, "", `[event, object.metadata.labels.size, old.metadata.labels.size]`, `object.metadata.labels`, zones); payload != "" || keep == "needed" {
			spec += ", payload: '" + cmp.Or(payload, "object.metadata.labels") + "'"
		}
		if when := pick(d.history, "", "", `object.metadata.labels.size != old.metadata.labels.size`); when != "" {
			spec += ", when: '" + when + "'"
		}
		if due := pick(d.history, "", "", "", `object.metadata.labels.size == "1" ? nil : time("2020-01-01T00:00:00Z")`); due != "" {
			spec += ", due: '" + due + "'"
		}
		if delivery == "every" && !d.isExact && !rule.hasGroup && !strings.Contains(spec, "events:") && d.IntN(3) == 0 {
			spec += ", schedule: {cron: '@start'}, events: [synced, deleted]"
		}
		rule.spec = spec
		d.texts = append(d.texts, rule)
	}
	return d.compilePlan(false)
}

// compilePlan makes the plan with all rules. Their groups gather on for an hour, or tell what they
// have now.
func (d *daemons) compilePlan(now bool) *plan.Plan {
	d.t.Helper()
	text := d.sources
	for i, r := range d.texts {
		field, length := "wait", "1h"
		if r.isThrottle {
			field = "every"
		}
		if now {
			length = "1s"
		}
		if r.hasGroup && !(now && r.ends) {
			r.spec += ", group: {" + field + ": " + length
			if r.by != "" {
				r.spec += ", by: '" + r.by + "'"
			}
			r.spec += "}"
		}
		text += harness.Rule(fmt.Sprint("r", i), r.spec)
	}
	d.rules = d.Text(text)
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(d.rules)}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		d.t.Fatalf("%v in\n%s", m, d.rules)
	}
	return p
}

// change creates, updates or deletes an object, in both worlds.
func (d *daemons) change() {
	d.t.Helper()
	d.changeOf(pick(d.history, "ConfigMap", "ConfigMap", "Secret", "ServiceAccount"))
}

func (d *daemons) changeOf(kind string) {
	d.t.Helper()
	source := map[string]string{"ConfigMap": "maps", "Secret": "hidden", "ServiceAccount": "zones"}[kind]
	name := pick(d.history, "a", "b", "c", "d")
	if d.daemon == nil && d.hasLatest { // what is merged depends on the weather
		name += fmt.Sprint(len(d.log))
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": d.Ns, "name": name, "labels": map[string]any{
			"size": pick(d.history, "1", "2", "3"), "app": pick(d.history, "web", "db"),
		}},
	}}
	ctx, of := d.t.Context(), d.Resource(o)
	_, exists := d.sim.Get(source, d.Ns, name)
	var err error
	switch {
	case !exists:
		o, err = of.Create(ctx, o, metav1.CreateOptions{})
	case d.IntN(4) == 0:
		last := d.delete(o)
		d.note("delete %s", last)
		d.must(d.sim.DeleteAs(source, last))
		return
	default:
		o, err = of.Update(ctx, o, metav1.UpdateOptions{})
	}
	d.must(err)
	text, err := o.MarshalJSON()
	d.must(err)
	d.note("apply %s", text)
	d.must(d.sim.Apply(source, text))
}

// delete deletes an object, and returns its last state as a watch reports it.
func (d *daemons) delete(o *unstructured.Unstructured) []byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), harness.Patience)
	defer cancel()
	of := d.Resource(o)
	now, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
	d.must(err)
	w, err := of.Watch(ctx, metav1.ListOptions{
		ResourceVersion: now.GetResourceVersion(), FieldSelector: "metadata.name=" + o.GetName(),
	})
	d.must(err)
	defer w.Stop()
	d.must(of.Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
	for ev := range w.ResultChan() {
		if ev.Type == watch.Deleted {
			text, err := ev.Object.(*unstructured.Unstructured).MarshalJSON()
			d.must(err)
			return text
		}
	}
	d.t.Fatalf("seed %d: the watch of a deletion ended", d.seed)
	return nil
}

// settle delivers what is due, and waits until the daemon has delivered as much.
func (d *daemons) settle() {
	d.t.Helper()
	d.simulate(0)
	if d.t.Failed() {
		d.t.FailNow()
	}
	d.daemon.Await(fmt.Sprintf("%d events of seed %d\n%s\n%s", d.running, d.seed, d.rules, strings.Join(d.log, "\n")),
		func(events []handler.Event) bool { return d.news(events) >= d.running })
}

// simulate notes what the simulation tells within a time.
func (d *daemons) simulate(within time.Duration) {
	d.t.Helper()
	d.must(d.sim.Advance(within))
	for _, e := range d.sim.Events() {
		key, text := roundless(e.Event)
		d.told[key] = append(d.told[key], text)
		d.running++
		d.note("  %s: %s", key, text)
	}
}

// awaitGathered waits until the daemon has gathered what the simulation has.
func (d *daemons) awaitGathered() {
	d.t.Helper()
	status, _ := d.sim.Status()
	var want []string
	for _, rule := range status.Rules {
		want = append(want, fmt.Sprintf("\ninformd_rule_gathered{rule=%q} %d\n", rule.Name, rule.Gathered))
	}
	what := fmt.Sprintf("what rules gather in seed %d, %q: %s", d.seed, want, strings.Join(d.log, "\n"))
	d.daemon.Poll(what, func() bool {
		_, metrics := d.daemon.Get("/metrics")
		return !slices.ContainsFunc(want, func(line string) bool { return !strings.Contains(metrics, line) })
	})
}

// tellGroups has both sides tell what they have gathered, while nothing else changes. The daemon may
// be killed meanwhile.
func (d *daemons) tellGroups() {
	d.t.Helper()
	d.stop()
	tell := d.compilePlan(true)
	d.note("tell groups")
	d.must(d.sim.Run(simulate.Resumption{Plan: tell}))
	d.start()
	d.simulate(2 * time.Second)
	if d.isExact && d.IntN(2) == 0 {
		time.Sleep(time.Duration(d.IntN(1500)) * time.Millisecond)
		d.kill()
	}
	d.settle()
	d.daemon.AwaitReady()
	d.stop()
	d.must(d.sim.Run(simulate.Resumption{Plan: d.compilePlan(false)}))
	d.start()
	d.settle()
	d.daemon.AwaitReady()
}

// crash kills the daemon in the middle of changes, and runs another one, until both sides have told
// the same. The changes are of no Secrets: of those the state has no content, and what comes after
// a crash depends on what came before.
func (d *daemons) crash() {
	d.t.Helper()
	for range 5 + d.IntN(20) {
		d.changeOf(pick(d.history, "ConfigMap", "ConfigMap", "ServiceAccount"))
		d.simulate(0)
	}
	d.note("crash")
	d.kill()
	d.must(d.sim.Restart(simulate.Restart{}))
	d.settle()
	d.daemon.AwaitReady()
}

// kill kills the daemon at any moment, and runs another one.
func (d *daemons) kill() {
	d.t.Helper()
	d.daemon.Kill()
	killed := make(map[string]string)
	for _, ev := range d.daemon.Events {
		_, killed[ev.ID] = roundless(ev)
	}
	owed := d.running - len(d.daemon.Events)
	d.end()
	d.start()
	d.killed, d.running = killed, owed
}

// start runs a daemon.
func (d *daemons) start() {
	d.t.Helper()
	d.running, d.killed = 0, nil
	d.daemon = harness.RunInformd(d.t, d.kubeconfig, d.rules, "--state-dir", d.state)
}

// end takes what a daemon told that has ended. It leaves out what another one had told before it was
// killed.
func (d *daemons) end() {
	for _, ev := range d.daemon.Events {
		if d.killed != nil {
			firstAttempt(&ev)
		}
		key, text := roundless(ev)
		if before, ok := d.killed[ev.ID]; !ok || before != text {
			d.got[key] = append(d.got[key], text)
		}
	}
	d.daemon = nil
}

// firstAttempt makes an event as it was before a daemon was killed that may have told it.
func firstAttempt(ev *handler.Event) {
	ev.Attempt = 1
	ev.Items = slices.Clone(ev.Items)
	for i := range ev.Items {
		ev.Items[i].Attempt = 1
	}
}

// news returns how many events the daemon before has not told.
func (d *daemons) news(events []handler.Event) (n int) {
	for _, ev := range events {
		if _, ok := d.killed[ev.ID]; !ok {
			n++
		}
	}
	return n
}

// roundless is line, but leaves the round out of the id of an event that repeats an object as
// synced. That round is the resourceVersion at which the informer stopped, and depends on when the
// API server last sent a bookmark.
func roundless(ev handler.Event) (key, text string) {
	withoutRound(&ev)
	ev.Items = slices.Clone(ev.Items)
	for i := range ev.Items {
		withoutRound(&ev.Items[i])
	}
	return line(ev)
}

func withoutRound(ev *handler.Event) {
	if parts := strings.Split(ev.ID, "/"); len(parts) == 5 {
		ev.ID = strings.Join(parts[:4], "/") + "/round"
	}
}

func (d *daemons) run(r simulate.Resumption) {
	d.t.Helper()
	d.note("run %+v %s", r, d.rules)
	d.must(d.sim.Run(r))
	if r.StateLost {
		d.state = harness.ShortDir(d.t)
	}
	d.start()
	d.settle()
	d.daemon.AwaitReady()
}

// stop ends the daemon, by a signal or by a crash, once it has delivered everything.
func (d *daemons) stop() {
	d.t.Helper()
	d.daemon.AwaitDelivered()
	d.awaitGathered()
	d.daemon.AwaitWritten()
	if d.IntN(3) == 0 {
		d.daemon.Stop()
	} else {
		d.daemon.Kill()
	}
	d.must(d.sim.Stop())
	d.end()
}

// restart stops both, changes the cluster, and starts both again.
func (d *daemons) restart() {
	d.t.Helper()
	d.stop()
	r := simulate.Resumption{StateLost: d.IntN(5) == 0}
	hadLatest := d.hasLatest
	if d.IntN(3) == 0 {
		r.Plan = d.makePlan()
	}
	d.hasLatest = d.hasLatest || hadLatest
	for range d.IntN(8) {
		d.change()
	}
	d.run(r)
}
