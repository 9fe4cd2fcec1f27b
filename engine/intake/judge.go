package intake

import (
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rounds"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state/steps"
)

// judge has rules of one informer see objects: it evaluates, and commits what follows. It knows
// what rules still have to learn, and does not teach it. The first fields do not change at work.
// The informer's lock guards the others.
type judge struct {
	ID       string // under which the state keeps the informer
	Informer *source.Informer
	Rules    []*live.Rule // that watch the informer
	options  Options
	line     *line // of the intakes of the informer

	evaluator *evaluate.Evaluator
	learns    learning // what rules still have to learn
	sinks     sinks    // where changes go
	// Rounds implements the part of source.Consumer that is about rounds.
	*rounds.Rounds
}

// standing returns how a rule takes part in the evaluation of a step.
func (j *judge) standing(i int) evaluate.Standing {
	return evaluate.Standing{
		// A rule that only sees rounds learns nothing at first sight, so it misses nothing.
		Deaf: j.learns.isDeaf(i) && !j.Rules[i].OnlyInRounds ||
			j.learns.isDeafNow(i),
		Undecided:  j.Rules[i].IsHeld(),
		RoundsDone: j.Done(i),
		Marks:      j.sinks.waits.Marks(i),
	}
}

// hears reports whether a rule has seen an object.
func (j *judge) hears(rule int, key string) bool {
	return !j.learns.isDeaf(rule) && !j.learns.owes(rule, key)
}

// hearsAll reports whether a rule decides by time over all objects of the informer, or not by time.
func (j *judge) hearsAll(rule int) bool {
	return !j.Rules[rule].IsTimed() ||
		!j.learns.isDeaf(rule) && j.learns.catchUpOf(rule) == nil
}

// note adds to c how to record the delta's object, and which rules it waits for. For a Secret it
// also records which rules have it inside and which have not seen this change, because the identity
// alone cannot answer that later.
func (j *judge) note(d delta.Delta, c *evaluate.Change) {
	if j.sinks.record == nil {
		return
	}
	c.Record(d)
	if c.Put == nil {
		return
	}
	if j.sinks.record.isSecret {
		was := func(i int) (inside, ok bool) { return j.learns.wasBehind(i, c.Put) }
		c.Inside = j.evaluator.Inside(c.Put, c, was)
		c.Inside = append(c.Inside, j.learns.missedBy(c.Put, j.Rules)...)
	}
	for _, i := range j.sinks.waits.Timed() {
		if mark := j.evaluator.Mark(i, c.Put, c); !mark.IsZero() {
			at := j.sinks.waits.Recorded(i, mark, j.options.Clock.Now())
			c.Inside = append(c.Inside, resume.Mark{Rule: j.Rules[i].ID, At: at}.String())
		}
	}
}

// tell evaluates an object for some rules, and commits the change. evaluate adds to the change what
// these rules must see.
func (j *judge) tell(o *object.Object, evaluate func(step evaluate.Step, c *evaluate.Change)) {
	if j.line.careful.isAside(o) {
		return
	}
	j.sinks.record.pace()
	j.line.careful.slot.Begin(steps.Turn, o.Key(), o.ResourceVersion())
	defer j.line.careful.passed(steps.Turn, o.Key())
	c := j.sinks.begin()
	evaluate(j.step(o), c)
	if len(c.Waits) > 0 {
		j.note(delta.Delta{Type: delta.Synced, Object: o}, c)
	}
	j.evaluator.Forget()
	j.sinks.commit(c, o)
	if j.sinks.gauges.Later(o) {
		j.Informer.Wake()
	}
}

// panicked is how much longer an object waits if its evaluation panics, or is set aside.
const panicked = time.Minute

// elapse has the evaluator decide about an object that waits for a rule, and is ready.
func (j *judge) elapse(i int, o *object.Object, now time.Time) {
	j.sinks.record.pace()
	c := j.sinks.begin()
	j.sinks.offering.now = now
	waitsOn := evaluate.Wait{Rule: i, Of: o, Mark: now.Add(panicked - j.Rules[i].For)}
	if j.line.careful.isAside(o) {
		c.Waits = append(c.Waits, waitsOn)
		j.sinks.commit(c, nil)
		return
	}
	j.line.careful.slot.Begin(steps.Due, o.Key(), o.ResourceVersion())
	defer j.line.careful.passed(steps.Due, o.Key())
	j.evaluator.Elapse(i, o, now, c)
	if len(c.Waits) == 0 { // a panic, which only a defect of informd can cause
		c.Waits = append(c.Waits, waitsOn)
	}
	j.note(delta.Delta{Type: delta.Synced, Object: o}, c)
	j.sinks.gauges.Measure(o, false, nil, c)
	j.sinks.commit(c, o)
}

func (j *judge) step(o *object.Object) evaluate.Step {
	now := j.sinks.offering.begin()
	return evaluate.Step{Delta: delta.Delta{Type: delta.Synced, Object: o}, Now: now}
}

// comeAnew begins another occasion for all rules of the intake: its objects count as deleted, and
// may come back as they are.
func (j *judge) comeAnew() {
	defer j.sinks.record.begin()()
	for _, r := range j.Rules {
		r.Anew(0)
	}
}

// LearnDeleted has a rule with prune learn that an object is deleted, of which only the name is
// known. isThere is false if the rule no longer sees the informer. It is called between two steps.
func (j *judge) LearnDeleted(r *live.Rule, key delta.Key) (isThere bool) {
	i := slices.Index(j.Rules, r)
	if i < 0 {
		return false
	}
	d := r.Pruning.Rule.Orphaned(key)
	j.sinks.record.pace()
	c := j.sinks.begin()
	c.Matches = append(c.Matches, evaluate.Match{Rule: i, Match: rule.Match{Delta: d}})
	j.sinks.commit(c, d.Object)
	return true
}

// Resync is what the events of a resync have in common. No other events of the rule have its
// occasion.
type Resync struct {
	Occasion uint32
	Number   int64 // Unix time in seconds
}

// ShowAgain shows an object to a rule that follows the informer, or to the one that has taken its
// place. It returns how often the rule selects the object. o may be nil: then it shows nothing.
// isThere is false if the rule no longer sees the informer. ShowAgain is called between two steps.
func (j *judge) ShowAgain(r *live.Rule, o *object.Object, of Resync) (selected int, isThere bool) {
	rule := slices.IndexFunc(j.Rules, func(is *live.Rule) bool { return is.Memory == r.Memory })
	if rule < 0 || j.line.isDropped {
		return 0, false
	}
	if o != nil {
		j.tell(o, func(s evaluate.Step, c *evaluate.Change) {
			s.Delta.Occasion, s.Delta.Round = of.Occasion, of.Number
			j.evaluator.Again(rule, s, c)
			selected = len(c.Matches)
		})
	}
	return selected, true
}

// IsInside reports whether a rule that follows the informer has an object inside. It is called
// between two steps.
func (j *judge) IsInside(rule int, o *object.Object) bool {
	defer j.evaluator.Forget()
	var reported evaluate.Change // its failures were reported when it came
	return j.evaluator.IsInside(rule, o, &reported)
}
