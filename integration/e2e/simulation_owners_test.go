package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// TestSimulatedOwnersAgainstDaemon has two source objects ask for the same targets, under one rule or
// two, in a Simulation and in a daemon on a real control plane. After each step both have the same
// owners, and as many dead letters. INFORMD_OWNERS says how many histories, and INFORMD_SEED with
// which to begin.
func TestSimulatedOwnersAgainstDaemon(t *testing.T) {
	t.Parallel()
	harness.NeedSoak(t)
	histories, seed := howMany("INFORMD_OWNERS", 2, 40)
	for n := range histories {
		t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) {
			t.Parallel()
			newRivals(t, seed+n).run()
		})
	}
}

// rivals is a history of two source objects, a and b.
type rivals struct {
	*history
	*harness.Kube
	kubeconfig, state, manifests string
	sim                          *simulate.Simulation
	daemon                       *harness.Daemon
	labels                       map[string]string   // by source object: the one with which a rule selects it
	wishes                       map[string][]string // by source object: the targets that it asks for
	made                         map[string]string   // by target: what the simulation applied last
	changes                      int
	log                          []string
}

func newRivals(t *testing.T, seed uint64) *rivals {
	c := cluster.Shared(t)
	h := &rivals{
		history: &history{Rand: rand.New(rand.NewPCG(seed, 36)), t: t, seed: seed},
		Kube:    harness.NewKube(t, c), kubeconfig: c.Kubeconfig(), state: harness.ShortDir(t),
		wishes: make(map[string][]string), made: make(map[string]string),
	}
	h.labels = map[string]string{"a": "r0", "b": pick(h.history, "r0", "r1")}
	var text string
	for _, r := range []string{"r0", "r1"} {
		text += harness.Source("of-"+r, "resource: v1/configmaps, namespaces: [NS], labelSelector: copy="+r) +
			harness.Rule(r, "source: of-"+r+`, prune: true, actions: [{forEach: 'split(object.data.to, ",")', apply: {`+
				`resource: v1/configmaps, object: {metadata: {namespace: NS, name: "made-${item}"}, `+
				`data: {made: "`+r+` ${object.metadata.name} ${object.data.x}"}}}}]`)
	}
	h.manifests = h.Text(text)
	return h
}

func (h *rivals) run() {
	h.t.Helper()
	parsed, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(h.manifests)}})
	p, more := plan.Compile(parsed)
	for _, m := range append(mistakes, more...) {
		h.t.Fatal(m)
	}
	var err error
	h.sim, err = simulate.New(p, simulate.Options{})
	h.must(err)
	defer h.sim.Close()
	h.daemon = harness.RunInformd(h.t, h.kubeconfig, h.manifests, "--state-dir", h.state)
	h.daemon.AwaitReady()
	for range 25 {
		if h.IntN(5) == 0 {
			h.restart()
		} else {
			h.change()
		}
		h.settle()
	}
	h.daemon.Stop()
}

func (h *rivals) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *rivals) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("seed %d: %v\n%s", h.seed, err, strings.Join(h.log, "\n"))
	}
}

// change creates, updates, hides or deletes a source object, in both worlds.
func (h *rivals) change() {
	h.t.Helper()
	name := pick(h.history, "a", "b")
	h.changes++
	label, to := h.labels[name], []string{pick(h.history, "x", "y", "z"), pick(h.history, "x", "y", "z")}
	if h.IntN(6) == 0 {
		label = "nobody"
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": h.Ns, "name": name, "labels": map[string]any{"copy": label}},
		"data":     map[string]any{"to": strings.Join(to, ","), "x": fmt.Sprint(h.changes)},
	}}
	ctx, of := h.t.Context(), h.Resource(o)
	_, exists := h.sim.Get("of-r0", h.Ns, name)
	var err error
	switch {
	case exists && h.IntN(4) == 0:
		h.note("delete %s", name)
		delete(h.wishes, name)
		h.must(of.Delete(ctx, name, metav1.DeleteOptions{}))
		h.must(h.sim.Delete("of-r0", h.Ns, name))
		return
	case exists:
		o, err = of.Update(ctx, o, metav1.UpdateOptions{})
	default:
		o, err = of.Create(ctx, o, metav1.CreateOptions{})
	}
	h.must(err)
	h.note("apply %s as %s: %v, %d", name, label, to, h.changes)
	delete(h.wishes, name)
	if label != "nobody" {
		h.wishes[name] = to
	}
	text, err := o.MarshalJSON()
	h.must(err)
	h.must(h.sim.Apply("of-r0", text))
}

// restart runs another daemon, with the state or without. One change may come in between.
func (h *rivals) restart() {
	h.t.Helper()
	h.daemon.AwaitDelivered()
	h.daemon.AwaitWritten()
	if h.IntN(2) == 0 {
		h.daemon.Stop()
	} else {
		h.daemon.Kill()
	}
	h.must(h.sim.Stop())
	r := simulate.Resumption{StateLost: h.IntN(3) == 0}
	h.note("restart, state lost: %v", r.StateLost)
	if !r.StateLost && h.IntN(2) == 0 {
		h.change()
	}
	if r.StateLost {
		h.state = harness.ShortDir(h.t)
	}
	h.must(h.sim.Run(r))
	h.daemon = harness.RunInformd(h.t, h.kubeconfig, h.manifests, "--state-dir", h.state)
	h.daemon.AwaitReady()
}

// settle waits until the cluster has what the simulation says.
func (h *rivals) settle() {
	h.t.Helper()
	h.must(h.sim.Advance(0))
	for _, e := range h.sim.Events() {
		h.note("  %s %s %s: %d actions, dead: %q", e.Rule, e.Event.Event, e.Event.Name, len(e.Actions), e.Dead)
		for _, a := range e.Actions {
			var o struct{ Data struct{ Made string } }
			h.must(json.Unmarshal(a.Object, &o))
			h.made[a.Name] = o.Data.Made
		}
	}
	want := make(map[string]string)
	for _, to := range h.wishes {
		for _, target := range to {
			want["made-"+target] = h.made["made-"+target]
		}
	}
	status, _ := h.sim.Status()
	letters := fmt.Sprint(status.DeadLetters.Letters)
	what := fmt.Sprintf("%v and %s dead letters in seed %d\n%s\n%s", want, letters, h.seed, h.manifests, strings.Join(h.log, "\n"))
	h.daemon.Poll(what, func() bool {
		return maps.Equal(h.targets(), want) && h.daemon.Metric("informd_dead_letters") == letters
	})
	h.daemon.AwaitDelivered()
	if diff := gocmp.Diff(want, h.targets()); diff != "" {
		h.t.Fatalf("seed %d: (-simulation +cluster)\n%s\n%s", h.seed, diff, strings.Join(h.log, "\n"))
	}
}

// targets returns what the targets in the cluster say.
func (h *rivals) targets() map[string]string {
	h.t.Helper()
	all, err := h.Typed.CoreV1().ConfigMaps(h.Ns).List(h.t.Context(), metav1.ListOptions{})
	h.must(err)
	found := make(map[string]string)
	for _, m := range all.Items {
		if made, ok := m.Data["made"]; ok {
			found[m.Name] = made
		}
	}
	return found
}
