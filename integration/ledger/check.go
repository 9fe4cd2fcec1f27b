package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// place is an object as a rule sees it.
type place struct {
	rule string
	key  Key
}

// Check compares the two ledgers and reports every problem.
func Check(t Trial) Report {
	report := Report{Events: len(t.Events)}
	rules := make(map[string]Rule, len(t.Rules))
	for _, r := range t.Rules {
		rules[r.Name] = r
	}

	// A handler may outlive its daemon for a moment, and write while the next one starts.
	events := slices.Clone(t.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Run, b.Run) })
	told := make(map[place][]Event)
	for _, ev := range events {
		rule, known := rules[ev.Rule]
		switch {
		case !known:
			problem := Problem{ev.Rule, ev.Key, "there is no such rule"}
			report.Problems = append(report.Problems, problem)
		case rule.Resource != ev.Key.Resource || t.History[ev.Key] == nil:
			problem := Problem{ev.Rule, ev.Key, "nobody has written such an object"}
			report.Problems = append(report.Problems, problem)
		default:
			told[place{ev.Rule, ev.Key}] = append(told[place{ev.Rule, ev.Key}], ev)
		}
	}

	for _, key := range slices.SortedFunc(maps.Keys(t.History), compareKeys) {
		for _, rule := range t.Rules {
			if rule.Resource != key.Resource {
				continue
			}
			w := newWalk(&t, &report, rule, key)
			for _, ev := range told[place{rule.Name, key}] {
				w.take(ev)
			}
			w.end()
		}
	}
	return report
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
}

// lost reports whether a change may have happened while nobody could know of it.
func (t *Trial) lost(w Write) bool {
	return slices.ContainsFunc(t.Lost, func(l Window) bool { return l.touches(w) })
}

// crash returns the first crash that was not over at a time.
func (t *Trial) crash(told time.Time) (Crash, bool) {
	i, _ := slices.BinarySearchFunc(t.Crashes, told, func(c Crash, at time.Time) int {
		return c.To.Compare(at)
	})
	if i == len(t.Crashes) {
		return Crash{}, false
	}
	return t.Crashes[i], true
}

// crashed reports whether there was a crash between two times.
func (t *Trial) crashed(from, to time.Time) bool {
	c, ok := t.crash(from)
	return ok && !c.From.After(to)
}

// doubted reports whether a run may have got a change of that time while it caught up after the run
// before.
func (t *Trial) doubted(run int, made time.Time) bool {
	caught, known := t.Caught[run]
	return run > 1 && (!known || !made.After(caught))
}
