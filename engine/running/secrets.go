package running

import (
	"slices"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// seesSecrets reports whether text of a Secret may appear in answers to events of the rule, or in
// their reasons, although the handler itself reads no Secrets.
func seesSecrets(r *plan.Rule) bool {
	return isOfSecrets(r.Source) || slices.ContainsFunc(r.LooksInto, isOfSecrets)
}

// confidential returns the Confidential of the preparer of a rule whose events go to a dispatcher.
// A reload of the handler may let it read Secrets at any time. The dispatcher remembers that, also
// for rules that another reload makes meanwhile.
func confidential(r *plan.Rule, to *live.Dispatcher) func() bool {
	sees := seesSecrets(r)
	return func() bool { return sees || to.ReadsSecrets.Load() }
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
		d := w.dispatcher(h.Name)
		if d == nil {
			continue
		}
		reads := w.readsSecrets(h)
		if reads {
			d.ReadsSecrets.Store(true)
		}
		if reads || slices.ContainsFunc(w.Rules, func(r *live.Rule) bool {
			return r.Handler == h.Name && seesSecrets(r.Rule)
		}) {
			d.HasSecrets.Store(true)
		}
	}
}
