package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/plugins/handler"
)

// alone is a rule without a source.
func alone(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

// everyMorning is eight o'clock in the morning, UTC.
const everyMorning = `handler: record, schedule: {cron: "0 8 * * *"}`

// moments returns the last parts of the ids, as times.
func (h *teller) moments(t *testing.T) (at []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.ids {
		var unix int64
		if _, err := fmt.Sscanf(id, "report/report/synced/1/%d", &unix); err != nil {
			t.Errorf("the id %s has another form", id)
		}
		at = append(at, time.Unix(unix, 0).UTC().Format("02 15:04"))
	}
	return at
}

func TestRuleWithoutASourceHasOneEventPerMoment(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.at(0, 7, 0)
	l.put("a", "1")
	l.put("b", "2")
	l.put("c", "2")
	rules := lookupSources[:strings.LastIndex(lookupSources, "---")] +
		alone("report", everyMorning+`, payload: {at: 'string(now())', rule: object.metadata.name, event: event, twos: 'len(lookup("maps.byNode", "2"))'}`)
	e, stop := l.start(rules, h)
	l.settled(e)
	if got := e.Status().Sources; len(got) != 1 {
		t.Errorf("the status has the sources %v", got)
	}
	if _, ok := e.Source(""); ok {
		t.Error("the rule has a source that people can ask for")
	}
	l.pass(e, 61*time.Minute)
	l.await(h, 1)
	l.put("d", "2")
	poll(t, "d", func() bool { return e.Status().Sources[0].Objects == 4 })
	l.pass(e, 24*time.Hour)
	l.await(h, 2)
	next := e.Status().Rules[0].NextRound.UTC().Format(time.DateTime)
	if next != "2030-01-04 08:00:00" {
		t.Errorf("the next round is at %s", next)
	}
	stop()
	if got, want := h.moments(t), []string{"02 08:00", "03 08:00"}; !slices.Equal(got, want) {
		t.Errorf("it came at %q, want %q", got, want)
	}
	for n, text := range h.about("report") {
		if want := fmt.Sprintf(`"rule":"report","event":"synced","twos":%d`, n+2); !strings.Contains(text, want) {
			t.Errorf("told %s, want %s", text, want)
		}
	}
}

func TestMissedMomentsOfARuleWithoutASourceComeOnce(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := oneHandler + alone("report", everyMorning)
	start := func(days, hour int) (*Engine, func() []string) {
		l.at(days, hour, 0)
		e, stop := l.start(rules, h)
		poll(t, "the schedule", func() bool {
			return !e.Status().Rules[0].NextRound.IsZero() && e.Status().Rules[0].State == admin.RuleActive
		})
		return e, stop
	}
	_, stop := start(0, 7) // a new rule begins with its next moment
	stop()
	e, stop := start(0, 9)
	l.await(h, 1)
	l.pass(e, 24*time.Hour)
	l.await(h, 2)
	stop()
	_, stop = start(1, 23) // nothing was missed
	stop()
	_, stop = start(5, 7) // three days were
	l.await(h, 3)
	stop()
	_, stop = start(2, 9) // the clock is set back
	stop()
	e, stop = start(5, 7)
	l.pass(e, 2*time.Hour)
	l.await(h, 4)
	stop()
	if got, want := h.moments(t), []string{"02 08:00", "03 08:00", "06 08:00", "07 08:00"}; !slices.Equal(got, want) {
		t.Errorf("it came at %q, want %q", got, want)
	}
}

func TestRuleWithoutASourceAtTheStart(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	for n := range 3 {
		l.ahead.Add(int64(time.Minute))
		_, stop := l.start(oneHandler+alone("report", `handler: record, schedule: {cron: "@start"}`), h)
		l.await(h, n+1)
		stop()
	}
	if got := len(h.about("report")); got != 3 {
		t.Errorf("it came %d times", got)
	}
}

// TestRuleWithoutASourceWaits begins a daemon while the source that the rule looks into is not there.
func TestRuleWithoutASourceWaits(t *testing.T) {
	t.Parallel()
	l, h := newLooking(t), new(teller)
	l.breakNodes(true)
	rules := lookupSources + alone("zones", `handler: record, schedule: {cron: "@start"}, payload: 'map(lookup("nodes.byName", "1"), .spec.zone)'`)
	e, stop := l.start(rules, h)
	poll(t, "the rule waits", func() bool { return e.Status().Rules[0].Reason == waits })
	l.breakNodes(false)
	l.await(h, 1)
	stop()
	l.expectAbout(h, "zones", `synced zones ["north"]`)
}

// TestMomentIsRepeatedWithItsID ends a daemon before the handler has acknowledged a moment.
func TestMomentIsRepeatedWithItsID(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := oneHandler + alone("report", everyMorning+", delivery: every")
	l.at(0, 7, 0)
	h := &teller{answer: func(handler.Event) error { return handler.RetryAfter(time.Hour, fmt.Errorf("not now")) }}
	e, stop := l.start(rules, h)
	poll(t, "the schedule", func() bool { return e.Status().Rules[0].State == admin.RuleActive })
	l.pass(e, 61*time.Minute)
	l.await(h, 1)
	stop()
	again := new(teller)
	l.at(1, 9, 0)
	_, stop = l.start(rules, again)
	l.await(again, 2)
	stop()
	if got, want := again.moments(t), []string{"02 08:00", "03 08:00"}; !slices.Equal(got, want) {
		t.Errorf("it came at %q, want %q", got, want)
	}
}

// A schedule that moves from a rule without a source to one with a source, and back, starts over.
func TestRuleGetsASource(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	start := `handler: record, schedule: {cron: "@start"}`
	for n, spec := range []string{start, "source: maps, " + start, start} {
		l.ahead.Add(int64(time.Minute))
		e, stop := l.start(mapSource+alone("r", spec), h)
		l.await(h, n+1)
		l.settled(e)
		stop()
	}
	l.expectAbout(h, "r", "synced r →", "synced a →1", "synced r →")
}
