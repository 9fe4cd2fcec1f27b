package ledger

import (
	"fmt"
	"slices"
	"time"
)

// walk follows one object under one rule through the events that the handler got. Its fields are
// what the laws in the package comment refer to: the history, what the handler knows, and what it
// got when.
type walk struct {
	trial  *Trial
	report *Report
	rule   Rule
	key    Key
	lives  []Life
	steps  []step

	at      int            // the step of the last event; -1: none
	present bool           // what the handler knows: the object of life, in state
	life    int            //
	state   int            //
	last    time.Time      // when the last event came
	byID    map[string]ran // the events so far
	highest int            // the furthest step of any event
	when    map[int]time.Time
}

type ran struct {
	Event
	step int
}

func newWalk(t *Trial, report *Report, rule Rule, key Key) *walk {
	w := &walk{
		trial: t, report: report, rule: rule, key: key, lives: t.History[key], at: -1, highest: -1,
		byID: make(map[string]ran), when: make(map[int]time.Time),
	}
	w.steps = steps(rule, w.lives)
	report.Steps += len(w.steps)
	return w
}

func (w *walk) problem(format string, args ...any) {
	problem := Problem{w.rule.Name, w.key, fmt.Sprintf(format, args...)}
	w.report.Problems = append(w.report.Problems, problem)
}

// take checks the next event.
func (w *walk) take(ev Event) {
	c, ok := w.locate(ev)
	if !ok {
		return
	}
	if ev.Kind == "synced" && w.first(c.step).Sent.After(w.trial.Ready) {
		w.problem("%s: synced, though it was made while the rule saw its source", ev.ID)
	}
	before, repeated := w.byID[ev.ID]
	switch {
	case repeated:
		w.repeat(ev, c, before)
	case c.step <= w.at:
		w.retell(ev, c)
	default:
		w.advance(ev, c)
	}
	w.byID[ev.ID] = ran{ev, c.step}
	if _, ok := w.when[c.step]; !ok {
		w.when[c.step] = ev.At
	}
	w.settle(ev, c)
}

// first returns the step to which a synced belongs. Under latest an update that merges into a
// synced stays a synced. So does a return to the rule, if nobody could know that the object had
// left.
func (w *walk) first(at int) step {
	if w.rule.Every {
		return w.steps[at]
	}
	for {
		step := w.steps[at]
		left := step.kind == "added" && at > 0 && w.steps[at-1].life == step.life
		switch {
		case step.kind == "updated":
			at--
		case left && w.trial.lost(w.steps[at-1].Write):
			at -= 2 // to what the rule had of it before it left
		default:
			return step
		}
	}
}

// settle records what the handler knows now.
func (w *walk) settle(ev Event, c claim) {
	w.at, w.highest, w.last = c.step, max(w.highest, c.step), ev.At
	w.present, w.life, w.state = ev.Kind != "deleted", c.life, c.state
}

// repeat checks an event whose id came before.
func (w *walk) repeat(ev Event, c claim, before ran) {
	w.report.Repeats++
	if ev.Kind != before.Kind || ev.UID != before.UID || ev.Version != before.Version {
		w.problem("%s: the same id was another event: %s of %s at %d",
			ev.ID, before.Kind, before.UID, before.Version)
	}
	changed := ev.Old != nil && before.Old != nil && *ev.Old != *before.Old
	if w.rule.Every && !w.gap(before.step) && changed {
		w.problem("%s: the repeat has another old: %d, before it was %d",
			ev.ID, ev.Old.Version, before.Old.Version)
	}
	if ev.Run == before.Run && ev.Attempt <= before.Attempt {
		w.problem("%s: attempt %d came after attempt %d of the same run",
			ev.ID, ev.Attempt, before.Attempt)
	}
	w.wantCrash(ev, before.At)
	if c.step > w.at {
		w.skip(ev, c)
	}
}

// retell checks an event that goes back to an earlier step under a new id: one that merged with a
// waiting event, or one that a comparison found.
func (w *walk) retell(ev Event, c claim) {
	w.report.Retold++
	if w.rule.Every && !w.gap(c.step) {
		w.problem("%s: %s came after what is newer, and not as a repeat", ev.ID, ev.Kind)
		return
	}
	first := ev.At
	for step, at := range w.when {
		if step >= c.step && at.Before(first) {
			first = at
		}
	}
	w.wantCrash(ev, first)
}

// wantCrash checks that a crash explains a repeat, and that it came soon enough after the first
// event.
func (w *walk) wantCrash(ev Event, told time.Time) {
	crash, ok := w.trial.crash(told)
	if !ok || crash.From.After(ev.At) {
		w.problem("%s: it came again, and nothing had crashed since %s", ev.ID, clock(told))
		return
	}
	age := crash.From.Sub(told)
	w.report.Oldest = max(w.report.Oldest, age)
	if age > w.trial.Unwritten {
		w.problem("%s: it came again, though it was told %v before the crash",
			ev.ID, age.Round(time.Millisecond))
	}
}

// gap reports whether a change at or after a step may be lost with the server's history.
func (w *walk) gap(from int) bool { return w.lost(from, len(w.steps)) }

// lost reports the same for the steps from one to another.
func (w *walk) lost(from, to int) bool {
	isLost := func(s step) bool { return w.trial.lost(s.Write) }
	return slices.ContainsFunc(w.steps[max(from, 0):to], isLost)
}

// noticing is how long a daemon may still send events to a killed handler before it notices.
const noticing = time.Second

// advance checks an event about a newer step.
func (w *walk) advance(ev Event, c claim) {
	skipped := w.skip(ev, c)
	step := w.steps[c.step]
	known := w.present && w.life == c.life
	crashed := w.trial.crashed(w.last, ev.At)
	if crashed && w.lost(c.step, c.step+1) {
		// A comparison with the disk found it, and the disk may know less than the handler.
		skipped = true
	}
	switch ev.Kind {
	case "added", "synced":
		if known && !crashed {
			w.problem("%s: %s, though the rule knew of it", ev.ID, ev.Kind)
		}
		if ev.Kind == "added" && step.kind == "updated" && w.rule.Every && !skipped {
			w.problem("%s: it was updated", ev.ID)
		}
	case "updated":
		switch {
		case skipped: // locate has checked that old is an earlier state; there is no more to demand
		case w.rule.Every && (step.kind != "updated" || c.old != step.old):
			w.problem("%s: its old is version %d, want %s", ev.ID, ev.Old.Version, w.version(step))
		case !w.rule.Every && !crashed && (!known || c.old != w.state):
			w.problem("%s: its old is version %d, which is not what was told before",
				ev.ID, ev.Old.Version)
		}
	case "deleted":
		// Under latest, a handler that was killed may have got the object without writing that
		// down. And after a crash, until it has caught up, a daemon cannot know whether the handler
		// got the object.
		created := w.lives[c.life].States[0].Sent
		unheard := !w.rule.Every && (w.trial.crashed(created.Add(-noticing), ev.At) ||
			w.trial.doubted(ev.Run, created))
		if !known && !skipped && !unheard {
			w.problem("%s: the rule was never told of it", ev.ID)
		}
	}
	if ev.Kind == "deleted" && c.state != step.state {
		for i, s := range w.steps[:c.step] {
			if s.life == c.life && s.state > c.state && !w.trial.lost(s.Write) {
				w.problem("%s: it does not show the last state: %s followed", ev.ID, w.name(i))
				break
			}
		}
	}
}

// skip accounts for the steps between the last event and this one.
func (w *walk) skip(ev Event, c claim) (skipped bool) {
	present := w.present
	for i := w.at + 1; i < c.step; i++ {
		s := w.steps[i]
		lost := w.trial.lost(s.Write)
		if w.rule.Every {
			skipped = true
			if !lost {
				w.problem("%s came, and not %s before it", ev.ID, w.name(i))
			} else if i > w.highest {
				w.report.Missed++
			}
		}
		if s.kind != "deleted" {
			continue
		}
		// An update shows that the object left the rule and came back; a deletion, that it left in
		// the end.
		same := s.life == c.life && (ev.Kind == "updated" || ev.Kind == "deleted")
		if present && s.life == w.life && !same {
			w.untold(i)
		}
		present = false
	}
	if !w.rule.Every && w.at+1 < c.step {
		skipped = w.lost(w.at+1, c.step)
	}
	return skipped
}

// untold reports a deletion that the rule did not get although it knew the object.
func (w *walk) untold(step int) {
	if w.rule.Every && !w.trial.lost(w.steps[step].Write) {
		return // reported already
	}
	w.problem("%s was never told, though the rule knew of the object", w.name(step))
}

// end checks that the rule got the final state of the object.
func (w *walk) end() {
	last := len(w.steps) - 1
	if w.at == last {
		return
	}
	if w.steps[last].kind != "deleted" {
		w.problem("the last of it, %s, never came", w.name(last))
		return
	}
	present := w.present
	for i := w.at + 1; i <= last; i++ {
		s := w.steps[i]
		if w.rule.Every && !w.trial.lost(s.Write) {
			w.problem("%s never came", w.name(i))
			return
		}
		if w.rule.Every {
			w.report.Missed++
		}
		if s.kind == "deleted" && present && s.life == w.life {
			w.untold(i)
			present = false
		}
	}
}

func (w *walk) name(step int) string {
	s := w.steps[step]
	life := w.lives[s.life]
	return fmt.Sprintf("%s of version %d (%s)", s.kind, life.States[s.state].Version, life.UID)
}

func (w *walk) version(s step) string {
	if s.kind != "updated" {
		return "none: it was " + s.kind
	}
	return fmt.Sprint(w.lives[s.life].States[s.old].Version)
}
