package engine

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// letterStore records dead letters.
type letterStore struct {
	store  *state.Store
	engine *Engine // whose rules they are of
}

func (s letterStore) PutLetter(l dispatch.Letter) {
	resource := schema.GroupVersionResource(l.Resource)
	letter := state.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: resourceName(resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
		Delta: l.Match.Delta, Payload: l.Match.Payload, Secret: resource == secrets,
	}
	if r := s.engine.rule(l.Rule); r != nil {
		if r.reveals && letter.Payload != nil {
			letter.Payload = notKept
		}
		if r.secretly.Load() {
			letter.Reason = ""
		}
	}
	s.store.PutLetter(letter)
}

func (s letterStore) DeleteLetter(id string) { s.store.DeleteLetter(id) }

func letterOf(l state.Letter) dispatch.Letter {
	letter := dispatch.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: resourceOf(l.Resource),
		Key: l.Key, Reason: l.Reason, Attempts: l.Attempts, Since: l.Since, Died: l.Died,
	}
	letter.Match.Delta, letter.Match.Payload = l.Delta, l.Payload
	if l.Reason == "" {
		letter.Reason = "not kept over the restart, as it may quote a secret"
	}
	return letter
}

// resourceOf is the inverse of resourceName.
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
