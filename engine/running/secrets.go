package running

import (
	"slices"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// SeesSecrets reports whether text of a Secret may appear in h's answers to events of the rule, or
// in its reasons.
func (w *Work) SeesSecrets(r *plan.Rule, h config.Handler) bool {
	return isOfSecrets(r.Source) || slices.ContainsFunc(r.LooksInto, isOfSecrets) || w.readsSecrets(h)
}

func isOfSecrets(s *plan.Source) bool { return s.Resource == object.Secrets }

// readsSecrets reports whether h may read a source of Secrets.
func (w *Work) readsSecrets(h config.Handler) bool {
	return slices.ContainsFunc(h.Read, func(name config.Text) bool {
		return slices.ContainsFunc(w.Sources, func(s *live.Source) bool {
			return s.Name == name.String() && isOfSecrets(s.Source)
		})
	})
}

// NoteSecrets notes which handlers may see text of a Secret from now on. Everything that such a
// handler says may quote it, also about an event of another rule.
func (w *Work) NoteSecrets(handlers []config.Handler) {
	for _, h := range handlers {
		sees := w.readsSecrets(h) || slices.ContainsFunc(w.Rules, func(r *live.Rule) bool {
			return r.Handler == h.Name && w.SeesSecrets(r.Rule, h)
		})
		if d := w.dispatcher(h.Name); d != nil && sees {
			d.HasSecrets.Store(true)
		}
	}
}
