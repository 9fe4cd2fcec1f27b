package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

// daily is eight o'clock in the morning, UTC.
const daily = `, schedule: {cron: "0 8 * * *"}`

// at sets the clock of the next daemon to a day's time, some days after 2 January 2030.
func (l *life) at(days, hour, minute int) {
	at := time.Date(2030, 1, 2+days, hour, minute, 0, 0, time.UTC)
	l.ahead.Store(int64(time.Until(at)))
}

func TestScheduleTellsOfMembersAtItsMoments(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.at(0, 7, 0)
	l.put("a", "1")
	l.put("b", "2")
	e, stop := l.start(mapSource+aRule("all", ", delivery: every")+aRule("daily", small+daily), h)
	l.await(h, 2)
	l.settled(e)
	l.put("a", "1 ")
	l.put("a", "1")
	l.await(h, 4)
	l.pass(e, 61*time.Minute)
	l.await(h, 5)
	l.pass(e, 24*time.Hour)
	l.await(h, 6)
	stop()
	l.expectAbout(h, "daily", "synced a →1", "synced a →1")
	if h.ids[4] == h.ids[5] {
		t.Errorf("two moments have the id %s", h.ids[4])
	}
	if !strings.HasSuffix(h.ids[4], "/1893571200") { // 2030-01-02T08:00:00Z
		t.Errorf("the id %s does not name the moment", h.ids[4])
	}
}

// While its source has trouble, a moment waits: it would deliver old states.
func TestMomentsWaitWhileTheSourceHasTrouble(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.at(0, 7, 0)
	l.put("a", "1")
	e, stop := l.start(mapSource+aRule("daily", daily), h)
	l.settled(e)
	l.server.Fail(forbid("/configmaps"))
	l.server.DropWatches()
	l.holds("the source has trouble", func() bool {
		state, _ := e.work().Intakes[0].Informer.State()
		return state == source.Forbidden
	})
	l.pass(e, 61*time.Minute)
	time.Sleep(500 * time.Millisecond) // nothing is to happen
	if told := h.about("daily"); len(told) > 0 {
		t.Errorf("told %q while the source has trouble", told)
	}
	l.server.Fail(nil)
	l.holds("the moment comes", func() bool { return len(h.about("daily")) == 1 })
	stop()
}

func TestMissedMomentsComeOnce(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := mapSource + aRule("daily", daily+", events: [synced, deleted]")
	l.at(0, 7, 0)
	l.put("a", "1")
	e, stop := l.start(rules, h)
	l.settled(e)
	l.pass(e, 2*time.Hour)
	l.await(h, 1)
	stop()
	l.at(0, 23, 0) // nothing was missed
	e, stop = l.start(rules, h)
	l.settled(e)
	stop()
	l.at(5, 7, 0) // four days were
	e, stop = l.start(rules, h)
	l.await(h, 2)
	l.settled(e)
	stop()
	e, stop = l.start(strings.Replace(rules, "0 8 * * *", "0 6 * * *", 1), h) // from now on
	l.settled(e)
	l.at(6, 6, 1)
	l.pass(e, 0)
	l.await(h, 3)
	l.delete("a")
	l.await(h, 4)
	stop()
	l.expectAbout(h, "daily", "synced a →1", "synced a →1", "synced a →1", "deleted a →1")
	if !strings.HasSuffix(h.ids[1], "/1893916800") { // 2030-01-06T08:00:00Z
		t.Errorf("the id %s does not name the latest moment that was missed", h.ids[1])
	}
}

func TestAtTheStart(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	for n := range 3 {
		l.ahead.Add(int64(time.Minute))
		e, stop := l.start(mapSource+aRule("r", `, schedule: {cron: "@start"}`), h)
		l.await(h, n+1)
		l.settled(e)
		stop()
	}
	l.expectAbout(h, "r", "synced a →1", "synced a →1", "synced a →1")
}

func TestResyncGoesOnOverRestarts(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	rules := mapSource + aRule("hourly", ", resync: 1h")
	e, stop := l.start(rules, h)
	l.await(h, 1)
	l.pass(e, time.Hour)
	l.await(h, 2)
	stop()
	for n := range 4 {
		l.ahead.Add(int64(40 * time.Minute))
		e, stop = l.start(rules, h)
		l.settled(e)
		l.await(h, []int{2, 3, 3, 4}[n]) // what was missed comes before time goes on
		l.pass(e, 10*time.Minute)
		l.await(h, []int{2, 3, 4, 4}[n])
		stop()
	}
	// Each run lasts 50 minutes. The rounds are due after 60, when no daemon runs, and after 150.
	if got := len(h.about("hourly")); got != 4 {
		t.Errorf("told %d times", got)
	}
}

// TestRoundGoesOnAfterARestart ends a daemon in the middle of a round.
func TestRoundGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("daily", daily)
	l.at(0, 7, 0)
	for _, name := range []string{"a", "b", "c"} {
		l.put(name, "1")
	}
	h := &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	e, stop := l.start(rules, h)
	l.settled(e)
	in := e.work().Intakes[0]
	in.Round(e.work().Rules[0].Rounds, 1893571200, false) // as if the round had begun, without events
	stop()
	again := new(teller)
	l.at(0, 9, 0)
	_, stop = l.start(rules, again)
	l.await(again, 3)
	stop()
	for _, id := range again.ids {
		if !strings.HasSuffix(id, "/1893571200") {
			t.Errorf("the id %s is another", id)
		}
	}
	told := again.about("daily")
	slices.Sort(told)
	if want := []string{"synced a →1", "synced b →1", "synced c →1"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A rule that has learned nothing yet does not miss a round because a source that it looks into is
// not there.
func TestRoundWaitsForWhatARuleLooksInto(t *testing.T) {
	t.Parallel()
	l, h := newLooking(t), new(teller)
	l.breakNodes(true)
	l.put("a", "1")
	e, stop := l.start(lookupSources+aRule("zones", zones+`, schedule: {cron: "@start"}`)+aRule("hourly", ", resync: 1h"), h)
	l.await(h, 1) // hourly, at first sight
	l.pass(e, time.Hour)
	l.await(h, 2) // hourly, and the round of the start is over, too
	l.breakNodes(false)
	l.await(h, 3)
	stop()
	l.expectAbout(h, "zones", `synced a [null,"1","north"]`)
}
