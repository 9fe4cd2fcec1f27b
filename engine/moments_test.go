package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

// nights scale down at seven in the evening, and mornings up at seven. A morning finds what the
// evening has left: the handler sets the size to 0.
const (
	evening = `, schedule: {cron: "0 19 * * *"}`
	morning = `, schedule: {cron: "0 7 * * *"}, when: object.data.size == "0"`
)

// scaled returns a handler that scales the objects of down, once it has failed for some of them.
func (l *life) scaled(failures int) *teller {
	failed := make(map[string]int)
	return &teller{answer: func(ev handler.Event) error {
		if ev.Rule != "down" {
			return nil
		}
		if failed[ev.Name]++; failed[ev.Name] <= failures {
			return errors.New("not now")
		}
		if ev.Name == "broken" {
			return handler.Reject(errors.New("never"))
		}
		l.put(ev.Name, "0")
		return nil
	}}
}

// Missed moments come in the order in which they were due, whatever the order of the rules. For each
// object, a later one is evaluated when the earlier one is answered, or a dead letter.
func TestMissedMomentsComeInOrder(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{
		"in order":         aRule("down", evening) + aRule("up", morning),
		"in another order": aRule("up", morning) + aRule("down", evening),
		"other sources": aRule("down", evening) + strings.Replace(aRule("up", morning), "source: maps", "source: others", 1) +
			others,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			rules := mapSource + rules
			l.at(0, 17, 0)
			l.put("a", "1")
			l.put("broken", "0")
			e, stop := l.start(rules, new(teller))
			l.settled(e)
			stop()
			l.at(1, 9, 0)
			h := l.scaled(1)
			_, stop = l.start(rules, h)
			l.await(h, 6)
			stop()
			want := []string{"down a", "down a #2", "up a"}
			if got := h.ofObject("a"); !equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
			want = []string{"down broken", "down broken #2", "up broken"}
			if got := h.ofObject("broken"); !equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// Down from one morning to the next evening: the latest of all moments has the last word.
func TestTheLatestMissedMomentComesLast(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("down", evening) + aRule("up", strings.Replace(morning, `"0"`, `"1"`, 1))
	l.at(0, 18, 0)
	l.put("a", "1")
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 20, 0) // down at 19:00, up at 07:00, down at 19:00
	h := l.scaled(0)
	_, stop = l.start(rules, h)
	l.await(h, 2)
	stop()
	if got, want := h.ofObject("a"), []string{"up a", "down a"}; !equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// An earlier moment that nobody answers holds up a later one for five minutes, and no other object
// longer than that takes.
func TestMissedMomentsWaitFiveMinutes(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("down", evening) + aRule("up", strings.Replace(morning, `"0"`, `"1"`, 1))
	l.at(0, 17, 0)
	l.put("stuck", "1")
	l.put("free", "1")
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	release := make(chan struct{})
	h := new(teller)
	h.answer = func(ev handler.Event) error {
		if ev.Rule == "down" && ev.Name == "stuck" {
			h.mu.Unlock() // which Handle holds
			defer h.mu.Lock()
			<-release
		}
		return nil
	}
	e, stop = l.start(rules, h)
	l.await(h, 3) // down twice, up of free
	if got := h.about("up"); len(got) != 1 || !strings.Contains(got[0], "free") {
		t.Errorf("up was told %q", got)
	}
	l.pass(e, 4*time.Minute+30*time.Second)
	time.Sleep(100 * time.Millisecond) // nothing is to happen
	if got := h.about("up"); len(got) != 1 {
		t.Errorf("up was told %q before five minutes were over", got)
	}
	l.pass(e, time.Minute)
	l.await(h, 4)
	close(release)
	stop()
	l.expectAbout(h, "up", "synced free →1", "synced stuck →1")
}

// others is a source of the maps of one namespace.
const others = `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: others}
spec: {resource: v1/configmaps, namespaces: [shop]}
`

// A later moment gives what an earlier one has changed a second to arrive, also if the earlier one was
// answered before the later one came.
func TestMissedMomentsSeeWhatAnsweredOnesChange(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + others + aRule("down", evening) + strings.Replace(aRule("up", morning), "maps", "others", 1)
	l.at(0, 17, 0)
	l.put("a", "1")
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	h := new(teller)
	l.server.Fail(forbid("/namespaces/shop/configmaps"))
	e, stop = l.start(rules, h)
	l.await(h, 1)
	l.holds("the evening is answered", func() bool {
		return !e.work().Rules[0].Lane.Holds(delta.Key{Namespace: "shop", Name: "a"})
	})
	l.server.Fail(nil)
	l.settled(e)
	time.Sleep(100 * time.Millisecond) // the morning would be over
	l.put("a", "0")
	l.holds("the morning is over", func() bool { return e.parts.Intake.Moments.Due() == 0 })
	l.await(h, 2)
	stop()
	l.expectAbout(h, "up", "synced a →0")
}

// Rules without a source have one moment after the other, too.
func TestMissedMomentsWithoutASource(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + alone("up", `handler: record, schedule: {cron: "0 7 * * *"}`) + alone("down", "handler: record"+evening)
	l.at(0, 17, 0)
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	failed := false
	h := &teller{answer: func(ev handler.Event) error {
		if ev.Rule == "down" && !failed {
			failed = true
			return errors.New("not now")
		}
		return nil
	}}
	_, stop = l.start(rules, h)
	l.await(h, 3)
	stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, want := range []string{"down synced", "down synced", "up synced"} {
		if !strings.HasPrefix(h.told[i], want) {
			t.Errorf("told %q", h.told)
			break
		}
	}
}

// A process that is killed while a moment waits goes on with the same order.
func TestMissedMomentsStayInOrderOverARestart(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := strings.Replace(mapSource, "attempts: 2", "attempts: 100", 1) + aRule("up", morning) + aRule("down", evening)
	l.at(0, 17, 0)
	l.put("a", "1")
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	h := l.scaled(1000)
	_, stop = l.start(rules, h)
	l.await(h, 1)
	stop()
	h = l.scaled(0)
	_, stop = l.start(rules, h)
	l.await(h, 2)
	stop()
	got := h.ofObject("a")
	if len(got) != 2 || !strings.HasPrefix(got[0], "down a") || got[1] != "up a" {
		t.Errorf("told %q", got)
	}
}

// An earlier moment that cannot come in one namespace holds up no objects of another.
func TestMissedMomentsOfAnotherNamespaceDoNotWait(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1) +
		aRule("down", evening) + aRule("up", `, schedule: {cron: "0 7 * * *"}`)
	l.at(0, 17, 0)
	l.put("a", "1")
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	l.server.Fail(forbid("/namespaces/pay/"))
	_, stop = l.start(rules, h)
	l.holds("up comes", func() bool { return len(h.about("up")) > 0 })
	stop()
	l.expectAbout(h, "up", "synced a →1")
}

// Nor does one of an object that has the same name, and is of another resource.
func TestMissedMomentsOfAnotherResourceDoNotWait(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := mapSource + aRule("down", evening) +
		strings.Replace(aRule("up", `, schedule: {cron: "0 7 * * *"}`), "source: maps", "source: keys", 1) + `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: keys}
spec: {resource: v1/secrets}
`
	l.at(0, 17, 0)
	l.put("a", "1")
	l.server.Apply(secrets, `{"metadata":{"namespace":"shop","name":"a"}}`)
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	release := make(chan struct{})
	h.answer = func(ev handler.Event) error {
		if ev.Rule == "down" {
			h.mu.Unlock() // which Handle holds
			defer h.mu.Lock()
			<-release
		}
		return nil
	}
	_, stop = l.start(rules, h)
	l.holds("up comes", func() bool { return len(h.about("up")) > 0 })
	close(release)
	stop()
}

// What an earlier moment has gathered holds up a later one until it is answered, also after a reload.
func TestMissedMomentsWaitForWhatIsGathered(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	before := mapSource + aRule("down", evening+", group: {wait: 5s}") + aRule("up", `, schedule: {cron: "0 7 * * *"}`)
	l.at(0, 17, 0)
	l.put("a", "1")
	e, stop := l.start(before, h)
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	e, stop = l.start(before, h)
	l.matched(e, "down", 1)
	after := strings.Replace(before, "group: {wait: 5s}", "group: {wait: 6s}", 1)
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	l.await(h, 2)
	stop()
	if got, want := h.ofObject("a"), []string{"down a", "up a"}; !equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// A new rule begins with its next moment, also if another rule has the same schedule and makes up
// for a moment.
func TestNewRulesDoNotJoinMissedMoments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after  string
		isLate bool // a run in between knows the new rule, and does not get to the moment
	}{
		"after":             {aRule("old", daily) + aRule("new", daily), false},
		"before":            {aRule("new", daily) + aRule("old", daily), false},
		"after, a run ago":  {aRule("old", daily) + aRule("new", daily), true},
		"before, a run ago": {aRule("new", daily) + aRule("old", daily), true},
	} {
		after := c.after
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, h := newLife(t), new(teller)
			l.at(0, 7, 0)
			l.put("a", "1")
			e, stop := l.start(mapSource+aRule("old", daily), h)
			l.settled(e)
			stop()
			if c.isLate {
				l.at(0, 9, 0)
				l.server.Fail(forbid("/configmaps"))
				e, stop = l.start(mapSource+after, h)
				l.holds("the source has trouble", func() bool {
					state, _ := e.work().Intakes[0].Informer.State()
					return state == source.Forbidden
				})
				stop()
				l.server.Fail(nil)
			}
			l.at(0, 10, 0)
			e, stop = l.start(mapSource+after, h)
			l.holds("the moment is over", func() bool { return e.parts.Intake.Moments.Due() == 0 })
			l.await(h, 1)
			l.expectAbout(h, "old", "synced a →1")
			l.expectAbout(h, "new")
			l.at(1, 8, 0)
			l.pass(e, 0)
			l.await(h, 3)
			stop()
			l.expectAbout(h, "new", "synced a →1")
		})
	}
}

// What is left of a round comes after a restart, although a rule that came later has the same
// schedule.
func TestLaterRulesDoNotEndMoments(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	before := mapSource + aRule("down", evening) + aRule("up", `, schedule: {cron: "0 7 * * *"}`)
	after := before + aRule("new", `, schedule: {cron: "0 7 * * *"}`)
	l.at(0, 17, 0)
	l.put("a", "1")
	e, stop := l.start(before, new(teller))
	l.settled(e)
	stop()
	l.at(1, 9, 0)
	h := &teller{answer: func(handler.Event) error { return handler.RetryAfter(time.Hour, errors.New("not now")) }}
	e, stop = l.start(before, h)
	l.await(h, 1)
	l.settled(e)
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	stop()
	l.expectAbout(h, "up")
	h = new(teller)
	l.at(1, 12, 0)
	_, stop = l.start(after, h)
	l.await(h, 2)
	stop()
	l.expectAbout(h, "up", "synced a →1")
	l.expectAbout(h, "new")
}

// A rule can skip what it missed.
func TestMissedMomentsThatAreSkipped(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := mapSource + aRule("skips", `, schedule: {cron: "0 8 * * *", missed: skip}`) + aRule("daily", daily)
	l.at(0, 7, 0)
	l.put("a", "1")
	e, stop := l.start(rules, h)
	l.settled(e)
	stop()
	l.at(3, 9, 0)
	e, stop = l.start(rules, h)
	l.await(h, 1)
	l.settled(e)
	l.expectAbout(h, "daily", "synced a →1")
	l.expectAbout(h, "skips")
	stop()
	e, stop = l.start(rules, h) // nor does a second start bring it
	l.settled(e)
	l.at(4, 8, 1)
	l.pass(e, 0)
	l.await(h, 3)
	stop()
	l.expectAbout(h, "skips", "synced a →1")
}

// A moment that a restart interrupts comes to its end, however many are skipped after it.
func TestInterruptedMomentBeforeSkippedOnes(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	rules := mapSource + aRule("skips", `, schedule: {cron: "0 8 * * *", missed: skip}`)
	l.at(0, 7, 0)
	l.put("a", "1")
	e, stop := l.start(rules, h)
	l.settled(e)
	const interrupted = 1893571200
	e.work().Intakes[0].Round(e.work().Rules[0].Rounds, interrupted, false) // it begins, and is killed before the first event
	stop()
	again := new(teller)
	l.at(2, 9, 0)
	e, stop = l.start(rules, again)
	l.await(again, 1)
	l.settled(e)
	l.at(3, 8, 1)
	l.pass(e, 0)
	l.await(again, 2)
	stop()
	if n := len(again.ids); n != 2 || !strings.HasSuffix(again.ids[0], fmt.Sprint("/", interrupted)) {
		t.Errorf("told %q", again.ids)
	}
}

// Expressions see the moment for which an event is due, and not only the time at which it comes.
func TestExpressionsSeeTheMoment(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	const late = `, schedule: {cron: "0 8 * * *"}, events: [synced, updated], payload: '[moment(), now() - moment() > duration("50m")]'`
	l.at(0, 7, 0)
	l.put("a", "1")
	e, stop := l.start(mapSource+aRule("late", late), h)
	l.settled(e)
	l.put("a", "2")
	l.await(h, 1)
	stop()
	l.at(1, 9, 0)
	_, stop = l.start(mapSource+aRule("late", late), h)
	l.await(h, 2)
	stop()
	l.expectAbout(h, "late", `updated a [null,false]`, `synced a ["2030-01-03T08:00:00Z",true]`)
}

// ofObject returns the events about an object that the handler got, without the sizes in them.
func (h *teller) ofObject(name string) (told []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, text := range h.told {
		fields := strings.Fields(text)
		if len(fields) > 2 && fields[2] == name {
			told = append(told, strings.Join(append([]string{fields[0], name}, fields[4:]...), " "))
		}
	}
	return told
}

func equal(got, want []string) bool { return strings.Join(got, "\n") == strings.Join(want, "\n") }
