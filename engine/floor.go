package engine

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// noRule stands for a rule in the note of the floor.
const noRule = ""

// raise makes the floor exceed the numbers of a rule that is gone, or has another name now. Another
// rule may get that name. It is called within a cut.
func (e *Engine) raise(last uint32) {
	if last < e.floor {
		return
	}
	e.floor = last + 1
	if value, err := json.Marshal(e.floor); err == nil && e.store != nil {
		e.store.PutNote(state.Note{Rule: noRule, Name: live.OccasionNote, Value: value})
	}
}

// resumeOccasions restores the occasions of the run before.
func (e *Engine) resumeOccasions(from loaded) {
	defer e.begin()()
	_ = json.Unmarshal(from.occasions[noRule], &e.floor) // which leaves 0 if there is none
	for _, gone := range from.decision.Gone {
		if _, ok := from.rules[gone.Name]; ok {
			e.raise(live.LastIn(from.occasions[gone.Name]))
		}
	}
	isSaved := func(r *live.Rule) bool {
		was, ok := from.rules[r.ID]
		return ok && was.Resource == r.Resource() // otherwise its records were dropped
	}
	for _, r := range e.work().Rules {
		if isSaved(r) && from.rules[r.ID].Name != r.Name {
			e.raise(live.LastIn(from.occasions[r.ID]))
		}
	}
	planned := make(map[string]resume.Memory)
	for _, m := range e.planned() {
		planned[m.Name] = m
	}
	for _, r := range e.work().Rules {
		if !isSaved(r) {
			r.BeginFirst(e.floor)
			r.Memory.NoteOccasions()
			continue
		}
		r.ResumeOccasions(from.occasions[r.ID], e.floor, func() bool {
			known := from.rules[r.ID]
			return known.Name == r.Name && maps.Equal(known.Seen, planned[r.ID].Seen)
		})
	}
}

// takeOccasions gives the rules of the next plan their occasions, before any of them is at work.
func (r *reload) takeOccasions() {
	defer r.Engine.begin()()
	for _, old := range r.gone {
		r.raise(old.Memory.LastOccasion())
	}
	for _, rule := range r.next.Rules {
		if rule.Before != nil && rule.Before.Name != rule.Name {
			r.raise(rule.Memory.LastOccasion())
		}
	}
	for _, rule := range r.next.Rules {
		switch {
		case slices.Contains(r.before.Rules, rule):
		case rule.Before == nil:
			rule.BeginFirst(r.floor) // introduce records it
		default:
			rule.SucceedOccasions(r.floor)
		}
	}
}

// noteID identifies a note of the state.
type noteID struct{ rule, name string }

// notesOf returns the notes of one rule, by name.
func notesOf(rule string, notes map[noteID][]byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for id, value := range notes {
			if id.rule == rule && !yield(id.name, value) {
				return
			}
		}
	}
}
