package live

import (
	"slices"
	"strings"

	"github.com/informd/informd/engine/source"
)

func IsUnsettled(i *source.Informer) bool { return !i.IsSettled() }

// IsHeld reports whether the rule queues its changes undecided.
func (r *Rule) IsHeld() bool { return r.waits.Load() > 0 }

// Hold makes the rule queue its changes undecided. Each hold must be matched by a release.
func (r *Rule) Hold() {
	r.waits.Add(1)
	if r.Lane != nil { // otherwise it begins held; a reload says so
		r.Lane.Hold(true)
	}
}

// Release ends one hold.
func (r *Rule) Release() {
	if r.waits.Add(-1) == 0 {
		r.Lane.Hold(false)
	}
}

// Reason describes the sources that the rule looks into for operators, or returns "" if they are in
// order. waits says that the rule decides nothing until they have settled.
func (r *Rule) Reason() (waits bool, reason string) {
	if awaited := r.Preparer.Awaited(); len(awaited) > 0 && r.IsHeld() {
		names := make([]string, 0, len(awaited))
		for _, s := range awaited {
			name := s.Name()
			if state, is := missing(s); is {
				name += " is " + state.String()
			}
			names = append(names, name)
		}
		return true, "waits for what it looks into: " + strings.Join(names, ", ")
	}
	if r.IsHeld() && slices.ContainsFunc(r.Own.View.Informers(), IsUnsettled) {
		return true, "waits for its own source: its where has changed"
	}
	var empty []string
	for _, s := range r.Preparer.Others {
		if state, is := missing(s); is {
			empty = append(empty, s.Name()+" is "+state.String())
		}
	}
	if len(empty) == 0 {
		return false, ""
	}
	return false, "finds nothing in what it looks into: " + strings.Join(empty, ", ")
}

// missing reports whether a source, or a part of it, is known to be not served, forbidden or unusable
// and has nothing, and returns that state.
func missing(s *source.Source) (state source.State, is bool) {
	for _, i := range s.Informers() {
		if state, _ := i.State(); !i.HasSynced() && i.IsSettled() {
			return state, true
		}
	}
	return state, false
}
