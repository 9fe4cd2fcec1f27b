package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

var configMaps = handler.Resource{Version: "v1", Resource: "configmaps"}

// executor performs actions in the test's own namespace, for the rule "r" and the handler "h".
type executor struct {
	*action.Executor
	t      *testing.T
	ns     string
	kube   kubernetes.Interface // an administrator's
	writes *action.Writes
	by     action.By

	mu    sync.Mutex
	done  []action.Done
	audit bytes.Buffer
}

func newExecutor(t *testing.T) *executor {
	t.Helper()
	return newExecutorAs(t, cluster.Shared(t).RESTConfig())
}

func newExecutorAs(t *testing.T, config *rest.Config) *executor {
	t.Helper()
	x := &executor{
		t: t, kube: kubernetes.NewForConfigOrDie(cluster.Shared(t).RESTConfig()), writes: action.NewWrites(),
		by: action.By{Rule: "r", Handler: "h"},
	}
	namespace, err := x.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.ns = namespace.Name
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(over.CloseIdleConnections)
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, over)
	if err != nil {
		t.Fatal(err)
	}
	x.Executor, err = action.New(config, over, disco, time.Now, action.Options{
		Writes: x.writes, Logger: slog.New(slog.NewTextHandler(&x.audit, nil)),
		Observer: func(d action.Done) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.done = append(x.done, d)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// configMap returns the current ConfigMap of the name, or nil if there is none.
func (x *executor) configMap(name string) *corev1.ConfigMap {
	x.t.Helper()
	m, err := x.kube.CoreV1().ConfigMaps(x.ns).Get(x.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

// about returns an event of a ConfigMap in its current state.
func (x *executor) about(name, kind string) *handler.Event {
	x.t.Helper()
	m := x.configMap(name)
	return &handler.Event{
		ID: "r/" + string(m.UID) + "/" + kind + "/" + m.ResourceVersion, Rule: "r", Event: kind, Attempt: 1, Resource: configMaps,
		Namespace: x.ns, Name: name, UID: string(m.UID), ResourceVersion: m.ResourceVersion,
	}
}

// errAny makes does accept any error.
var errAny = errors.New("any error")

// does performs actions, and checks their results and that the error wraps the given one.
func (x *executor) does(ev *handler.Event, actions []handler.Action, want error, results ...action.Result) error {
	x.t.Helper()
	x.mu.Lock()
	x.done = nil
	x.mu.Unlock()
	err := x.perform(ev, actions)
	if !(errors.Is(err, want) || want == errAny && err != nil) || want == nil && err != nil {
		x.t.Errorf("Do: %v, want %v", err, want)
	}
	var got []action.Result
	for _, d := range x.done {
		got = append(got, d.Result)
	}
	if !slices.Equal(got, results) {
		x.t.Errorf("results %v, want %v (%v)", got, results, err)
	}
	return err
}

// perform performs actions: those of a handler's answer, or a rule's own one after the other. It
// returns the first error.
func (x *executor) perform(ev *handler.Event, actions []handler.Action) (first error) {
	ctx := x.t.Context()
	if x.by.Handler != "" {
		return x.Do(ctx, x.by, ev, actions)
	}
	applied := make(map[delta.Key]bool)
	isPrune := func(a handler.Action) bool { _, is := action.IsPrune(a); return is }
	seq := x.Begin(ctx, x.by, ev, nil)
	for i, a := range actions {
		var err error
		if selector, is := action.IsPrune(a); is {
			_, err = seq.Prune(ctx, schema.GroupVersionResource(a.Resource), selector,
				func(_ schema.GroupVersionResource, key delta.Key) bool { return applied[key] })
		} else {
			applied[delta.Key{Namespace: a.Namespace, Name: a.Name}] = a.Verb == handler.ActionApply
			_, err = seq.One(ctx, action.Request{
				Action: a, Number: i + 1, Prunes: slices.ContainsFunc(actions, isPrune),
			})
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// wrote reports whether the executor knows a version of a ConfigMap as the rule's own.
func (x *executor) wrote(name, version string) bool {
	w, known := x.writes.Of(schema.GroupVersionResource(configMaps), delta.Key{Namespace: x.ns, Name: name}, version)
	return known && w.Rule == "r"
}

// made creates a ConfigMap as another client.
func (x *executor) made(name string, finalizers ...string) {
	x.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, Data: map[string]string{"a": "1"}}
	if _, err := x.kube.CoreV1().ConfigMaps(x.ns).Create(x.t.Context(), m, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// touch changes a ConfigMap as another client.
func (x *executor) touch(name, patch string) {
	x.t.Helper()
	_, err := x.kube.CoreV1().ConfigMaps(x.ns).Patch(x.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
}

// applied applies a ConfigMap as the rule did in an earlier run.
func (x *executor) applied(name, labels string) {
	x.t.Helper()
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","labels":` + labels + `}}`
	_, err := x.kube.CoreV1().ConfigMaps(x.ns).Patch(x.t.Context(), name, types.ApplyPatchType, []byte(object), metav1.PatchOptions{FieldManager: "informd/r"})
	if err != nil {
		x.t.Fatal(err)
	}
}

// remove deletes a ConfigMap as another client.
func (x *executor) remove(name string) {
	x.t.Helper()
	if err := x.kube.CoreV1().ConfigMaps(x.ns).Delete(x.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// on returns an action on a ConfigMap.
func (x *executor) on(verb, name string, more ...func(*handler.Action)) handler.Action {
	a := handler.Action{Verb: verb, Resource: configMaps, Namespace: x.ns, Name: name}
	for _, m := range more {
		m(&a)
	}
	return a
}

func withObject(text string) func(*handler.Action) {
	return func(a *handler.Action) { a.Object = json.RawMessage(text) }
}

func merge(text string) func(*handler.Action) {
	return func(a *handler.Action) { a.Patch = json.RawMessage(text) }
}

func operations(text string) func(*handler.Action) {
	return func(a *handler.Action) { a.Patch, a.PatchType = json.RawMessage(text), handler.JSONPatch }
}

func at(version string) func(*handler.Action) {
	return func(a *handler.Action) { a.ResourceVersion = version }
}

func list(a ...handler.Action) []handler.Action { return a }
