package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explain returns what a person needs to understand a problem: everything that both ledgers have
// about the object, and the crashes, by the time of day.
func (t Trial) Explain(p Problem) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	for _, life := range t.History[p.Key] {
		for i, s := range life.States {
			verb := "updated"
			if i == 0 {
				verb = "created"
			}
			add(s.Sent, "server   %s %s version %d team %q digest %s, answered %s%s",
				verb, life.UID, s.Version, s.Team, s.Digest, clock(s.Answered), t.whether(s.Write))
		}
		if life.Deleted != nil {
			add(life.Deleted.Sent, "server   deleted %s, answered %s%s",
				life.UID, clock(life.Deleted.Answered), t.whether(*life.Deleted))
		}
	}
	for _, ev := range t.Events {
		if ev.Rule != p.Rule || ev.Key != p.Key {
			continue
		}
		old := ""
		if ev.Old != nil {
			old = fmt.Sprintf(" old %d", ev.Old.Version)
		}
		add(ev.At, "handler  %s version %d%s attempt %d id %s, run %d process %d",
			ev.Kind, ev.Version, old, ev.Attempt, ev.ID, ev.Run, ev.Process)
	}
	for i, c := range t.Crashes {
		add(c.From, "crash    %d, over %s", i+1, clock(c.To))
	}
	for _, l := range t.Lost {
		add(l.From, "history  may be lost until %s", clock(l.To))
	}
	add(t.Ready, "ready    for the first time")
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })

	var out strings.Builder
	fmt.Fprintln(&out, p)
	for _, l := range lines {
		fmt.Fprintf(&out, "  %s %s\n", clock(l.at), l.text)
	}
	return out.String()
}

func (t *Trial) whether(w Write) string {
	if t.lost(w) {
		return ", perhaps lost"
	}
	return ""
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
