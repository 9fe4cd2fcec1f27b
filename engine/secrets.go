package engine

import (
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/live"
)

// Allow applies a new manifest h of a handler of the plan: the handler may change in the cluster
// what h.Write grants. Until done is called, the old permissions hold as well. done(true) keeps the
// new ones alone, done(false) the old ones alone.
//
// From now on, no answer is recorded that may hold text of a secret which the handler may read by
// h.Read. Only one goroutine at a time may call Allow for one handler. A handler that had no Write
// when the engine was made cannot get one: Allow then changes no permission.
func (e *Engine) Allow(h config.Handler) (done func(stands bool)) {
	e.work().NoteSecrets([]config.Handler{h})
	return e.parts.Acting.Allow(h)
}

// SeesSecrets reports whether a handler may have seen text of a Secret since it runs. It returns
// true for a handler that the plan no longer has, because nobody knows.
func (e *Engine) SeesSecrets(h live.Handler) bool {
	for _, d := range e.work().Dispatchers {
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
