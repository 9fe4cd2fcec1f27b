package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// actions measures what a rule's own actions cost, on a real control plane. For each change of one
// config map, a contestant applies many others.
type actions struct {
	at     site
	plane  *plane
	perOne int // config maps to apply for one change
	turns  int
	runs   map[string][]acted // by contestant
	claims claims
	err    bool
}

// acted holds what the actions of one contestant took.
type acted struct {
	cpu     float64 // µs per action
	rate    float64 // per second
	written float64 // bytes sent to the disk per action
}

// actor is a contestant of actions.
type actor struct {
	name, rule    string
	prunes, state bool
	isStock       bool // it is client-go, not informd
}

const (
	applying    = "client-go, each applied with one request"
	actsAlone   = "a rule's own actions, no state"
	actsStateOf = "the same with a state directory"
	actsPrunes  = "with prune, no state"
	actsBoth    = "with prune and a state directory"
)

var actors = []actor{
	{name: applying, rule: "stock", isStock: true},
	{name: actsAlone, rule: "alone"},
	{name: actsStateOf, rule: "state", state: true},
	{name: actsPrunes, rule: "prune", prunes: true},
	{name: actsBoth, rule: "both", prunes: true, state: true},
}

const actedIn = "default" // the namespace of all config maps

// atOnce is how many requests a contestant has under way: as many as a rule of informd.
const atOnce = 8

func newActions(at site, s scale) section {
	perOne := max(8, s.updates/30)
	return &actions{
		at: at, plane: &plane{dir: filepath.Join(at.dir, "a")}, perOne: perOne, turns: 4,
		runs: make(map[string][]acted), claims: claims{at: at, n: s.listed()},
	}
}

func (a *actions) jobs() []job {
	noting := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			err := do(ctx)
			a.err = a.err || err != nil
			return err
		}
	}
	return []job{
		{name: "actions", do: noting(a.measure)},
		{name: "actions: the table of targets", do: noting(a.claims.measure)},
	}
}

// measure runs all contestants, one after the other. Each one is first in some round.
func (a *actions) measure(ctx context.Context) (err error) {
	if err := a.plane.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.plane.Stop()) }()
	client, err := dynamic.NewForConfig(a.plane.RESTConfig())
	if err != nil {
		return err
	}
	for i, round := 0, len(a.runs[applying]); i < len(actors); i++ {
		of := actors[(i+round)%len(actors)]
		took, err := a.run(ctx, client.Resource(resources[2].gvr).Namespace(actedIn), of)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		a.runs[of.name] = append(a.runs[of.name], took)
	}
	return nil
}

// run measures one contestant, after a first change that creates all config maps.
func (a *actions) run(
	ctx context.Context, client dynamic.ResourceInterface, of actor,
) (took acted, err error) {
	name := "source-" + of.rule
	source := configMap(name, map[string]any{"watched": name}, "")
	_, err = client.Apply(ctx, name, source, metav1.ApplyOptions{FieldManager: "bench", Force: true})
	if err != nil {
		return took, err
	}
	applied, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: "applied-for=" + name})
	if err != nil {
		return took, err
	}
	defer applied.Stop()
	c, err := a.start(ctx, client, of, name)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var before usage
	var busy time.Duration
	for turn := range a.turns + 1 {
		text := fmt.Sprint(time.Now().UnixNano(), "-", turn)
		began := time.Now()
		if err := c.change(text); err != nil {
			return took, err
		}
		if err := a.await(ctx, applied, text); err != nil {
			return took, fmt.Errorf("change %d: %w%s", turn, err, c.explain(ctx))
		}
		busy += time.Since(began)
		if turn == 0 {
			if before, err = settled(ctx, c.pid, a.at.rest); err != nil {
				return took, err
			}
			busy = 0
		}
	}
	after, err := settled(ctx, c.pid, a.at.rest)
	n := a.turns * a.perOne
	return acted{
		cpu: per(after.cpu-before.cpu, n), rate: float64(n) / busy.Seconds(),
		written: float64(after.disk-before.disk) / float64(n),
	}, err
}

// configMap returns a config map with a text.
func configMap(name string, labels map[string]any, text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": actedIn, "name": name, "labels": labels},
		"data":     map[string]any{"text": text},
	}}
}

// applier is a contestant at work.
type applier struct {
	pid     int
	change  func(text string) error // has it apply all config maps with a text
	explain func(context.Context) string
	stop    func() error
}

// start starts a contestant.
func (a *actions) start(
	ctx context.Context, client dynamic.ResourceInterface, of actor, source string,
) (*applier, error) {
	if of.isStock {
		c, err := a.at.start(ctx, "apply", a.plane.Kubeconfig(), source, strconv.Itoa(a.perOne))
		if err != nil {
			return nil, err
		}
		change := func(text string) error {
			_, err := c.ask(question{Ask: askApply, Text: text})
			return err
		}
		return &applier{c.pid(), change, func(context.Context) string { return "" }, c.stop}, nil
	}
	dir, err := os.MkdirTemp(a.at.dir, "a")
	if err != nil {
		return nil, err
	}
	state := noState
	if of.state {
		state = filepath.Join(dir, "state")
	}
	d := &daemon{ended: make(chan struct{})}
	err = d.start(ctx, a.at, dir, a.plane.Kubeconfig(), a.manifests(of, source), state)
	if err != nil {
		return nil, err
	}
	if err := d.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	change := func(text string) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{"text": text}})
		if err == nil {
			_, err = client.Patch(ctx, source, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return err
	}
	explain := func(ctx context.Context) string { return "\n" + d.explain(ctx) }
	return &applier{d.pid(), change, explain, d.stop}, nil
}

// manifests returns one rule that applies config maps for another one.
func (a *actions) manifests(of actor, source string) string {
	return fmt.Sprintf(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: changing}
spec: {resource: v1/configmaps, namespaces: [%[1]s], labelSelector: watched=%[2]s}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: %[3]s}
spec:
  source: changing
  where: object.data.text != ""
  actions:
  - forEach: 1..%[4]d
    apply:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        namespace: %[1]s
        name: "${object.metadata.name}-${item}"
        labels: {applied-for: "${object.metadata.name}"}
      data: {text: "${object.data.text}"}
  prune: %[5]v
`, actedIn, source, of.rule, a.perOne, of.prunes)
}

// await waits until all config maps have a text.
func (a *actions) await(ctx context.Context, applied watch.Interface, text string) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for missing := a.perOne; missing > 0; {
		select {
		case ev, ok := <-applied.ResultChan():
			if !ok {
				return errors.New("the watch of what is applied has ended")
			}
			o, _ := ev.Object.(*unstructured.Unstructured)
			if o == nil {
				return fmt.Errorf("the watch of what is applied: %v", ev.Object)
			}
			if got, _, _ := unstructured.NestedString(o.Object, "data", "text"); got == text {
				missing--
				limit.Reset(patience)
			}
		case <-limit.C:
			return fmt.Errorf("%d of %d config maps are not applied, and no more for %v",
				missing, a.perOne, patience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (a *actions) report() (table, []target) {
	rows := [][]string{{
		"", "CPU µs/action", "actions/s", "B written/action", "heap B/target", "disk B/target",
		"targets restored/CPU s",
	}}
	cpu := func(one acted) float64 { return one.cpu }
	for _, of := range actors {
		took, disk := a.runs[of.name], "–"
		if of.state {
			disk = spread(took, 0, func(one acted) float64 { return one.written })
		}
		rows = append(rows, []string{
			of.name, spread(took, 1, cpu),
			spread(took, 0, func(one acted) float64 { return one.rate }), disk, "–", "–", "–",
		})
	}
	all := a.claims.runs
	rows = append(rows, []string{
		fmt.Sprintf("the table alone, with %d targets", a.claims.n), "–", "–", "–",
		spread(all, 0, func(c claimed) float64 { return c.heap }),
		spread(all, 0, func(c claimed) float64 { return c.disk }),
		spread(all, 0, func(c claimed) float64 { return c.restored }),
	})
	title := fmt.Sprintf("A rule's own actions, on a real control plane: "+
		"%d changes of a config map, for each of which %d others are applied, %d at once",
		a.turns, a.perOne, atOnce)
	both, alone := median(a.runs[actsBoth], cpu), median(a.runs[actsAlone], cpu)
	return table{title, rows}, []target{{
		what:  "CPU of an action with prune and a state directory, to that with neither",
		limit: 1.2, value: both / alone, err: a.err || len(a.runs[actsBoth]) == 0,
		from: fmt.Sprintf("CPU µs/action: %.1f to %.1f", both, alone),
	}}
}

// serveApply applies config maps with client-go. Its arguments are a kubeconfig, the name of the
// config map for which they are applied, and how many they are.
func serveApply(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("arguments %q", args)
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	into := client.Resource(resources[2].gvr).Namespace(actedIn)
	return answerQuestions(os.Stdin, os.Stdout, func(q question) (a answer, err error) {
		switch q.Ask {
		case askReady:
		case askApply:
			err = applyAll(ctx, into, args[1], n, q.Text)
		default:
			err = errors.New("not of what applies")
		}
		return a, err
	})
}

// applyAll applies n config maps with a text, as many at once as informd does.
func applyAll(
	ctx context.Context, into dynamic.ResourceInterface, source string, n int, text string,
) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			labels := map[string]any{"applied-for": source}
			o := configMap(fmt.Sprint(source, "-", i), labels, text)
			_, err := into.Apply(ctx, o.GetName(), o,
				metav1.ApplyOptions{FieldManager: "bench", Force: true})
			return err
		})
	}
	return group.Wait()
}
