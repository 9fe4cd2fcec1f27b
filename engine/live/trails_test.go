package live

import (
	"testing"
	"time"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/trail"
)

// The verdict on a rule's actions follows from all of their results, also of earlier attempts.
func TestActed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		earlier, now []action.Result
		want         trail.Verdict
	}{
		"changed":        {nil, []action.Result{action.Changed, action.Unchanged, action.Gone}, trail.Acted},
		"created":        {nil, []action.Result{action.Created}, trail.Acted},
		"unchanged":      {nil, []action.Result{action.Unchanged, action.Unchanged}, trail.Unchanged},
		"gone":           {nil, []action.Result{action.Unchanged, action.Gone}, trail.Vanished},
		"changed before": {[]action.Result{action.Changed, action.Failed}, []action.Result{action.Unchanged, action.Unchanged}, trail.Acted},
		"failed before":  {[]action.Result{action.Failed}, []action.Result{action.Unchanged}, trail.Unchanged},
		"nothing known":  {nil, nil, trail.Acted},
	} {
		a := new(acted)
		var got trail.Verdict
		for _, results := range [][]action.Result{c.earlier, c.now} {
			a.Begin("id")
			for _, r := range results {
				a.Add(action.Done{Delivery: "id", Result: r}, time.Now())
				a.Add(action.Done{Delivery: "other", Result: action.Changed}, time.Now())
			}
			got = a.End("id")
		}
		if got != c.want || len(a.now) != 0 {
			t.Errorf("%s: %v, want %v; %v is left", name, got, c.want, a.now)
		}
	}
}
