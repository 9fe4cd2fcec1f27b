package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

func TestApply(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	apply := list(x.on(handler.ActionApply, "made", withObject(`{"data":{"x":"1"}}`)))
	x.does(ev, apply, nil, action.Created)
	if !x.wrote("made", x.configMap("made").ResourceVersion) {
		t.Error("a creation is not known as the rule's own")
	}
	x.does(ev, apply, nil, action.Unchanged)

	// An apply that changes nothing returns the version of whoever changed the object last.
	x.touch("made", `{"data":{"y":"theirs"}}`)
	x.does(ev, apply, nil, action.Unchanged)
	if x.wrote("made", x.configMap("made").ResourceVersion) {
		t.Error("somebody else's version is taken for the rule's own")
	}
	// The apply takes back only the fields that others took over.
	x.touch("made", `{"data":{"x":"theirs"}}`)
	x.does(ev, apply, nil, action.Changed)
	m := x.configMap("made")
	if m.Data["x"] != "1" || m.Data["y"] != "theirs" || !x.wrote("made", m.ResourceVersion) {
		t.Errorf("after the apply: %v, the rule's own: %v", m.Data, x.wrote("made", m.ResourceVersion))
	}
	if by := m.ManagedFields[0]; by.Manager != "informd/r" || by.Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed by %+v", by)
	}
}

func TestPatchOfTheEventsObject(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	ev := x.about("a", handler.Added)
	for i, patch := range []func(*handler.Action){
		merge(`{"metadata":{"labels":{"seen":"yes"}}}`),
		operations(`[{"op":"add","path":"/data/b","value":"2"}]`),
	} {
		x.does(ev, list(x.on(handler.ActionPatch, "a", patch)), nil, action.Changed)
		if !x.wrote("a", x.configMap("a").ResourceVersion) {
			t.Errorf("patch %d is not known as the rule's own", i)
		}
	}
	if m := x.configMap("a"); m.Labels["seen"] != "yes" || m.Data["b"] != "2" {
		t.Errorf("after the patches: %v %v", m.Labels, m.Data)
	}
	// The rule's own changes do not conflict with the event, even two in one answer. A patch that
	// changes nothing is not a change.
	x.does(ev, list(
		x.on(handler.ActionPatch, "a", merge(`{"data":{"c":"3"}}`)),
		x.on(handler.ActionApply, "a", withObject(`{"data":{"d":"4"}}`)),
		x.on(handler.ActionPatch, "a", merge(`{"data":{"c":"3"}}`)),
	), nil, action.Changed, action.Changed, action.Unchanged)

	// As many actions as an answer can hold.
	var actions []handler.Action
	var results []action.Result
	for i := range 64 {
		actions = append(actions, x.on(handler.ActionPatch, "a", merge(fmt.Sprintf(`{"data":{"n":"%d"}}`, i))))
		results = append(results, action.Changed)
	}
	x.does(x.about("a", handler.Updated), actions, nil, results...)
}
