package live

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state"
)

// The state keeps what a rule has gathered in a lane of its own, and a note about the last event of
// each group. Another note says that the rule has such a lane.
const (
	// GathersNote is the name of that other note.
	GathersNote = "gathers"
	groupNote   = "group " // and the group
)

// gatheredLane returns the name of the lane that has what a rule has gathered. No rule has that
// name.
func gatheredLane(rule string) string { return rule + "/gathered" }

// groupEvent is the note about the last event of a group.
type groupEvent struct {
	At        int64  `json:"at"` // Unix time in milliseconds
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Gathering returns how the rule's lane gathers changes, and opens the lane of the state that keeps
// them. ends says that the rule no longer has a group.
func (r *Rule) Gathering(ends bool) *dispatch.Gathering {
	g := &dispatch.Gathering{Ends: ends}
	if r.Group != nil {
		g.Wait, g.Every = r.Group.Wait, r.Group.Every
	}
	store := r.Memory.store
	if store == nil {
		return g
	}
	r.gathered = newLaneStore(r, gatheredLane(r.ID))
	g.Store = r.gathered
	if ends {
		return g
	}
	g.Of = r.Preparer.group
	g.Remember = func(id rule.Group, last gather.LastEvent) {
		value, err := json.Marshal(groupEvent{last.At.UnixMilli(), last.Key.Namespace, last.Key.Name})
		if err == nil { // it always is
			store.PutNote(state.Note{Rule: r.ID, Name: groupNote + id.String(), Value: value})
		}
	}
	g.Forget = func(id rule.Group) { store.DeleteNote(r.ID, groupNote+id.String()) }
	return g
}

// LoadGathered returns what the state has of the rule's gathered changes. gathered says that the
// rule gathered when the state was saved. A rule that no longer does so may have some left, if the
// last run ended before their event.
func (r *Rule) LoadGathered(gathered bool) ([]state.LaneKey, error) {
	if gathered && r.Group == nil {
		r.Lane.StopGathering(*r.Gathering(true))
	}
	if r.gathered == nil {
		return nil, nil
	}
	return r.gathered.lane.Keys()
}

// ResumeGathered makes the rule's lane go on with what it had gathered. notes are all of the rule.
// It is called within a cut.
func (r *Rule) ResumeGathered(keys []state.LaneKey, notes iter.Seq2[string, []byte]) {
	if r.gathered == nil {
		return
	}
	var changes []dispatch.Gathered
	for _, k := range keys {
		changes = append(changes, dispatch.Gathered{Key: k.Key, First: k.First, Last: k.Last})
	}
	events := make(map[rule.Group]gather.LastEvent)
	store, gathered := r.Memory.store, false
	for name, value := range notes {
		gathered = gathered || name == GathersNote
		if hexID, ok := strings.CutPrefix(name, groupNote); ok {
			var last groupEvent
			group, ok := count.ParseValue(hexID)
			if ok && json.Unmarshal(value, &last) == nil && r.Group != nil {
				key := delta.Key{Namespace: last.Namespace, Name: last.Name}
				events[group] = gather.LastEvent{At: time.UnixMilli(last.At), Key: key}
				continue
			}
			store.DeleteNote(r.ID, name)
		}
	}
	switch {
	case r.Group != nil && !gathered:
		r.NoteGathers()
	case r.Group == nil && len(keys) == 0:
		store.DeleteNote(r.ID, GathersNote)
	}
	r.Lane.RestoreGathered(changes, events)
}

// NoteGathers records that the rule gathers, if it does. It is called within a cut.
func (r *Rule) NoteGathers() {
	if r.Group != nil && r.Memory.store != nil {
		r.Memory.store.PutNote(state.Note{Rule: r.ID, Name: GathersNote, Value: []byte("{}")})
	}
}

// group returns the group of a change.
func (p *Preparer) group(d delta.Delta) rule.Group {
	id, err := p.Rule.Group.Of(d, p.Changes.Scope(p.Clock.Now()))
	p.Failures.Add(err, d.Key())
	return id
}
