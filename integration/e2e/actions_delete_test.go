package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

// A rule recognises its own deletions, although the response has no version. A deletion that
// another client finishes is not the rule's.
func TestDeletion(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("at-once")
	x.made("held", "informd.dev/test")
	x.made("let-go", "informd.dev/test")
	x.made("theirs")
	watched, err := x.kube.CoreV1().ConfigMaps(x.ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	uids := make(map[string]string)
	for _, name := range []string{"at-once", "held", "let-go", "theirs"} {
		uids[name] = string(x.configMap(name).UID)
	}

	ev := x.about("at-once", handler.Added)
	x.does(ev, list(x.on(handler.ActionDelete, "at-once")), nil, action.Changed)
	x.does(ev, list(x.on(handler.ActionDelete, "at-once")), nil, action.Gone)

	held := x.about("held", handler.Added)
	x.does(held, list(x.on(handler.ActionDelete, "held")), nil, action.Changed)
	if m := x.configMap("held"); m.DeletionTimestamp == nil || !x.wrote("held", m.ResourceVersion) {
		t.Error("the mark of a deletion is not known as the rule's own")
	}
	x.does(x.about("held", handler.Updated), list(x.on(handler.ActionDelete, "held")), nil, action.Unchanged)
	x.touch("held", `{"metadata":{"finalizers":null}}`)

	x.remove("let-go")
	x.does(x.about("let-go", handler.Updated), list(x.on(handler.ActionPatch, "let-go", merge(`{"metadata":{"finalizers":null}}`))), nil, action.Changed)
	x.remove("theirs")

	for name, own := range map[string]bool{"at-once": true, "held": false, "let-go": true, "theirs": false} {
		if x.configMap(name) != nil {
			t.Errorf("%s is still there", name)
		}
		if x.wrote(name, action.DeletionOf(uids[name])) != own {
			t.Errorf("the deletion of %s is the rule's own: %v, want %v", name, !own, own)
		}
	}
	// The watch reports a deletion with a version that no response had.
	for gone := 0; gone < len(uids); {
		e := <-watched.ResultChan()
		if e.Type == watch.Deleted {
			gone++
			m := e.Object.(metav1.Object)
			if x.wrote(m.GetName(), m.GetResourceVersion()) {
				t.Errorf("the deletion of %s has a version that is known", m.GetName())
			}
		} else if e.Type == watch.Error {
			t.Fatal(e.Object)
		}
	}
}

func TestDeletionDeletesDependents(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	job := handler.Resource{Group: "batch", Version: "v1", Resource: "jobs"}
	made := handler.Action{Verb: handler.ActionApply, Resource: job, Namespace: x.ns, Name: "j", Object: []byte(
		`{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)}
	x.does(x.about("source", handler.Added), list(made, handler.Action{Verb: handler.ActionDelete, Resource: job, Namespace: x.ns, Name: "j"}),
		nil, action.Created, action.Changed)
	// By default the API server would keep it until its Pods are orphaned.
	jobs, err := x.kube.BatchV1().Jobs(x.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 0 {
		t.Errorf("the Job is still there: %v %v", jobs.Items, err)
	}
}
