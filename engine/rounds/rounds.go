package rounds

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/timing"
)

// Informer says which informer Rounds are about, and what they need.
type Informer struct {
	ID        string // under which the state keeps it
	Namespace string // of its objects; empty for all
	// FormerID returns the ID that the informer had under the former name of its rule. It is nil if
	// the ID has no name of a rule.
	FormerID func(rule string) string
	Moments  *Moments
	Notes    Notes // nil records nothing
	Now      func() time.Time
}

// Rounds are the rounds over the objects of one informer. It implements the part of source.Consumer
// that is about them. The informer's lock guards it.
type Rounds struct {
	of    Informer
	rules []Rule // by their position at the informer
	// done are the numbers, by rule, up to which the rule has seen its rounds in another run.
	done map[int]int64
}

// New returns the rounds of an informer's rules, which may be rules without rounds.
func New(of Informer, rules []Rule) *Rounds {
	return &Rounds{of: of, rules: rules, done: make(map[int]int64)}
}

// last is what the state keeps of a rule's rounds over the objects of one informer. Before the
// first round, it is when the rule was new.
type last struct {
	Number int64  `json:"number"`
	IsOver bool   `json:"over"`
	Table  string `json:"table,omitempty"` // the text of the timetable
}

// done returns the number up to which no round is left for the rule.
func (l last) done() int64 {
	if l.IsOver {
		return l.Number
	}
	return l.Number - 1
}

// nameOf returns the name of the note that has the last round over an informer's objects.
func nameOf(informer string) string { return "round " + informer }

// Timetables returns those of the rounds that rules see.
func (r *Rounds) Timetables() (tables []timing.Timetable) {
	for _, rule := range r.rules {
		if table := rule.Plan().Rounds; table != nil {
			tables = append(tables, table)
		}
	}
	return tables
}

// Done returns the number of the round up to which a rule has seen its rounds in another run.
func (r *Rounds) Done(rule int) int64 { return r.done[rule] }

// Round implements source.Consumer. It records the round for each rule that sees it, so that the
// next run neither begins it again nor forgets what is left of it.
func (r *Rounds) Round(of timing.Timetable, number int64, isOver bool) {
	if isOver {
		r.of.Moments.over(r.of.ID, of)
	} else {
		r.of.Moments.begins(r.of.ID, of, number)
	}
	if r.of.Notes == nil {
		return
	}
	defer r.begin()()
	for i, rule := range r.rules {
		if rule.Plan().Rounds == of && number > r.done[i] {
			r.note(rule, last{Number: number, IsOver: isOver, Table: of.String()})
		}
	}
}

// Holds implements source.Consumer.
func (r *Rounds) Holds(of timing.Timetable, key string) bool {
	return r.of.Moments.holds(r.of.ID, of, key)
}

// Handed implements source.Consumer.
func (r *Rounds) Handed(of timing.Timetable) { r.of.Moments.handed(r.of.ID, of) }

// begin begins a cut, and end ends it.
func (r *Rounds) begin() (end func()) {
	if r.of.Notes == nil {
		return func() {}
	}
	r.of.Notes.Begin()
	return r.of.Notes.End
}

// note records the last round of a rule, within a cut.
func (r *Rounds) note(rule Rule, is last) {
	value, err := json.Marshal(is)
	if err != nil || rule.HasEnded() { // the first cannot happen
		return
	}
	r.of.Notes.PutNote(records.Note{Rule: rule.ID(), Name: nameOf(r.of.ID), Value: value})
}

// Restore restores the rounds of the run before. A rule that is new, and one whose schedule has
// changed, begin now. That is recorded, because their first round may fall into a later run.
//
// saved returns a note of a rule. Rules may share a timetable and not have had the same rounds. The
// informer then goes on from the earliest, which Restore hands to resume, and Done leaves out the
// rules that have had a round.
func (r *Rounds) Restore(
	saved func(rule, note string) (value []byte, ok bool),
	resume func(of timing.Timetable, number int64, isOver bool),
) {
	type skip struct {
		rule Rule
		to   last
	}
	var begin []Rule
	var skipped []skip
	earliest := make(map[timing.Timetable]last)
	now := r.of.Now()
	for i, rule := range r.rules {
		table := rule.Plan().Rounds
		if table == nil {
			continue
		}
		last, ok := r.last(rule, saved)
		if !ok {
			begin = append(begin, rule)
			if r.done[i] = now.Unix(); table.AtStart() {
				r.done[i]-- // its first round may begin within this second
			}
			continue
		}
		if schedule, ok := table.(*timing.Schedule); ok {
			next, isMissed := schedule.Number(now, last.Number)
			switch {
			case !isMissed || !schedule.SkipsMissed:
			case last.IsOver:
				last.Number, isMissed = next, false
				skipped = append(skipped, skip{rule, last})
			default: // what is left of the last one comes, and no later one
				next = last.Number
			}
			isDue := isMissed || !last.IsOver || schedule.AtStart()
			r.of.Moments.add(rule, r.of.ID, r.of.Namespace, max(last.Number, next), isDue)
		}
		r.done[i] = last.done()
		if first, ok := earliest[table]; !ok || last.done() < first.done() {
			earliest[table] = last
		}
	}
	for of, last := range earliest {
		resume(of, last.Number, last.IsOver)
	}
	defer r.begin()()
	for _, s := range skipped {
		r.note(s.rule, s.to)
	}
	for _, rule := range begin {
		r.note(rule, last{Number: now.Unix(), IsOver: true, Table: rule.Plan().Rounds.String()})
	}
}

// last returns the last round of the run before. ok is false if the rule was new then, or has
// another schedule now.
func (r *Rounds) last(rule Rule, saved func(rule, note string) ([]byte, bool)) (is last, ok bool) {
	former := rule.Plan().Former
	value, ok := saved(rule.ID(), nameOf(r.of.ID))
	isRenamed := !ok && r.of.FormerID != nil && former != ""
	if isRenamed {
		value, ok = saved(rule.ID(), nameOf(r.of.FormerID(former)))
	}
	ok = ok && json.Unmarshal(value, &is) == nil && is.Table == rule.Plan().Rounds.String()
	if ok && isRenamed {
		defer r.begin()()
		r.of.Notes.DeleteNote(rule.ID(), nameOf(r.of.FormerID(former)))
		r.note(rule, is)
	}
	return is, ok
}

// Carry takes over what old has done for its rule j, which goes on as the rule i.
func (r *Rounds) Carry(i int, old *Rounds, j int) {
	if old.rules[j].Plan().Rounds == r.rules[i].Plan().Rounds {
		r.done[i] = old.done[j]
	}
}

// Begin records rounds that begin now, in place of old, which is nil if the informer is new.
func (r *Rounds) Begin(old *Rounds) {
	if r.of.Notes == nil {
		return
	}
	defer r.begin()()
	for _, rule := range r.rules {
		table := rule.Plan().Rounds
		hasThem := func(was Rule) bool { return was.ID() == rule.ID() && was.Plan().Rounds == table }
		if table == nil || old != nil && slices.ContainsFunc(old.rules, hasThem) {
			continue
		}
		r.note(rule, last{Number: r.of.Now().Unix(), IsOver: true, Table: table.String()})
	}
}
