package action

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/plugins/handler"
)

// fight has a rule that writes the same to an object again and again, and somebody else who changes
// the object in between.
type fight struct {
	*Breaker
	event   handler.Event
	version int
	log     bytes.Buffer
}

func newFight() *fight {
	f := &fight{event: *anEvent()}
	f.Breaker = NewBreaker(NewWrites(), time.Now, slog.New(slog.NewTextHandler(&f.log, nil)))
	return f
}

// next returns how often the action was undone, once it has taken effect on what somebody else made
// of the object.
func (f *fight) next(a handler.Action) int {
	f.version += 2
	f.event.ResourceVersion = fmt.Sprint(f.version)
	return f.note("r", a, f.version, f.version+1).times
}

// note has a rule bring an object from one version to another.
func (f *fight) note(rule string, a handler.Action, from, made int) reaction {
	return f.writes.reversals.note(f.now(), rule, a, effect{from: fmt.Sprint(from), made: fmt.Sprint(made)})
}

// A write that somebody else undoes at once slows its rule down, as rules that chase each other are.
func TestUndoneWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFight()
		for n := range 30 {
			f.version += 2
			f.event.ResourceVersion = fmt.Sprint(f.version)
			want := time.Duration(0)
			if n >= 9 { // the first write was not undone before
				want = min(time.Second<<(n-9), 5*time.Minute)
			}
			d := f.Delay(t.Context(), "r", &f.event)
			if d < want-want/10 || d > want+want/10 {
				t.Fatalf("before write %d: %v, want %v", n+1, d, want)
			}
			if other := f.Delay(t.Context(), "q", &f.event); other != 0 {
				t.Fatalf("another rule waits for %v", other)
			}
			time.Sleep(d)
			f.version -= 2
			if got := f.next(aPatch()); got != n {
				t.Fatalf("write %d was undone %d times", n+1, got)
			}
			if n == 11 {
				const want = "is undone: somebody else reverts what it writes to v1/pods shop/web-0, 11 times in a row; slowed, next in 8s"
				if got := f.Chasing("r", hasAll); got != want {
					t.Errorf("status is %q, want %q", got, want)
				}
				if got := f.Chasing("q", hasAll); got != "" {
					t.Errorf("status of another rule is %q", got)
				}
			}
		}
		time.Sleep(12 * time.Minute)
		if d, says := f.Delay(t.Context(), "r", &f.event), f.Chasing("r", hasAll); d != 0 || says != "" {
			t.Errorf("long after: %v, %q", d, says)
		}
		if n := f.next(aPatch()); n != 0 {
			t.Errorf("long after, it counts %d times", n)
		}
	})
}

// Somebody who undoes a write every few minutes is reported, and slows nobody.
func TestUndoneNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFight()
		for range 20 {
			f.next(aPatch())
			time.Sleep(3 * time.Minute)
		}
		if d := f.Delay(t.Context(), "r", &f.event); d != 0 {
			t.Errorf("it waits for %v", d)
		}
		if says := f.Chasing("r", hasAll); says != "is undone: somebody else reverts what it writes to v1/pods shop/web-0, 19 times in a row" {
			t.Errorf("status is %q", says)
		}
	})
}

// What is not undone does not count, however often a rule writes; nor does what takes turns with
// somebody else four times a second.
func TestWritesThatNobodyUndoes(t *testing.T) {
	for name, write := range map[string]func(f *fight, n int) int{
		"something else each time": func(f *fight, n int) int { return f.next(aPatchOf(n)) },
		"its own version again": func(f *fight, n int) int { // such as a JSON patch that appends
			return f.note("r", aPatch(), n, n+1).times
		},
		"other objects": func(f *fight, n int) int {
			a := aPatch()
			a.Name = fmt.Sprint(n)
			return f.next(a)
		},
		"other rules": func(f *fight, n int) int { return f.note(fmt.Sprint(n), aPatch(), 2*n, 2*n+1).times },
		"a deletion and a creation": func(f *fight, n int) int {
			gone, again := aPatch(), aPatch()
			gone.Verb, again.Verb = handler.ActionDelete, handler.ActionCreate
			at := fmt.Sprint(n)
			first := f.writes.reversals.note(f.now(), "r", gone, effect{from: at, made: DeletionOf(at)})
			second := f.writes.reversals.note(f.now(), "r", again, effect{made: fmt.Sprint(n + 1)})
			return max(first.times, second.times)
		},
		"two steps": func(f *fight, n int) int { // of which the second builds on the first
			return max(f.note("r", aPatchOf(n), 3*n, 3*n+1).times, f.note("r", aPatch(), 3*n+1, 3*n+2).times)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFight()
				for n := range 3 * maxReversals {
					if times := write(f, n); times > 0 {
						t.Fatalf("after %d writes, it counts %d times", n, times)
					}
					time.Sleep(time.Second / 4)
				}
				if n := len(f.writes.reversals.of); n > maxReversals || n != f.writes.reversals.oldest.Len() {
					t.Errorf("%d are remembered", n)
				}
				if f.Chasing("r", hasAll) != "" {
					t.Errorf("status is %q", f.Chasing("r", hasAll))
				}
			})
		})
	}
}

// aPatchOf is a patch that differs by n.
func aPatchOf(n int) handler.Action {
	a := aPatch()
	a.Patch = fmt.Appendf(nil, `{"n":%d}`, n)
	return a
}

// Two rules whose writes differ each time, and each of which makes the other write again, are found by
// how often they do so.
func TestWritesInTurns(t *testing.T) {
	for name, c := range map[string]struct {
		other  func(n int) string // before the n'th write
		onOurs bool
		per    time.Duration
		want   string
	}{
		"an unknown one": {
			other: func(int) string { return "" }, per: time.Second / 10,
			want: "takes turns: it and somebody else change v1/pods shop/web-0, 310 times within a minute; let when skip the other's changes",
		},
		"a known one, and one now and then": {
			other: func(n int) string { return []string{"kubelet", "informd/q", "informd/q"}[n%3] }, per: time.Second / 10,
			want: "takes turns: it and somebody else (informd/q) change v1/pods shop/web-0, 310 times within a minute; let when skip the other's changes",
		},
		"as often as is sensible": {other: func(int) string { return "" }, per: time.Second / 5},
		"a rule of this informd":  {other: func(int) string { return "informd/q" }, onOurs: true, per: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFight()
				write := func(n int) bool {
					time.Sleep(c.per)
					e := effect{from: fmt.Sprint(2*n + 1), made: fmt.Sprint(2*n + 2), onOurs: c.onOurs, other: c.other(n)}
					return f.writes.reversals.note(f.now(), "r", aPatchOf(n), e).isInTurns()
				}
				for n := range 310 {
					if is := write(n); is != (c.want != "" && n >= turnsOften) {
						t.Fatalf("after %d writes: %t", n+1, is)
					}
				}
				if got := f.Chasing("r", hasAll); got != c.want {
					t.Errorf("status is %q, want %q", got, c.want)
				}
				if d := f.Delay(t.Context(), "r", &f.event); d != 0 {
					t.Errorf("it waits for %v", d)
				}
				time.Sleep(turnsWithin + time.Second)
				if got := f.Chasing("r", hasAll); got != "" {
					t.Errorf("long after, status is %q", got)
				}
				if write(1000) {
					t.Error("long after, it still counts")
				}
			})
		})
	}
}

// Several writes of one answer are each undone.
func TestSeveralUndoneWrites(t *testing.T) {
	f := newFight()
	other := aPatch()
	other.Subresource = "status"
	for n := range 20 {
		if a, b := f.next(aPatch()), f.next(other); a != n || b != n {
			t.Fatalf("after %d: %d and %d", n, a, b)
		}
	}
}

// The executor finds such writes in the API server's answers, and logs them.
func TestUndoneWritesAreLogged(t *testing.T) {
	s := newServer(t)
	version := 4
	s.answers = []func(http.ResponseWriter){func(w http.ResponseWriter) {
		answers(200, podAt(fmt.Sprint(version+1)))(w)
	}}
	for range 12 {
		ev := anEvent()
		ev.ResourceVersion = fmt.Sprint(version)
		if err := s.Do(t.Context(), By{Rule: "r", Handler: "h"}, ev, []handler.Action{aPatch()}); err != nil {
			t.Fatal(err)
		}
		version += 2
	}
	const want = `msg="somebody else keeps undoing what the rule writes: another informd, or a controller?" rule=r verb=patch resource=v1/pods key=shop/web-0 times=8 unreported=0`
	if log := s.audit.String(); strings.Count(log, "somebody else keeps undoing") != 1 || !strings.Contains(log, want) {
		t.Errorf("the log is\n%s", log)
	}
}

// So it does if the writes differ. The API server says who else writes the object, for as long as that
// owns a field.
func TestWritesInTurnsAreLogged(t *testing.T) {
	s := newServer(t)
	version := 4
	s.answers = []func(http.ResponseWriter){func(w http.ResponseWriter) {
		managed := `"managedFields":[
			{"manager":"informd/r","time":"2026-01-02T03:00:09Z"},{"manager":"kubectl","time":"2026-01-02T03:00:01Z"},
			{"manager":"informd/q","time":"2026-01-02T03:00:08Z"}],"uid"`
		answers(200, strings.Replace(podAt(fmt.Sprint(version+1)), `"uid"`, managed, 1))(w)
	}}
	s.limits.rates.of = map[By]*rate.Limiter{{Handler: "h"}: rate.NewLimiter(rate.Inf, 0)}
	for n := range turnsOften + 10 {
		ev := anEvent()
		ev.ResourceVersion = fmt.Sprint(version)
		if err := s.Do(t.Context(), By{Rule: "r", Handler: "h"}, ev, []handler.Action{aPatchOf(n)}); err != nil {
			t.Fatal(err)
		}
		version += 2
	}
	const want = `level=WARN msg="a rule and somebody else change an object in turns: let when skip the other's changes" ` +
		`rule=r verb=patch resource=v1/pods key=shop/web-0 writes=301 within=1m0s other=informd/q unreported=0`
	if log := s.audit.String(); strings.Count(log, "in turns") != 1 || !strings.Contains(log, want) {
		t.Errorf("the log is\n%s", log[max(0, len(log)-4000):])
	}
}
