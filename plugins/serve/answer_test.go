package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// The actions of an answer are sent complete.
func TestActionsOfAnAnswer(t *testing.T) {
	target := &handlerpb.Target{
		Resource:  &handlerpb.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", Uid: "u", ResourceVersion: "7",
	}
	object := json.RawMessage(`{"n":9007199254740993}`)
	for verb, want := range map[string]*handlerpb.Action{
		handler.ActionApply: {Action: &handlerpb.Action_Apply{Apply: &handlerpb.Apply{Target: target, Object: object, Subresource: "status"}}},
		handler.ActionPatch: {Action: &handlerpb.Action_Patch{Patch: &handlerpb.Patch{
			Target: target, Type: handler.JSONPatch, Patch: object, Subresource: "status",
		}}},
		handler.ActionCreate: {Action: &handlerpb.Action_Create{Create: &handlerpb.Create{Target: target, Object: object}}},
		handler.ActionDelete: {Action: &handlerpb.Action_Delete{Delete: &handlerpb.Delete{Target: target}}},
		handler.ActionEvent: {Action: &handlerpb.Action_Event{Event: &handlerpb.EmitEvent{
			Target: target, Reason: "Seen", Message: strings.Repeat("m", 1024), Warning: true,
		}}},
	} {
		got := answer(handler.Answer{Actions: []handler.Action{{
			Verb: verb, Resource: handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
			Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", Subresource: "status", Object: object,
			PatchType: handler.JSONPatch, Patch: object, Reason: "Seen", Message: strings.Repeat("m", 2000), Warning: true,
		}}}, nil)
		if diff := cmp.Diff([]*handlerpb.Action{want}, got.GetDone().GetActions(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", verb, diff)
		}
	}
}
