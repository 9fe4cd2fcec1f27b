package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// What the API server will never accept is rejected, and the reason quotes nothing of the object.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	ev := x.about("a", handler.Added)
	deployments := func(a *handler.Action) {
		a.Resource = handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"}
	}
	for name, c := range map[string]struct {
		handler.Action
		said string
	}{
		"apply of an unknown field":  {x.on(handler.ActionApply, "b", withObject(`{"dataa":{"x":"hush"}}`)), "dataa"},
		"apply of a wrong type":      {x.on(handler.ActionApply, "b", withObject(`{"data":{"x":12345}}`)), ".data.x: expected string"},
		"create of an unknown field": {x.on(handler.ActionCreate, "b", withObject(`{"dataa":{"x":"hush"}}`)), "dataa"},
		"another kind":               {x.on(handler.ActionApply, "b", withObject(`{"kind":"Secret","data":{"x":"hush"}}`)), "kind must be ConfigMap"},
		"patch to a wrong type":      {x.on(handler.ActionPatch, "a", merge(`{"data":{"x":["hush"]}}`)), "422"},
		"patch of an unknown field":  {x.on(handler.ActionPatch, "a", merge(`{"dataa":{"x":"hush"}}`)), "dataa"},
		"patch to what is invalid":   {x.on(handler.ActionPatch, "a", merge(`{"data":{"/":"hush"}}`)), "config key"},
		"patch that does not fit":    {x.on(handler.ActionPatch, "a", operations(`[{"op":"test","path":"/data/a","value":"hush"}]`)), "422"},
		"create without what is needed": {x.on(handler.ActionCreate, "b", deployments, withObject(
			`{"spec":{"selector":{"matchLabels":{"x":"hush"}},"template":{"metadata":{"labels":{"x":"12345"}},"spec":{"containers":[]}}}}`)), "spec.template"},
		"a name that is none":  {x.on(handler.ActionCreate, "No_Name", withObject(`{}`)), "metadata.name"},
		"no namespace":         {x.on(handler.ActionApply, "b", withObject(`{}`), func(a *handler.Action) { a.Namespace = "" }), "namespace"},
		"a namespace too much": {x.on(handler.ActionDelete, "b", func(a *handler.Action) { a.Resource.Resource = "nodes" }), "namespace"},
		"a namespace that is not there": {x.on(handler.ActionApply, "b", withObject(`{}`), func(a *handler.Action) { a.Namespace = "never" }),
			"namespace never does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			x.t = t
			err := x.does(ev, list(c.Action), handler.ErrReject, action.Rejected)
			if err == nil || !strings.Contains(err.Error(), c.said) {
				t.Errorf("%v, want %q", err, c.said)
			}
			for _, hush := range []string{"hush", "12345", "test-"} {
				if text := strings.ReplaceAll(errorText(err), x.ns, ""); strings.Contains(text, hush) {
					t.Errorf("content is told: %v", err)
				}
			}
		})
	}
	if log := x.audit.String(); strings.Contains(log, "hush") || strings.Count(log, "\n") != 13 {
		t.Errorf("the audit is not a line for each action, or tells content:\n%s", log)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A resource that is not served or not permitted may be later: that is not a rejection.
func TestRefusedForNow(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	ev := x.about("a", handler.Added)
	for name, c := range map[string]struct {
		handler.Action
		said string
	}{
		"a resource of an unknown group": {x.on(handler.ActionDelete, "b", func(a *handler.Action) { a.Resource.Group = "example.com" }), "the cluster does not serve example.com/v1/configmaps"},
		"an unknown resource":            {x.on(handler.ActionDelete, "b", func(a *handler.Action) { a.Resource.Resource = "maps" }), "the cluster does not serve v1/maps"},
		"an unknown subresource":         {x.on(handler.ActionPatch, "a", merge(`{}`), func(a *handler.Action) { a.Subresource = "status" }), "the cluster does not serve v1/configmaps/status"},
	} {
		t.Run(name, func(t *testing.T) {
			x.t = t
			err := x.Do(t.Context(), x.by, ev, list(c.Action))
			if err == nil || errors.Is(err, handler.ErrReject) || errors.Is(err, action.ErrConflict) || !strings.Contains(err.Error(), c.said) {
				t.Errorf("%v, want %q", err, c.said)
			}
		})
	}
}

func TestTerminatingNamespace(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	ev := x.about("a", handler.Added)
	namespace, err := x.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.kube.CoreV1().Namespaces().Delete(t.Context(), namespace.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	there := func(a *handler.Action) { a.Namespace = namespace.Name }
	x.does(ev, list(
		x.on(handler.ActionApply, "b", withObject(`{}`), there), x.on(handler.ActionCreate, "b", withObject(`{}`), there), x.on(handler.ActionApply, "b", withObject(`{}`)),
	), nil, action.Gone, action.Gone, action.Created)
}

// If the API server forbids something to informd, that is temporary: a role may be granted
// meanwhile.
func TestForbidden(t *testing.T) {
	t.Parallel()
	x := newExecutorAs(t, limited(t))
	x.made("a")
	ev := x.about("a", handler.Added)
	patch := list(x.on(handler.ActionPatch, "a", merge(`{"data":{"b":"2"}}`)))
	err := x.Do(t.Context(), x.by, ev, patch)
	if err == nil || errors.Is(err, handler.ErrReject) || errors.Is(err, action.ErrConflict) ||
		!strings.Contains(err.Error(), `patch of v1/configmaps `+x.ns+`/a: 403 Forbidden: configmaps "a" is forbidden: User "limited" cannot patch resource "configmaps"`) {
		t.Fatalf("forbidden: %v", err)
	}
	x.allow("patch")
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(50 * time.Millisecond) {
		if err := x.Do(t.Context(), x.by, ev, patch); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	// The other actions are still forbidden.
	err = x.Do(t.Context(), x.by, ev, list(x.on(handler.ActionDelete, "a")))
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("delete: %v", err)
	}
}

// limited returns the configuration of a user who may do only what a test allows.
func limited(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Shared(t).LimitedKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// allow grants verbs on ConfigMaps in the test's namespace to the limited user. The API server
// enforces it some moments later.
func (x *executor) allow(verbs ...string) {
	x.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "may"}, Rules: []rbacv1.PolicyRule{
		{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"configmaps"}},
	}}
	if _, err := x.kube.RbacV1().Roles(x.ns).Create(x.t.Context(), role, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "may"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "may"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "limited"}},
	}
	if _, err := x.kube.RbacV1().RoleBindings(x.ns).Create(x.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
}
