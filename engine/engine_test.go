package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/plugins/handler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a handler that is a function of the test.
type recorder struct {
	mu      sync.Mutex
	events  []string
	changed chan struct{} // capacity 1
	answer  func(handler.Event) error
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) Ready(context.Context) error { return nil }

func (r *recorder) Limit() (int, bool) { return 8, false }

func (r *recorder) Grown() <-chan struct{} { return nil }

func (r *recorder) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	r.mu.Lock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s %s", ev.Rule, ev.Event, ev.Name, ev.Payload))
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if r.answer != nil {
		return handler.Answer{}, r.answer(ev)
	}
	return handler.Answer{}, nil
}

// await waits for n events and returns them.
func (r *recorder) await(t *testing.T, n int) []string {
	t.Helper()
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		events := r.events
		r.mu.Unlock()
		if len(events) >= n {
			return events
		}
		select {
		case <-r.changed:
		case <-timeout:
			t.Fatalf("%d events, want %d: %q", len(events), n, events)
		}
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

var secrets = object.Secrets

// run starts an engine on the manifests, and stops it at the end of the test.
func run(t testing.TB, server *apistub.Server, manifests string, handlers map[string]live.Handler) *Engine {
	t.Helper()
	return runWith(t, server, manifests, handlers, Options{})
}

func runWith(t testing.TB, server *apistub.Server, manifests string, handlers map[string]live.Handler, o Options) *Engine {
	t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	httpClient, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(p, Cluster{server.Config(), httpClient, discoveryClient}, handlers, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}

const oneHandler = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: record}
spec: {builtin: log, retry: {backoff: 1ms, attempts: 2}}
---
`

func TestFromChangeToHandler(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1"}}`)
	record := newRecorder()
	e := run(t, server, oneHandler+`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {bySize: object.data.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: sizes}
spec:
  source: maps
  handler: record
  where: object.data.size != nil
  payload: [event, old.data.size, object.data.size, 'map(byIndex("bySize", object.data.size), .metadata.name)']
`, map[string]live.Handler{"record": record})
	record.await(t, 1)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"b"},"data":{"size":"1"}}`)
	record.await(t, 2)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"b"},"data":{"size":"2"}}`)
	record.await(t, 3)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"b"},"data":{}}`)
	want := []string{
		`sizes synced a ["synced",null,"1",["a"]]`,
		`sizes added b ["added",null,"1",["a","b"]]`,
		`sizes updated b ["updated","1","2",["b"]]`,
		// its last state inside the rule; the cache is fresher
		`sizes deleted b ["deleted",null,"2",[]]`,
	}
	if diff := cmp.Diff(want, record.await(t, 4)); diff != "" {
		t.Error(diff)
	}
	view, ok := e.Source("maps")
	if !ok || len(view.List("", nil)) != 2 {
		t.Errorf("the source has %d objects, want 2", len(view.List("", nil)))
	}
}

func TestStatusShowsFailures(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	record.answer = func(ev handler.Event) error {
		if ev.Name == "poison" {
			return handler.Reject(nil)
		}
		return nil
	}
	e := run(t, server, oneHandler+`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {broken: object.data.text + 1}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: same}
spec: {resource: v1/configmaps, indexes: {asBroken: object.data.text + 1}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: broken}
spec: {source: maps, handler: record, when: object.data.text > 1}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: fine}
spec: {source: maps, handler: record, payload: object.data.text}
`, map[string]live.Handler{"record": record})
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"poison"},"data":{"text":"x"}}`)
	record.await(t, 1)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"good"},"data":{"text":"y"}}`)
	record.await(t, 2)
	status := e.Status()
	for deadline := time.Now().Add(patience); status.DeadLetters.Letters == 0 && time.Now().Before(deadline); status = e.Status() {
		// the letter is recorded after the handler has answered, and nothing announces that
		time.Sleep(time.Millisecond)
	}
	for _, s := range status.Sources { // the second source shares the informer and its index
		if !s.Ready || s.Objects != 2 || s.IndexErrors == 0 {
			t.Errorf("source %+v", s)
		}
	}
	broken, fine := status.Rules[0], status.Rules[1]
	if broken.Errors != 2 || broken.Matches != 0 || fine.Errors != 0 || fine.Matches != 2 {
		t.Errorf("rules %+v and %+v", broken, fine)
	}
	if status.DeadLetters.Letters != 1 {
		t.Errorf("%v dead letters, want the rejected one", status.DeadLetters)
	}
}

func TestKeepNeeded(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	e := run(t, server, oneHandler+`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, keep: needed}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: texts}
spec: {source: maps, handler: record, payload: object.data.text}
`, map[string]live.Handler{"record": record})
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a","labels":{"x":"y"}},"data":{"text":"hello","large":"never read"}}`)
	if got := record.await(t, 1); got[0] != `texts added a "hello"` && got[0] != `texts synced a "hello"` {
		t.Errorf("delivered %q", got)
	}
	view, _ := e.Source("maps")
	o, ok := view.Get("shop", "a")
	if !ok {
		t.Fatal("the object is not in the cache")
	}
	version := o.ResourceVersion()
	want := fmt.Sprintf(`{"metadata":{"labels":{"x":"y"},"name":"a","namespace":"shop","resourceVersion":%q,"uid":%q},"data":{"text":"hello"}}`, version, o.UID())
	if diff := cmp.Diff(decode(t, want), decode(t, string(o.JSON()))); diff != "" {
		t.Errorf("kept %s: %s", o.JSON(), diff)
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMissingHandler(t *testing.T) {
	t.Parallel()
	c, _ := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {source: maps, handler: record}
`)}})
	p, mistakes := plan.Compile(c)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if _, err := New(p, Cluster{Config: new(rest.Config)}, nil, Options{}); err == nil {
		t.Error("an engine without the handler that a rule delivers to")
	}
}
