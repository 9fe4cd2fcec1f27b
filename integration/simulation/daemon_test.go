package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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

func TestMain(m *testing.M) { harness.Main(m, nil) }

// TestSimulatorAgainstDaemon runs random histories through a Simulation and through a daemon on a
// real control plane. The daemon is killed in between, and goes on from its state. Time is compared
// in TestSimulatorAgainstEngine, whose clock can be moved. INFORMD_DAEMONS says how many histories,
// and INFORMD_SEED with which to begin.
func TestSimulatorAgainstDaemon(t *testing.T) {
	t.Parallel()
	histories, seed := howMany("INFORMD_DAEMONS", 3, 100)
	for n := range histories {
		t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
			t.Parallel()
			newDaemons(t, seed+n).compare()
		})
	}
}

// daemons are a simulation, and the daemons that do the same one after the other.
type daemons struct {
	*history
	*harness.Kube
	kubeconfig, state string
	sim               *simulate.Simulation
	daemon            *harness.Daemon     // nil while none runs
	told              map[string][]string // by the simulation, about each object, by rule
	got               map[string][]string // by daemons that have ended
	running, before   int                 // events that the simulation told, in this run and before
	log               []string
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

func (d *daemons) compare() {
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
		d.restart()
	}
	d.stop()
	if diff := gocmp.Diff(d.told, d.got); diff != "" {
		d.t.Errorf("seed %d: (-simulation +daemon)\n%s\n%s", d.seed, diff, strings.Join(d.log, "\n"))
	}
	d.t.Logf("seed %d: %d events", d.seed, d.before)
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

// makePlan makes random rules. Besides them, a rule for each source hears of every change: so the
// test knows that the daemon has seen it.
func (d *daemons) makePlan() *plan.Plan {
	d.t.Helper()
	keep := pick(d.history, "whole", "needed")
	text := harness.Source("maps", "resource: v1/configmaps, namespaces: [NS], keep: "+keep) +
		harness.Source("labelled", "resource: v1/configmaps, namespaces: [NS], labelSelector: app=web, keep: "+keep) +
		harness.Source("hidden", "resource: v1/secrets, namespaces: [NS], keep: "+keep) +
		harness.Source("zones", "resource: v1/serviceaccounts, namespaces: [NS], indexes: {size: object.metadata.labels.size}, keep: "+keep) +
		harness.Handler("log", "builtin: log")
	for _, source := range []string{"maps", "hidden", "zones"} {
		text += harness.Rule("all-"+source, "source: "+source+", handler: log, delivery: every, payload: object.metadata.resourceVersion")
	}
	d.hasLatest = false
	for i := range 5 {
		source := pick(d.history, "maps", "maps", "labelled", "hidden", "hidden", "zones")
		delivery := pick(d.history, "latest", "every", "every")
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
		if source == "zones" { // while it catches up, what it finds in its own source depends on the weather
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
		text += harness.Rule(fmt.Sprint("r", i), spec)
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
	kind := pick(d.history, "ConfigMap", "ConfigMap", "Secret", "ServiceAccount")
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
	d.must(d.sim.Advance(0))
	for _, e := range d.sim.Events() {
		key, text := roundless(e.Event)
		d.told[key] = append(d.told[key], text)
		d.running++
		d.note("  %s: %s", key, text)
	}
	if d.t.Failed() {
		d.t.FailNow()
	}
	d.daemon.Await(fmt.Sprintf("%d events of seed %d\n%s\n%s", d.running, d.seed, d.rules, strings.Join(d.log, "\n")),
		func(events []handler.Event) bool { return len(events) >= d.running })
}

// roundless is line, but leaves the round out of the id of what is told again as synced. That round
// is the resourceVersion at which the informer stopped, and depends on when the API server last sent
// a bookmark.
func roundless(ev handler.Event) (key, text string) {
	if parts := strings.Split(ev.ID, "/"); len(parts) == 5 {
		ev.ID = strings.Join(parts[:4], "/") + "/round"
	}
	return line(ev)
}

func (d *daemons) run(r simulate.Resumption) {
	d.t.Helper()
	d.note("run %+v %s", r, d.rules)
	d.must(d.sim.Run(r))
	if r.StateLost {
		d.state = harness.ShortDir(d.t)
	}
	d.running = 0
	d.daemon = harness.RunInformd(d.t, d.kubeconfig, d.rules, "--state-dir", d.state)
	d.settle()
	d.daemon.AwaitReady()
}

// stop ends the daemon, by a signal or by a crash, once it has delivered everything.
func (d *daemons) stop() {
	d.t.Helper()
	d.daemon.AwaitDelivered()
	d.daemon.AwaitWritten()
	if d.IntN(3) == 0 {
		d.daemon.Stop()
	} else {
		d.daemon.Kill()
	}
	d.must(d.sim.Stop())
	for _, ev := range d.daemon.Events {
		key, text := roundless(ev)
		d.got[key] = append(d.got[key], text)
	}
	d.before += d.running
	d.daemon = nil
}

// restart stops both, changes the cluster, and starts both again.
func (d *daemons) restart() {
	d.t.Helper()
	d.stop()
	for range d.IntN(8) {
		d.change()
	}
	r := simulate.Resumption{StateLost: d.IntN(5) == 0}
	if d.IntN(3) == 0 {
		r.Plan = d.makePlan()
	}
	d.run(r)
}
