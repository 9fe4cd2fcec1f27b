package engine

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// lastRound is what the state keeps of a rule's rounds over the objects of one informer.
type lastRound struct {
	Number int64  `json:"number"`
	IsOver bool   `json:"over"`
	Table  string `json:"table,omitempty"` // the text of the timetable
}

// roundNote returns the name of the note that has the last round over an informer's objects.
func roundNote(informer string) string { return "round " + informer }

// Round implements source.Consumer. It records the round for each rule that sees it, so that the
// next run neither begins it again nor forgets what is left of it.
func (in *intake) Round(of timing.Timetable, number int64, isOver bool) {
	if in.record == nil {
		return
	}
	value, err := json.Marshal(lastRound{Number: number, IsOver: isOver, Table: of.String()})
	if err != nil {
		return // cannot happen
	}
	defer in.record.begin()()
	for _, r := range in.rules {
		if r.Rounds == of {
			note := state.Note{Rule: r.Name, Name: roundNote(in.record.id), Value: value}
			in.record.store.PutNote(note)
		}
	}
}

// restoreRounds takes up the rounds of the run before. A schedule that has changed begins anew.
func (in *intake) restoreRounds(notes map[noteID][]byte) {
	for _, r := range in.rules {
		if r.Rounds == nil {
			continue
		}
		var last lastRound
		value, ok := notes[noteID{r.Name, roundNote(in.record.id)}]
		if ok && json.Unmarshal(value, &last) == nil && last.Table == r.Rounds.String() {
			in.informer.LastRound(r.Rounds, last.Number, last.IsOver)
		}
	}
}

// noteID identifies a note of the state.
type noteID struct{ rule, name string }

// nextRound returns when the rule's next round begins over any informer, or the zero time.
func (r *runningRule) nextRound() (next time.Time) {
	if r.Rounds == nil {
		return time.Time{}
	}
	for _, i := range r.view.Informers() {
		next = timing.Earlier(next, i.NextRound(r.Rounds))
	}
	return next
}
