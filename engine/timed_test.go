package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/integration/apistub"
)

// pass makes time pass for a running daemon.
func (l *life) pass(e *Engine, d time.Duration) {
	l.ahead.Add(int64(d))
	for _, in := range e.work().Intakes {
		in.Informer.Wake()
	}
}

// await waits until the handler has received n events in all.
func (l *life) await(h *teller, n int) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		h.mu.Lock()
		told := slices.Clone(h.told)
		h.mu.Unlock()
		if len(told) >= n {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("told %q, want %d events", told, n)
		}
	}
}

// settled waits until every source is ready and no rule catches up: one that has not ended begins
// again after a restart.
func (l *life) settled(e *Engine) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if !slices.ContainsFunc(e.Status().Sources, func(s admin.SourceStatus) bool { return !s.Ready }) && !catchesUp(e) {
			return
		}
		l.server.Bookmark()
		if time.Now().After(deadline) {
			l.t.Fatal("the sources are not ready")
		}
	}
}

// about returns the events of a rule, in order.
func (h *teller) about(rule string) (told []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, text := range h.told {
		if rest, ok := strings.CutPrefix(text, rule+" "); ok {
			told = append(told, rest)
		}
	}
	return told
}

func (l *life) expectAbout(h *teller, rule string, want ...string) {
	l.t.Helper()
	if got := h.about(rule); !slices.Equal(got, want) {
		l.t.Errorf("rule %s was told %q, want %q", rule, got, want)
	}
}

const small = `, where: object.data.size == "1"`

func TestForTellsOfWhatLasts(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	l.put("b", "1")
	e, stop := l.start(mapSource+aRule("all", "")+aRule("long", small+", for: 1h"), h)
	l.await(h, 2) // all: a, b
	l.pass(e, 59*time.Minute)
	l.put("b", "2")
	l.await(h, 3) // all: b has left
	l.pass(e, 2*time.Minute)
	l.await(h, 4) // long: a
	l.put("b", "1")
	l.put("a", "1 ")
	l.await(h, 7) // all: b, a; long: a has left
	l.pass(e, time.Hour)
	l.await(h, 8) // long: b
	l.delete("b")
	l.await(h, 10)
	stop()
	l.expectAbout(h, "long", "added a →1", "deleted a →1", "added b →1", "deleted b →1")
}

func TestUpdatesOfMembersInTime(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	e, stop := l.start(mapSource+aRule("all", "")+aRule("long", ", for: 1h"), h)
	l.await(h, 1)
	l.put("a", "2") // waits on
	l.await(h, 2)
	l.pass(e, time.Hour)
	l.await(h, 3)
	l.put("a", "3")
	l.await(h, 5)
	stop()
	l.expectAbout(h, "long", "added a →2", "updated a 2→3")
}

func TestWhoOnlyHearsOfTheEnd(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	l.put("b", "1")
	e, stop := l.start(mapSource+aRule("all", "")+aRule("end", small+", for: 1h, events: [deleted]"), h)
	l.await(h, 2)
	l.delete("b")
	l.await(h, 3)
	l.pass(e, time.Hour)
	for e.Status().Rules[1].Pending > 0 {
		time.Sleep(time.Millisecond)
	}
	l.delete("a")
	l.await(h, 5)
	stop()
	l.expectAbout(h, "end", "deleted a →1")
}

func TestForOverRestarts(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ name, source, rule string }{
		{"whole objects", mapSource, ""},
		{"parts of objects", strings.Replace(mapSource, "configmaps}", "configmaps, keep: needed}", 1), ", payload: object.data.size"},
		{"Secrets", secretSource, ""},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			put := l.put
			remove := l.delete
			if kind.source == secretSource {
				put, remove = l.secret, func(name string) { l.server.Delete(secrets, "shop", name) }
			}
			rules := kind.source + aRule("long", small+kind.rule+", for: 1h")
			h := new(teller)
			for _, name := range []string{"stays", "leaves", "goes", "was", "left", "gone"} {
				put(name, "1")
			}
			e, stop := l.start(rules, h)
			l.settled(e)
			l.pass(e, 30*time.Minute)
			put("later", "1")
			for e.Status().Rules[0].Pending < 7 {
				time.Sleep(time.Millisecond)
			}
			stop()
			l.expectAbout(h, "long")

			// Time passes while nobody watches, and some leave meanwhile.
			l.ahead.Add(int64(31 * time.Minute))
			put("leaves", "2")
			remove("goes")
			h = new(teller)
			e, stop = l.start(rules, h)
			l.settled(e)
			l.await(h, 4)
			stop()
			names := h.about("long")
			slices.Sort(names)
			want := []string{"added gone", "added left", "added stays", "added was"}
			for i := range names {
				names[i] = strings.Join(strings.Fields(names[i])[:2], " ")
			}
			if !slices.Equal(names, want) {
				t.Errorf("told %q, want %q", names, want)
			}

			// Nothing is delivered twice, and the object that came later has its own time.
			put("left", "2")
			remove("gone")
			l.ahead.Add(int64(20 * time.Minute))
			h = new(teller)
			e, stop = l.start(rules, h)
			l.settled(e)
			l.await(h, 2)
			l.pass(e, 10*time.Minute)
			l.await(h, 3)
			stop()
			names = h.about("long")
			for i := range names {
				names[i] = strings.Join(strings.Fields(names[i])[:2], " ")
			}
			slices.Sort(names)
			if want := []string{"added later", "deleted gone", "deleted left"}; !slices.Equal(names, want) {
				t.Errorf("told %q, want %q", names, want)
			}
		})
	}
}

func TestLostHistoryBeginsAnew(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("same", "1")
	l.put("changed", "1")
	rules := mapSource + aRule("long", small+", for: 1h")
	e, stop := l.start(rules, h)
	l.settled(e)
	stop()
	l.server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"changed","labels":{"a":"b"}},"data":{"size":"1"}}`)
	l.server.Expire()
	l.ahead.Add(int64(time.Hour))
	e, stop = l.start(rules, h)
	l.settled(e)
	l.await(h, 1)
	l.pass(e, time.Hour)
	l.await(h, 2)
	stop()
	l.expectAbout(h, "long", "added same →1", "added changed →1")
}

func TestChangedFor(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	e, stop := l.start(mapSource+aRule("long", small+", for: 1h"), h)
	l.settled(e)
	stop()
	l.ahead.Add(int64(10 * time.Minute))
	e, stop = l.start(mapSource+aRule("long", small+", for: 20m"), h) // keeps since when
	l.settled(e)
	l.put("b", "1")
	l.pass(e, 10*time.Minute)
	l.await(h, 1)
	stop()
	l.expectAbout(h, "long", "added a →1")
	_, stop = l.start(mapSource+aRule("long", small), h) // b need not wait any more
	l.await(h, 2)
	stop()
	e, stop = l.start(mapSource+aRule("long", small+", for: 20m"), h) // both stay members
	l.settled(e)
	l.delete("a")
	l.await(h, 3)
	l.delete("b")
	l.await(h, 4)
	stop()
	l.expectAbout(h, "long", "added a →1", "added b →1", "deleted a →1", "deleted b →1")
}

func TestDue(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	l.put("past", at(-time.Hour))
	l.put("future", at(time.Hour))
	l.server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"never"},"data":{}}`)
	rules := mapSource + aRule("late", `, due: time(object.data.size) + duration("1m"), payload: object.metadata.name`)
	e, stop := l.start(rules, h)
	l.await(h, 1)
	l.pass(e, 61*time.Minute)
	l.await(h, 2)
	l.put("future", at(2*time.Hour)) // the heartbeat is back
	l.await(h, 3)
	l.pass(e, time.Hour)
	l.await(h, 4)
	stop()
	l.expectAbout(h, "late", `synced past "past"`, `added future "future"`, `deleted future "future"`, `added future "future"`)

	h = new(teller)
	changed := strings.Replace(rules, `"1m"`, `"48h"`, 1)
	e, stop = l.start(changed, h)
	l.await(h, 2)
	l.pass(e, 48*time.Hour)
	l.await(h, 4)
	stop()
	told := h.about("late")
	slices.Sort(told[:2])
	slices.Sort(told[2:])
	if want := []string{`deleted future "future"`, `deleted past "past"`, `added future "future"`, `added past "past"`}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestDueOutOfReach(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	for i, due := range []string{"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "no time"} {
		l.put(fmt.Sprintf("m%d", i), due)
	}
	e, stop := l.start(mapSource+aRule("late", `, due: time(object.data.size), payload: '""'`), h)
	l.await(h, 1)
	l.settled(e)
	stop()
	l.expectAbout(h, "late", `synced m1 ""`)
}

func TestNothingBecomesAMemberWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("stays", "1")
	l.put("left", "1")
	e, stop := l.start(mapSource+aRule("long", small+", for: 1h"), h)
	l.settled(e)
	l.server.Fail(func(*http.Request) *metav1.Status {
		return &metav1.Status{Status: "Failure", Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "no"}
	})
	l.server.DropWatches()
	for e.Status().Sources[0].State != source.Failing {
		time.Sleep(time.Millisecond)
	}
	l.put("left", "2") // informd does not receive it
	l.pass(e, 2*time.Hour)
	time.Sleep(2 * timing.Stale)
	l.expectAbout(h, "long")
	l.server.Fail(nil)
	l.await(h, 1)
	l.settled(e)
	stop()
	l.expectAbout(h, "long", "added stays →1")
}

// BenchmarkTimed evaluates and commits updates of objects for ten rules, and for the same rules with
// for, for which the objects wait.
func BenchmarkTimed(b *testing.B) {
	for _, timed := range []string{"", ", for: 1h"} {
		b.Run("rules"+strings.ReplaceAll(timed, ", for: 1h", " with for"), func(b *testing.B) {
			rules := mapSource
			for n := range 10 {
				rules += aRule(fmt.Sprint("r", n), small+timed+", events: [deleted]")
			}
			_, _, in := idle(b, rules)
			const objects = 1000
			states := make([]*object.Object, 0, 2*objects)
			for n := range cap(states) {
				states = append(states, configMap(b, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"o%d","uid":"u","resourceVersion":"%d"},"data":{"size":"1"}}`, n%objects, n+1)))
			}
			for _, o := range states[:objects] {
				in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: o}})
			}
			n := 0
			for b.Loop() {
				i, turn := n%objects, n/objects%2
				old, o := states[i+turn*objects], states[i+(1-turn)*objects]
				in.Take(source.Step{Delta: delta.Delta{Type: delta.Updated, Object: o, Old: old}})
				n++
			}
		})
	}
}

// stallWatches stops what watches of the server bring, and nothing else.
func (l *life) stallWatches(is bool) {
	if !is {
		l.server.Stall(nil)
		return
	}
	l.server.Stall(func(r *http.Request) apistub.Place {
		if r.URL.Query().Get("watch") != "" {
			return apistub.AfterHeaders
		}
		return apistub.Nowhere
	})
}

// A timer does not fire by the cache of an informer that receives nothing: an object that recovered
// while its watch was stalled never lasted. One that did not is a member, because a read confirms
// it.
func TestForWaitsUntilTheServerWasHeard(t *testing.T) {
	t.Parallel()
	for _, many := range []int{1, 100} { // read one by one, and as a whole
		t.Run(strconv.Itoa(many), func(t *testing.T) {
			t.Parallel()
			l, h := newLife(t), new(teller)
			for n := range many {
				l.put(fmt.Sprintf("a%03d", n), "1")
			}
			e, stop := l.start(mapSource+aRule("all", "")+
				aRule("long", small+", for: 1h")+
				aRule("soon", `, where: object.data.size == "1", due: time(object.metadata.creationTimestamp) + duration("2h")`), h)
			l.await(h, many)
			l.stallWatches(true)
			for n := range many {
				l.put(fmt.Sprintf("a%03d", n), "2")
			}
			asked := l.server.Requests().Lists[configMaps]
			l.pass(e, 3*time.Hour)
			l.server.Await("a read", func() bool { return l.server.Requests().Lists[configMaps] > asked })
			l.stallWatches(false)
			l.await(h, 2*many) // all: they have changed
			l.put("b", "1")
			l.await(h, 2*many+1)
			l.pass(e, 3*time.Hour)
			l.await(h, 2*many+3) // long, soon: b
			stop()
			l.expectAbout(h, "long", "added b →1")
			l.expectAbout(h, "soon", "added b →1")
		})
	}
}
