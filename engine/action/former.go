package action

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/plugins/handler"
)

// managers returns the field managers of what the rule did.
func (b By) managers() []string {
	if b.Former == "" {
		return []string{FieldManager(b.Rule)}
	}
	return []string{FieldManager(b.Rule), FieldManager(b.Former)}
}

// isFormer reports whether t applies an object that the rule applied under its former name, and not
// since.
func (t task) isFormer(there metadata) bool {
	return t.by.Former != "" && t.action.Verb == handler.ActionApply && t.action.Subresource == "" &&
		there.appliedBy(FieldManager(t.by.Former)) && !there.appliedBy(FieldManager(t.by.Rule))
}

// takeFields makes the fields of an object that the rule owns under its former name those of the rule
// as it is called now. Otherwise fields that the rule applies no more would stay. there becomes the
// metadata after it. If the object changes meanwhile, takeFields does nothing; the next apply finds
// the object as it is.
func (t task) takeFields(ctx context.Context, there *metadata) *failure {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	patch := []operation{{"test", "/metadata/resourceVersion", there.ResourceVersion}}
	former := FieldManager(t.by.Former)
	for i, by := range there.ManagedFields {
		if by.Manager == former && by.Subresource == "" &&
			by.Operation == string(metav1.ManagedFieldsOperationApply) {
			at := fmt.Sprintf("/metadata/managedFields/%d/manager", i)
			patch = append(patch, operation{"test", at, former}, operation{"replace", at, FieldManager(t.by.Rule)})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return &failure{reason: never, text: err.Error()}
	}
	end := t.writes.Begin(t.resource(), t.key(), t.by.Rule, t.cause)
	got, f := t.client.do(ctx, request{
		method: http.MethodPatch, path: pathOf(t.action.Resource, t.action.Namespace, t.action.Name),
		contentType: "application/json-patch+json", body: body,
	})
	if f != nil {
		end(there.ResourceVersion, "")
		if f.contestable() {
			return nil
		}
		return f
	}
	end(there.ResourceVersion, got.meta.ResourceVersion)
	*there = got.meta
	return nil
}
