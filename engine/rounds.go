package engine

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// lastRound is what the state keeps of a rule's rounds over the objects of one informer. Before the
// first round, it is when the rule was new.
type lastRound struct {
	Number int64  `json:"number"`
	IsOver bool   `json:"over"`
	Table  string `json:"table,omitempty"` // the text of the timetable
}

// done returns the number up to which no round is left for the rule.
func (l lastRound) done() int64 {
	if l.IsOver {
		return l.Number
	}
	return l.Number - 1
}

// roundNote returns the name of the note that has the last round over an informer's objects.
func roundNote(informer string) string { return "round " + informer }

// Round implements source.Consumer. It records the round for each rule that sees it, so that the
// next run neither begins it again nor forgets what is left of it.
func (in *intake) Round(of timing.Timetable, number int64, isOver bool) {
	if isOver {
		in.moments.over(in.id, of)
	} else {
		in.moments.begins(in.id, of, number)
	}
	if in.record == nil {
		return
	}
	defer in.record.begin()()
	for i, r := range in.rules {
		if r.Rounds == of && number > in.done[i] {
			in.noteRound(r, lastRound{Number: number, IsOver: isOver, Table: of.String()})
		}
	}
}

// Holds implements source.Consumer.
func (in *intake) Holds(of timing.Timetable, key string) bool {
	return in.moments.holds(in.id, of, key)
}

// Handed implements source.Consumer.
func (in *intake) Handed(of timing.Timetable) { in.moments.handed(in.id, of) }

// noteRound records the last round of a rule. It is called between begin and end of the record.
func (in *intake) noteRound(r *runningRule, last lastRound) {
	value, err := json.Marshal(last)
	if err != nil || r.memory.ended() { // the first cannot happen
		return
	}
	in.record.store.PutNote(state.Note{Rule: r.id, Name: roundNote(in.id), Value: value})
}

// restoreRounds takes up the rounds of the run before. A rule that is new, and one whose schedule
// has changed, begin now. That is recorded, because their first round may fall into a later run.
//
// Rules may share a timetable and not have had the same rounds. The informer then goes on from the
// earliest, and standing leaves out the rules that have had a round.
func (in *intake) restoreRounds(notes map[noteID][]byte) {
	type skip struct {
		*runningRule
		to lastRound
	}
	var begin []*runningRule
	var skipped []skip
	earliest := make(map[timing.Timetable]lastRound)
	now := in.clock.Now()
	for i, r := range in.rules {
		if r.Rounds == nil {
			continue
		}
		last, ok := in.lastRound(r, notes)
		if !ok {
			begin = append(begin, r)
			if in.done[i] = now.Unix(); r.Rounds.AtStart() {
				in.done[i]-- // its first round may begin within this second
			}
			continue
		}
		if schedule, ok := r.Rounds.(*timing.Schedule); ok {
			next, isMissed := schedule.Number(now, last.Number)
			switch {
			case !isMissed || !schedule.SkipsMissed:
			case last.IsOver:
				last.Number, isMissed = next, false
				skipped = append(skipped, skip{r, last})
			default: // what is left of the last one comes, and no later one
				next = last.Number
			}
			isDue := isMissed || !last.IsOver || schedule.AtStart()
			in.moments.add(r, in.id, in.planned.Namespace, max(last.Number, next), isDue)
		}
		in.done[i] = last.done()
		if first, ok := earliest[r.Rounds]; !ok || last.done() < first.done() {
			earliest[r.Rounds] = last
		}
	}
	for of, last := range earliest {
		in.informer.LastRound(of, last.Number, last.IsOver)
	}
	defer in.record.begin()()
	for _, s := range skipped {
		in.noteRound(s.runningRule, s.to)
	}
	for _, r := range begin {
		in.noteRound(r, lastRound{Number: now.Unix(), IsOver: true, Table: r.Rounds.String()})
	}
}

// lastRound returns the last round of the run before. ok is false if the rule was new then, or has
// another schedule now.
func (in *intake) lastRound(r *runningRule, notes map[noteID][]byte) (last lastRound, ok bool) {
	value, ok := notes[noteID{r.id, roundNote(in.id)}]
	isRenamed := !ok && in.planned.Fixed != nil && r.Former != ""
	if isRenamed { // the informer's id has the rule's name
		value, ok = notes[noteID{r.id, roundNote(aloneID(r.Former))}]
	}
	ok = ok && json.Unmarshal(value, &last) == nil && last.Table == r.Rounds.String()
	if ok && isRenamed {
		defer in.record.begin()()
		in.record.store.DeleteNote(r.id, roundNote(aloneID(r.Former)))
		in.noteRound(r, last)
	}
	return last, ok
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
