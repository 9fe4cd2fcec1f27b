package engine

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// letterStore records dead letters. It implements dispatch.LetterStore.
type letterStore struct {
	store  *state.Store
	engine *Engine // whose rules the letters belong to
}

// PutLetter implements dispatch.LetterStore. It records neither a confidential reason nor a payload
// that may hold text of Secrets.
func (s letterStore) PutLetter(l dispatch.Letter) {
	resource := schema.GroupVersionResource(l.Resource)
	letter := state.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: object.ResourceName(resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
		Delta: l.Delta, Payload: l.Payload, Secret: resource == secrets,
	}
	if l.Confidential {
		letter.Reason = ""
	}
	if r := s.engine.rule(l.Rule); r != nil && letter.Payload != nil && r.preparer.Reveals() {
		letter.Payload = prepare.Null
	}
	s.store.PutLetter(letter)
}

// DeleteLetter implements dispatch.LetterStore.
func (s letterStore) DeleteLetter(id string) { s.store.DeleteLetter(id) }

// letterOf returns the letter that was recorded. If its reason is missing, it is confidential.
func letterOf(l state.Letter) dispatch.Letter {
	letter := dispatch.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: resourceOf(l.Resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
		Delta: l.Delta, Payload: l.Payload,
	}
	if l.Reason == "" {
		letter.Reason = "not kept over the restart, as it may quote a secret"
		letter.Confidential = true
	}
	return letter
}

// resourceOf is the inverse of object.ResourceName.
func resourceOf(name string) (r handler.Resource) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 {
		r.Group, parts = parts[0], parts[1:]
	}
	if len(parts) == 2 {
		r.Version, r.Resource = parts[0], parts[1]
	}
	return r
}
