package dispatch

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
)

func undecided(m rule.Match) rule.Match {
	m.Undecided = true
	return m
}

// Undecided changes wait while the lane is held. They merge only with each other, and are decided
// when they are delivered.
func TestUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		var mu sync.Mutex
		var decided []string
		l := d.Lane("r", pods, preparer{decide: func(d delta.Delta) (rule.Match, bool) {
			mu.Lock()
			defer mu.Unlock()
			decided = append(decided, d.ID("r"))
			return rule.Match{Delta: d, Payload: json.RawMessage(`"decided"`)}, d.Object.Name() != "no"
		}}.lane(LaneOptions{}))
		l.Hold(true)
		start(t, d)
		l.Offer(added("web", "u", 1)) // as if from another run
		l.Offer(undecided(updated("web", "u", 2)))
		l.Offer(undecided(updated("web", "u", 3)))
		l.Offer(undecided(added("no", "n", 1)))
		l.Offer(undecided(added("gone", "g", 1)))
		l.Offer(undecided(deleted("gone", "g", 2)))
		synctest.Wait()
		equal(t, "while held", h.ids(), nil)
		l.Hold(false)
		synctest.Wait()
		l.Offer(updated("no", "n", 2))
		synctest.Wait()
		equal(t, "delivered", h.ids(), []string{"r/u/added/1", "r/u/updated/3", "r/n/updated/2"})
		if p := string(h.events[1].Payload); p != `"decided"` || len(decided) != 2 {
			t.Errorf("payload %s; decided %q", p, decided)
		}
		if s := l.Stats(); s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}
