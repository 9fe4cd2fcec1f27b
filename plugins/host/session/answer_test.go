package session

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// An answer's actions arrive complete.
func TestActionsOfAnAnswer(t *testing.T) {
	target := &handlerpb.Target{
		Resource:  &handlerpb.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", Uid: "u", ResourceVersion: "7",
	}
	common := handler.Action{
		Resource:  handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7",
	}
	object := json.RawMessage(`{"n":9007199254740993}`)
	with := func(change func(*handler.Action)) handler.Action {
		a := common
		change(&a)
		return a
	}
	answer := &handlerpb.Answer{Result: &handlerpb.Answer_Done{Done: &handlerpb.Done{Actions: []*handlerpb.Action{
		{Action: &handlerpb.Action_Apply{Apply: &handlerpb.Apply{Target: target, Object: object, Subresource: "status"}}},
		{Action: &handlerpb.Action_Patch{Patch: &handlerpb.Patch{Target: target, Type: "application/json-patch+json", Patch: object, Subresource: "status"}}},
		{Action: &handlerpb.Action_Create{Create: &handlerpb.Create{Target: target, Object: object}}},
		{Action: &handlerpb.Action_Delete{Delete: &handlerpb.Delete{Target: target}}},
		{Action: &handlerpb.Action_Event{Event: &handlerpb.EmitEvent{Target: target, Reason: "Seen", Message: "it was", Warning: true}}},
		{Action: &handlerpb.Action_Delete{}},
	}}}}
	got, err := answerResult(answer)
	want := []handler.Action{
		with(func(a *handler.Action) { a.Verb, a.Object, a.Subresource = handler.ActionApply, object, "status" }),
		with(func(a *handler.Action) {
			a.Verb, a.PatchType, a.Patch, a.Subresource = handler.ActionPatch, handler.JSONPatch, object, "status"
		}),
		with(func(a *handler.Action) { a.Verb, a.Object = handler.ActionCreate, object }),
		with(func(a *handler.Action) { a.Verb = handler.ActionDelete }),
		with(func(a *handler.Action) {
			a.Verb, a.Reason, a.Message, a.Warning = handler.ActionEvent, "Seen", "it was", true
		}),
		{Verb: handler.ActionDelete}, // without a target, which is for Validate to say
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Actions); diff != "" {
		t.Error(diff)
	}
}
