package dispatch

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
)

// writes is an Own that knows the writes that a test adds.
type writes struct {
	mu      sync.Mutex
	mine    map[string]bool     // versions
	writing map[string][]uint64 // by name: their numbers
	begun   uint64
	asked   int
}

func newWrites() *writes { return &writes{mine: map[string]bool{}, writing: map[string][]uint64{}} }

func (w *writes) Mine(_ delta.Key, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.mine[version]
}

func (w *writes) Begun() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

func (w *writes) Writing(key delta.Key, first uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.writing[key.Name], func(n uint64) bool { return n <= first })
}

func (w *writes) begin(name string) (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	w.writing[name] = append(w.writing[name], w.begun)
	return w.begun
}

// end ends the oldest write to an object, which made the given versions.
func (w *writes) end(name string, versions ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range versions {
		w.mine[fmt.Sprint(v)] = true
	}
	w.writing[name] = w.writing[name][1:]
}

// versioned returns the match with the version of its object as Version.
func versioned(m rule.Match) rule.Match {
	m.Version = m.Delta.Object.ResourceVersion()
	return m
}

// received runs f with a lane of a rule that writes, and returns the ids of the events that the handler
// received.
func received(t *testing.T, o LaneOptions, f func(w *writes, l *Lane)) (ids []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWrites()
		var h recorder
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		o.Own = w
		l := d.Lane("r", pods, o)
		start(t, d)
		f(w, l)
		pass(time.Minute)
		equal(t, "waiting", l.Stats().Waiting+l.Stats().InFlight, 0)
		equal(t, "unknown", len(l.shared.owned.unknown), 0)
		ids = h.ids()
	})
	return ids
}

// If the response comes before the change itself, it is known at once who made the change.
func TestOwnChangeIsDropped(t *testing.T) {
	got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
		w.begin("web")
		w.end("web", 2, 5, 6)
		for _, m := range []rule.Match{updated("web", "u", 2), updated("web", "u", 3), deleted("web", "u", 5), added("web", "v", 6)} {
			l.Offer(versioned(m))
			synctest.Wait()
		}
		l.Offer(synced("web", "v", 6, 60)) // the rule made none of these
		equal(t, "own", l.OwnChanges(), 3)
	})
	equal(t, "received", got, []string{"r/u/updated/3", "r/v/synced/6/60"})
}

// If the rule itself deletes an object, its waiting changes are not delivered as if the object
// still existed.
func TestOwnDeletionDropsWaitingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []rule.Match // the deletion
		want          []string
	}{
		"an object that was never delivered":  {before: []rule.Match{added("web", "u", 2)}},
		"an object that was delivered before": {before: []rule.Match{updated("web", "u", 2)}, want: []string{"r/u/deleted/9"}},
		"nothing":                             {},
		"the rule's own":                      {before: []rule.Match{updated("web", "u", 8)}},
		"another object's before":             {before: []rule.Match{updated("web", "t", 2)}, want: []string{"r/t/updated/2"}},
		"another object's after it":           {after: []rule.Match{added("web", "v", 10)}, want: []string{"r/v/added/10"}},
		"all": {before: []rule.Match{updated("web", "u", 2)}, after: []rule.Match{added("web", "v", 10)},
			want: []string{"r/u/deleted/9", "r/v/added/10"}},
	} {
		for _, late := range []bool{false, true} {
			got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
				l.Pause()
				w.begin("web")
				if !late {
					w.end("web", 8, 9)
				}
				for _, m := range append(append(c.before, deleted("web", "u", 9)), c.after...) {
					l.Offer(versioned(m))
				}
				if late {
					w.end("web", 8, 9)
				}
				l.Resume()
			})
			equal(t, fmt.Sprintf("%s, late %v", name, late), got, c.want)
		}
	}
}

// Changes that come while the rule writes wait, in order, and only those of that object. Then own
// changes vanish and others merge.
func TestUnknownChangesWait(t *testing.T) {
	for _, every := range []bool{false, true} {
		got := received(t, LaneOptions{Every: every}, func(w *writes, l *Lane) {
			w.begin("web")
			for v := 2; v < 6; v++ {
				l.Offer(versioned(updated("web", "u", v)))
			}
			l.Offer(versioned(updated("db", "d", 1)))
			pass(10 * time.Second)
			equal(t, "waiting", l.Stats().Waiting, 4)
			w.end("web", 3)
			l.Offer(versioned(updated("web", "u", 6)))
			pass(time.Minute)
			equal(t, "own", l.OwnChanges(), 1)
		})
		want := []string{"r/d/updated/1", "r/u/updated/6"}
		if every {
			want = []string{"r/d/updated/1", "r/u/updated/2", "r/u/updated/4", "r/u/updated/5", "r/u/updated/6"}
		}
		equal(t, "received", got, want)
	}
}

// A write that changes nothing, or fails, makes no change the rule's own.
func TestUnknownForeignChange(t *testing.T) {
	got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
		w.begin("web")
		l.Offer(versioned(added("web", "u", 1)))
		pass(time.Second)
		l.Offer(versioned(deleted("web", "u", 2)))
		l.Offer(versioned(added("web", "v", 3)))
		w.end("web")
	})
	equal(t, "received: the first never was", got, []string{"r/v/added/3"})
}

// A change waits only for the writes that may have made it. So a rule that writes all the time
// still receives others' changes.
func TestUnknownChangesWaitForWritesBeforeThem(t *testing.T) {
	got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
		w.begin("web")
		l.Offer(versioned(updated("web", "u", 2))) // somebody else's
		w.begin("web")
		// made by the second write, whose response is late
		l.Offer(versioned(updated("web", "u", 3)))
		w.end("web")
		pass(time.Second)
		equal(t, "waiting", l.Stats().Waiting, 1)
		w.begin("web")
		w.end("web", 3)
		pass(time.Second)
		equal(t, "waiting", l.Stats().Waiting, 0)
		w.end("web")
	})
	equal(t, "received", got, []string{"r/u/updated/2"})
}

// Changes that wait, or are in flight, when the rule begins to write stay what they were.
func TestOrdinaryChangeBeforeUnknownOnes(t *testing.T) {
	got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
		l.Hold(true)
		l.Offer(versioned(added("web", "u", 1)))
		w.begin("web")
		l.Offer(versioned(updated("web", "u", 2)))
		l.Offer(versioned(updated("web", "u", 3)))
		equal(t, "waiting", l.Stats().Waiting, 3)
		w.end("web", 2, 3)
		l.Offer(versioned(updated("web", "u", 4))) // this replaces 3, and 2 is still there
		equal(t, "waiting", l.Stats().Waiting, 3)
		l.Hold(false)
	})
	equal(t, "received", got, []string{"r/u/added/1", "r/u/updated/4"})
}

// The number of unmerged changes that wait for one object is bounded. Further ones merge, and may
// be delivered.
func TestUnknownChangesAreBounded(t *testing.T) {
	got := received(t, LaneOptions{}, func(w *writes, l *Lane) {
		w.begin("web")
		for v := range 500 {
			l.Offer(versioned(updated("web", "u", v+1)))
			if v%10 == 0 {
				pass(time.Millisecond)
			}
		}
		if waiting := l.Stats().Waiting; waiting > maxUnknown+1 {
			t.Errorf("%d changes wait", waiting)
		}
		w.end("web", 1, 2, 3)
	})
	equal(t, "received", got, []string{"r/u/updated/500"})
}

// A lane without Own does not look at who made a change.
func TestLaneWithoutOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		l.Offer(versioned(added("web", "u", 1)))
		l.Offer(versioned(updated("web", "u", 2)))
		start(t, d)
		synctest.Wait()
		equal(t, "received", h.ids(), []string{"r/u/added/2"})
	})
}

// After a restart, Own may not know any more who made a change. Then it is somebody else's.
func TestUnknownChangesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newShelf(t), newWrites()
		var h recorder
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{Own: w})
		stop := start(t, d)
		w.begin("web")
		s.offer(l, versioned(updated("web", "u", 2)), versioned(updated("web", "u", 3)))
		pass(time.Second)
		s.write()
		next := s.kill()
		l.Close()
		stop()
		equal(t, "received", h.ids(), nil)
		d, l = recorded(next, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{Own: newWrites()})
		start(t, d)
		pass(time.Minute)
		equal(t, "received after the restart", h.ids(), []string{"r/u/updated/3"})
		equal(t, "own", l.OwnChanges(), 0)
	})
}

// An undecided change is decided only once it is known who made it.
func TestUnknownAndUndecided(t *testing.T) {
	decided := 0
	got := received(t, preparer{decide: func(d delta.Delta) (rule.Match, bool) {
		decided++
		return rule.Match{Delta: d}, true
	}}.lane(LaneOptions{}), func(w *writes, l *Lane) {
		w.begin("web")
		for v := 1; v < 4; v++ {
			m := versioned(updated("web", "u", v))
			m.Undecided = true
			l.Offer(m)
		}
		w.end("web", 1, 3)
	})
	equal(t, "received", got, []string{"r/u/updated/2"})
	equal(t, "decided", decided, 1)
}

// A change does not occupy a slot of the handler while nobody knows who made it.
func TestUnknownChangesTakeNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWrites()
		var h recorder
		d := New(Recipient{Handler: &h, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{Own: w})
		start(t, d)
		for n := range 10 {
			w.begin(fmt.Sprint(n))
			l.Offer(versioned(updated(fmt.Sprint(n), fmt.Sprint(n), 1)))
		}
		pass(time.Minute)
		w.mu.Lock()
		if w.asked > 10*300 { // four times a second for each, in the end
			t.Errorf("asked %d times in a minute", w.asked)
		}
		w.mu.Unlock()
		l.Offer(versioned(updated("web", "u", 1)))
		synctest.Wait()
		equal(t, "received", h.ids(), []string{"r/u/updated/1"})
		for n := range 10 {
			w.end(fmt.Sprint(n))
		}
	})
}
