package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

// Prune deletes the objects with the labels that were not just applied, even more than one page of
// a list holds, and nothing else.
func TestPrune(t *testing.T) {
	t.Parallel()
	const many = 520
	x := newExecutor(t)
	x.by.Handler = "" // a rule's own
	x.made("source")
	ev := x.about("source", handler.Added)
	mark := "of=" + x.ns
	labelled := func(name string) handler.Action {
		return x.on(handler.ActionApply, name, withObject(fmt.Sprintf(`{"metadata":{"labels":{"of":%q}}}`, x.ns)))
	}
	x.made("bystander")
	x.made("copied") // with the rule's labels, but created by another client
	x.touch("copied", fmt.Sprintf(`{"metadata":{"labels":{"of":%q}}}`, x.ns))
	for i := range many {
		x.applied(fmt.Sprintf("old-%d", i), fmt.Sprintf(`{"of":%q}`, x.ns))
	}
	x.does(ev, list(labelled("kept"), labelled("old-7")), nil, action.Created, action.Unchanged)

	actions := list(labelled("kept"), labelled("old-7"), action.Prune(schema.GroupVersionResource(configMaps), mark))
	if err := action.ValidateOwn(actions); err != nil {
		t.Fatal(err)
	}
	want := []action.Result{action.Unchanged, action.Unchanged}
	for range many - 1 {
		want = append(want, action.Changed)
	}
	x.does(ev, actions, nil, want...)
	x.does(ev, actions, nil, action.Unchanged, action.Unchanged)
	for name, there := range map[string]bool{"kept": true, "old-7": true, "bystander": true, "copied": true, "source": true, "old-0": false, "old-519": false} {
		if got := x.configMap(name) != nil; got != there {
			t.Errorf("%s is there: %v", name, got)
		}
	}
	x.does(ev, list(action.Prune(schema.GroupVersionResource(configMaps), mark)), nil, action.Changed, action.Changed)
	x.does(ev, list(action.Prune(schema.GroupVersionResource{Group: "none.example.com", Version: "v1", Resource: "things"}, mark)), nil)
}

// With prune, a rule does not adopt another client's object, because prune would delete it later.
// The other objects are applied.
func TestPruneAdoptsNothing(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.by.Handler = ""
	x.made("source")
	x.made("theirs")
	ev := x.about("source", handler.Added)
	apply := func(name string) handler.Action {
		return x.on(handler.ActionApply, name, withObject(fmt.Sprintf(`{"metadata":{"labels":{"of":%q}},"data":{"a":"2"}}`, x.ns)))
	}
	pruned := action.Prune(schema.GroupVersionResource(configMaps), "of="+x.ns)
	err := x.does(ev, list(apply("theirs"), apply("source"), apply("ours"), pruned), handler.ErrReject, action.Rejected, action.Rejected, action.Created)
	if err == nil || !strings.Contains(err.Error(), "theirs: rejected: the object exists and the rule did not apply it") {
		t.Errorf("somebody else's: %v", err)
	}
	x.does(ev, list(pruned), nil, action.Changed)
	for name, there := range map[string]bool{"theirs": true, "source": true, "ours": false} {
		if got := x.configMap(name); (got != nil) != there || there && got.Data["a"] != "1" {
			t.Errorf("%s: %v", name, got)
		}
	}
	x.does(ev, list(apply("theirs")), nil, action.Changed) // without prune, an apply adopts the object
}

// Prune without labels would delete everything, so it is refused. No handler may ask for prune.
func TestRefusedPrunes(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	x.does(ev, list(action.Prune(schema.GroupVersionResource(configMaps), "")), handler.ErrReject, action.Rejected)
	err := action.Policy{Handler: "h", Grants: []action.Grant{{Resource: schema.GroupVersionResource(configMaps), Verbs: []string{"prune", "delete"}}}}.
		Check(ev, list(action.Prune(schema.GroupVersionResource(configMaps), "a=b")))
	if !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "prune") {
		t.Errorf("a handler's prune: %v", err)
	}
}
