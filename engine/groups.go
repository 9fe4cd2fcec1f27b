package engine

import (
	"encoding/json"
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
	gathersNote = "gathers"
	groupNote   = "group "
)

// gatheredLane returns the name of the lane that has what a rule has gathered. No rule has that name.
func gatheredLane(rule string) string { return rule + "/gathered" }

// groupEvent is the note about the last event of a group.
type groupEvent struct {
	At        int64  `json:"at"` // Unix time in milliseconds
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// gathering returns how the rule's lane gathers changes. ends says that the rule does not have a
// group any more.
func (e *Engine) gathering(r *runningRule, ends bool) *dispatch.Gathering {
	g := &dispatch.Gathering{Ends: ends}
	if r.Group != nil {
		g.Wait, g.Every = r.Group.Wait, r.Group.Every
	}
	if e.store == nil {
		return g
	}
	r.gathered = &laneStore{e.gatheredIn(r), r.preparer}
	g.Store = r.gathered
	if ends {
		return g
	}
	g.Of = r.preparer.group
	g.Remember = func(id rule.Group, last gather.LastEvent) {
		value, err := json.Marshal(groupEvent{last.At.UnixMilli(), last.Key.Namespace, last.Key.Name})
		if err == nil { // it always is
			e.store.PutNote(state.Note{Rule: r.id, Name: groupNote + id.String(), Value: value})
		}
	}
	g.Forget = func(id rule.Group) { e.store.DeleteNote(r.id, groupNote+id.String()) }
	return g
}

func (e *Engine) gatheredIn(r *runningRule) *state.Lane {
	options := state.LaneOptions{Secret: r.preparer.IsSecret()}
	return e.store.Lane(gatheredLane(r.id), options)
}

// group returns the group of a change.
func (p *preparer) group(d delta.Delta) rule.Group {
	id, err := p.rule.Group.Of(d, p.Changes.Scope(p.clock.Now()))
	p.failures.add(err, d.Key())
	return id
}

// loadGathered returns what the state has of a rule's gathered changes. A rule that no longer
// gathers has some left if the run before has ended before their event.
func (e *Engine) loadGathered(r *runningRule, notes map[noteID][]byte) ([]state.LaneKey, error) {
	_, has := notes[noteID{r.id, gathersNote}]
	if has && r.Group == nil {
		r.lane.StopGathering(*e.gathering(r, true))
	}
	if r.gathered == nil {
		return nil, nil
	}
	return r.gathered.lane.Keys()
}

// resumeGathered makes the rule's lane go on with what was gathered.
func (e *Engine) resumeGathered(r *runningRule, keys []state.LaneKey, notes map[noteID][]byte) {
	if r.gathered == nil {
		return
	}
	var changes []dispatch.Gathered
	for _, k := range keys {
		changes = append(changes, dispatch.Gathered{Key: k.Key, First: k.First, Last: k.Last})
	}
	events := make(map[rule.Group]gather.LastEvent)
	for id, value := range notes {
		if hexID, ok := strings.CutPrefix(id.name, groupNote); ok && id.rule == r.id {
			var last groupEvent
			group, ok := count.ParseValue(hexID)
			if ok && json.Unmarshal(value, &last) == nil && r.Group != nil {
				key := delta.Key{Namespace: last.Namespace, Name: last.Name}
				events[group] = gather.LastEvent{At: time.UnixMilli(last.At), Key: key}
				continue
			}
			e.store.DeleteNote(r.id, id.name)
		}
	}
	switch _, has := notes[noteID{r.id, gathersNote}]; {
	case r.Group != nil && !has:
		e.store.PutNote(state.Note{Rule: r.id, Name: gathersNote, Value: []byte("{}")})
	case r.Group == nil && len(keys) == 0:
		e.store.DeleteNote(r.id, gathersNote)
	}
	r.lane.RestoreGathered(changes, events)
}

// dropGathered drops what a rule has gathered that is gone, or about other objects now.
func (e *Engine) dropGathered(id string) {
	e.store.DropRule(gatheredLane(id))
	if r := e.work().byID(id); r != nil && r.gathered != nil {
		r.gathered.lane = e.gatheredIn(r)
	}
}
