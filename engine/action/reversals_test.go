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
	return f.writes.reversals.note(f.now(), "r", a, fmt.Sprint(f.version), fmt.Sprint(f.version+1))
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
				if got := f.Chasing("r"); got != want {
					t.Errorf("status is %q, want %q", got, want)
				}
				if got := f.Chasing("q"); got != "" {
					t.Errorf("status of another rule is %q", got)
				}
			}
		}
		time.Sleep(12 * time.Minute)
		if d, says := f.Delay(t.Context(), "r", &f.event), f.Chasing("r"); d != 0 || says != "" {
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
		if says := f.Chasing("r"); says != "is undone: somebody else reverts what it writes to v1/pods shop/web-0, 19 times in a row" {
			t.Errorf("status is %q", says)
		}
	})
}

// What is not undone does not count, however often a rule writes.
func TestWritesThatNobodyUndoes(t *testing.T) {
	patch := func(text string) handler.Action {
		a := aPatch()
		a.Patch = []byte(text)
		return a
	}
	for name, write := range map[string]func(f *fight, n int) int{
		"something else each time": func(f *fight, n int) int { return f.next(patch(fmt.Sprintf(`{"n":%d}`, n))) },
		"its own version again": func(f *fight, n int) int { // such as a JSON patch that appends
			return f.writes.reversals.note(f.now(), "r", aPatch(), fmt.Sprint(n), fmt.Sprint(n+1))
		},
		"other objects": func(f *fight, n int) int {
			a := aPatch()
			a.Name = fmt.Sprint(n)
			return f.next(a)
		},
		"other rules": func(f *fight, n int) int {
			return f.writes.reversals.note(f.now(), fmt.Sprint(n), aPatch(), fmt.Sprint(2*n), fmt.Sprint(2*n+1))
		},
		"a deletion and a creation": func(f *fight, n int) int {
			gone, again := aPatch(), aPatch()
			gone.Verb, again.Verb = handler.ActionDelete, handler.ActionCreate
			first := f.writes.reversals.note(f.now(), "r", gone, fmt.Sprint(n), DeletionOf(fmt.Sprint(n)))
			return max(first, f.writes.reversals.note(f.now(), "r", again, "", fmt.Sprint(n+1)))
		},
		"two steps": func(f *fight, n int) int { // of which the second builds on the first
			first := f.writes.reversals.note(f.now(), "r", patch(fmt.Sprint(n)), fmt.Sprint(3*n), fmt.Sprint(3*n+1))
			return max(first, f.writes.reversals.note(f.now(), "r", aPatch(), fmt.Sprint(3*n+1), fmt.Sprint(3*n+2)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFight()
			for n := range 3 * maxReversals {
				if times := write(f, n); times > 0 {
					t.Fatalf("after %d writes, it counts %d times", n, times)
				}
			}
			if n := len(f.writes.reversals.of); n > maxReversals || n != f.writes.reversals.oldest.Len() {
				t.Errorf("%d are remembered", n)
			}
			if f.Chasing("r") != "" {
				t.Errorf("status is %q", f.Chasing("r"))
			}
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

// The executor finds and logs it by what the API server answers.
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
