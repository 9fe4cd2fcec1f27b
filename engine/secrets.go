package engine

import (
	"slices"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// seesSecrets reports whether text of a Secret may appear in h's answers to events of the rule, or
// in its reasons.
func (w *work) seesSecrets(r *plan.Rule, h config.Handler) bool {
	return isOfSecrets(r.Source) || slices.ContainsFunc(r.LooksInto, isOfSecrets) || w.readsSecrets(h)
}

func isOfSecrets(s *plan.Source) bool { return s.Resource == object.Secrets }

// readsSecrets reports whether h may read a source of Secrets.
func (w *work) readsSecrets(h config.Handler) bool {
	return slices.ContainsFunc(h.Read, func(name config.Text) bool {
		return slices.ContainsFunc(w.sources, func(s *live.Source) bool {
			return s.Name == name.String() && isOfSecrets(s.Source)
		})
	})
}

// noteSecrets notes which handlers may see text of a Secret from now on. Everything that such a
// handler says may quote it, also about an event of another rule.
func (w *work) noteSecrets(handlers []config.Handler) {
	for _, h := range handlers {
		sees := w.readsSecrets(h) || slices.ContainsFunc(w.rules, func(r *live.Rule) bool {
			return r.Handler == h.Name && w.seesSecrets(r.Rule, h)
		})
		if d := w.dispatcher(h.Name); d != nil && sees {
			d.HasSecrets.Store(true)
		}
	}
}

// SeesSecrets reports whether a handler may have seen text of a Secret since it runs. It returns
// true for a handler that the plan no longer has, because nobody knows.
func (e *Engine) SeesSecrets(h live.Handler) bool {
	for _, d := range e.work().dispatchers {
		if d.Handler == h {
			return d.HasSecrets.Load()
		}
	}
	return true
}

// IsConfidential reports whether events of a rule, and reasons about them, may quote a Secret.
func (e *Engine) IsConfidential(rule string) bool {
	r := e.rule(rule)
	return r == nil || r.Preparer.IsConfidential()
}
