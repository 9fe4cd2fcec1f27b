package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/integration/apistub"
)

const shepherd = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: shepherd}
spec:
  source: pods
  actions:
  - apply: {apiVersion: example.com/v1, kind: Sheep, metadata: {name: dolly, namespace: shop}}
`

// A kind that the cluster does not serve at the start has the rule's actions wait. Once it is served,
// the rule goes on by itself.
func TestKindsThatComeLater(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	sheep := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sheep"}
	server.Serve(pods, "Pod", true)
	server.Apply(pods, `{"metadata":{"namespace":"shop","name":"web-0"}}`)

	cfg, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(shepherd)}})
	compiled, more := plan.Compile(cfg)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	cluster, err := connect(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	acted := make(chan action.Done, 100)
	eng, err := engine.New(compiled, cluster, nil, engine.Options{Acted: func(d action.Done) { acted <- d }})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	to := slog.New(slog.NewTextHandler(&log, nil))
	now := &current{
		engine: eng, handlers: new(handlers), folders: new(launch.Folders), fitting: new(fitting), metrics: newMetrics("test", true),
		log: to, kinds: newKinds(cluster.Discovery, to),
	}
	now.running.Store(&running{cfg, compiled})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- eng.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	now.kinds.logUnserved(compiled)
	if want := `rule=shepherd kind=Sheep apiVersion=example.com/v1`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %s: %s", want, log.String())
	}
	const why = "informd has not found this kind in the cluster, and goes on when the cluster serves it: Sheep of example.com/v1"
	until(t, why, func() bool {
		status := eng.Status().Rules[0]
		return strings.Contains(status.Failure, why)
	})
	if err := now.nameKinds(ctx); err != nil || now.running.Load().cfg != cfg {
		t.Errorf("a rule was switched to a kind that is not served: %v", err)
	}
	if len(acted) > 0 {
		t.Errorf("there was an action: %v", <-acted)
	}

	server.Serve(sheep, "Sheep", true)
	if err := now.nameKinds(ctx); err != nil || now.running.Load().cfg == cfg {
		t.Fatalf("the rule was not switched to it: %v", err)
	}
	select {
	case d := <-acted:
		if d.Resource != sheep || d.Name != "dolly" {
			t.Errorf("the action was about %s %s", object.ResourceName(d.Resource), d.Name)
		}
	case <-time.After(time.Minute):
		t.Error("there was no action")
	}
	// The manifests do not name the kind. The last answer of the cluster holds while it does not answer.
	server.Fail(func(r *http.Request) *metav1.Status {
		if strings.HasPrefix(r.URL.Path, "/apis/example.com/") {
			return &apierrors.NewServiceUnavailable("away").ErrStatus
		}
		return nil
	})
	if read, _, err := now.kinds.named(ctx, cfg, compiled); err != nil || len(read.Unnamed()) > 0 {
		t.Errorf("while the cluster does not answer, it is forgotten: %v, %v", read.Unnamed(), err)
	}
	server.Fail(nil)
	server.Withdraw(sheep)
	if read, _, err := now.kinds.named(ctx, cfg, compiled); err != nil || len(read.Unnamed()) != 1 {
		t.Errorf("it is not served any more, and its resource is known: %v", err)
	}
	next, p := now.running.Load().cfg, now.plan()
	if again, samePlan, err := now.kinds.named(ctx, next, p); again != next || samePlan != p || err != nil {
		t.Errorf("what is named was asked for again: %v", err)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it is not so: %s", what)
		}
	}
}
