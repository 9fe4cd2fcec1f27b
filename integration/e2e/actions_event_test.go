package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	x.made("other")
	ev := x.about("a", handler.Added)
	about := func(name string, more ...func(*handler.Action)) handler.Action {
		return x.on(handler.ActionEvent, name, append(more, func(a *handler.Action) { a.Reason, a.Message = "Quarantined", "it is on the list" })...)
	}
	actions := list(about("a"), about("a", func(a *handler.Action) { a.Warning = true }), about("other"), about("never-there"))
	x.does(ev, actions, nil, action.Changed, action.Changed, action.Changed, action.Gone)
	ev.Attempt = 2
	x.does(ev, actions, nil, action.Unchanged, action.Unchanged, action.Unchanged, action.Gone)
	next := *ev
	next.ID += "1"
	x.does(&next, actions[:1], nil, action.Changed)

	// Select Events as kubectl describe does.
	events, err := x.kube.CoreV1().Events(x.ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.namespace=" + x.ns + ",involvedObject.name=a,involvedObject.uid=" + ev.UID,
	})
	if err != nil || len(events.Items) != 3 {
		t.Fatalf("%d Events about the object, want 3 (%v)", len(events.Items), err)
	}
	types := make(map[string]int)
	for _, e := range events.Items {
		types[e.Type]++
		if e.Reason != "Quarantined" || e.Message != "it is on the list" || e.Source.Component != "informd/r" ||
			e.ReportingController != "informd.dev" || e.Count != 1 || e.LastTimestamp.IsZero() || !strings.HasPrefix(e.Name, "a.") {
			t.Errorf("Event %+v", e)
		}
	}
	if types[corev1.EventTypeNormal] != 2 || types[corev1.EventTypeWarning] != 1 {
		t.Errorf("types %v", types)
	}
	others, err := x.kube.CoreV1().Events(x.ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(x.configMap("other").UID),
	})
	if err != nil || len(others.Items) != 1 {
		t.Errorf("%d Events about the other object, want 1 (%v)", len(others.Items), err)
	}

	// Events about objects without a namespace, and about names that do not fit into an Event's
	// name.
	roles := handler.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	x.does(ev, list(
		handler.Action{Verb: handler.ActionEvent, Resource: handler.Resource{Version: "v1", Resource: "namespaces"}, Name: x.ns, Reason: "Seen"},
		handler.Action{Verb: handler.ActionEvent, Resource: roles, Name: "system:node", Reason: "Seen", Message: strings.Repeat("ä", 2000)},
	), nil, action.Changed, action.Changed)

	// An Event about the event's own object, after its deletion.
	x.remove("a")
	ev.Event, ev.ID = handler.Deleted, ev.ID+"2"
	x.does(ev, list(about("a")), nil, action.Changed)
}

func TestStatusSubresource(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	pods := handler.Resource{Version: "v1", Resource: "pods"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod, err := x.kube.CoreV1().Pods(x.ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ev := &handler.Event{
		ID: "i", Rule: "r", Event: handler.Added, Attempt: 1, Resource: pods, Namespace: x.ns, Name: "p", UID: string(pod.UID), ResourceVersion: pod.ResourceVersion,
	}
	status := func(verb, name string, more ...func(*handler.Action)) handler.Action {
		return x.on(verb, name, append(more, func(a *handler.Action) { a.Resource, a.Subresource = pods, "status" })...)
	}
	x.does(ev, list(
		status(handler.ActionApply, "p", withObject(`{"status":{"reason":"Because"}}`)),
		status(handler.ActionPatch, "p", merge(`{"status":{"message":"so it is"}}`)),
		status(handler.ActionPatch, "p", operations(`[{"op":"test","path":"/status/reason","value":"Because"}]`)),
		status(handler.ActionApply, "never-there", withObject(`{"status":{"reason":"Because"}}`)),
		status(handler.ActionPatch, "never-there", merge(`{"status":{"reason":"Because"}}`)),
	), nil, action.Changed, action.Changed, action.Unchanged, action.Gone, action.Gone)
	if audit := x.audit.String(); strings.Contains(audit, "ignored") {
		t.Errorf("nothing is ignored:\n%s", audit)
	}
	pod, err = x.kube.CoreV1().Pods(x.ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || pod.Status.Reason != "Because" || pod.Status.Message != "so it is" {
		t.Errorf("status %+v, %v", pod.Status, err)
	}
}

// What the API server ignores of an apply is reported, and nothing else is.
func TestAppliesThatTheServerIgnores(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	spec := `"spec":{"containers":[{"name":"c","image":"i"}]}`
	for _, test := range []struct{ resource, subresource, object, ignored string }{
		{"pods", "", `{` + spec + `,"status":{"reason":"Because"}}`, "status"},
		{"pods", "", `{"metadata":{"labels":{"a":"b"}},` + spec + `}`, ""},
		{"pods", "status", `{"status":{"reason":"Because"}}`, ""},
		{"pods", "status", `{"spec":{"activeDeadlineSeconds":5},"status":{"reason":"Because"}}`, "spec"},
		{"secrets", "", `{"type":"Opaque","stringData":{"a":"b"},"data":{},"immutable":false}`, ""},
		{"configmaps", "", `{"data":{"a":"b"},"binaryData":{}}`, ""},
		{"services", "", `{"spec":{"ports":[{"port":80}],"selector":{}}}`, ""},
		{"serviceaccounts", "", `{"automountServiceAccountToken":false,"imagePullSecrets":[]}`, ""},
	} {
		x.audit.Reset()
		a := x.on(handler.ActionApply, "p", withObject(test.object))
		a.Resource, a.Subresource = handler.Resource{Version: "v1", Resource: test.resource}, test.subresource
		if err := x.Do(t.Context(), x.by, ev, list(a)); err != nil {
			t.Errorf("%s: %v", test.object, err)
			continue
		}
		audit := x.audit.String()
		if strings.Contains(audit, "ignored") != (test.ignored != "") ||
			!strings.Contains(audit, "ignored "+test.ignored) && test.ignored != "" {
			t.Errorf("%s: the audit says\n%s\nwant that it ignored %q", test.object, audit, test.ignored)
		}
	}
}
