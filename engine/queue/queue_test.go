package queue

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// change is a value as the engine has it: what happened to the object of that uid, and its latest
// state.
type change struct {
	kind  string // added, updated, deleted, synced
	uid   string
	state int
}

// mergeChanges merges by the rules that the engine uses.
func mergeChanges(waiting, newer change, sent bool) (change, bool, bool) {
	merged := change{waiting.kind, waiting.uid, newer.state}
	switch {
	case waiting.uid != newer.uid || waiting.kind == "deleted":
		return change{}, false, false
	case newer.kind == "deleted":
		merged.kind = "deleted"
		return merged, sent || waiting.kind == "updated", true
	case newer.kind == "added":
		return change{}, false, false
	}
	return merged, true, true
}

func newChanges(o Options[string, change]) *Queue[string, change] {
	o.Merge = mergeChanges
	return New(o)
}

func take(t *testing.T, q *Queue[string, change]) change {
	t.Helper()
	item, ok := q.Take()
	if !ok {
		t.Fatal("nothing is ready")
	}
	return item.Value
}

func takeNone(t *testing.T, q *Queue[string, change]) {
	t.Helper()
	if item, ok := q.Take(); ok {
		t.Fatalf("took %v, want nothing", item)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(change{})); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOneAtATimePerKey(t *testing.T) {
	q := newChanges(Options[string, change]{})
	q.Add("web", change{"added", "1", 1})
	equal(t, "first", take(t, q), change{"added", "1", 1})

	q.Add("web", change{"updated", "1", 2})
	takeNone(t, q) // web is in flight

	q.Done("web")
	equal(t, "second", take(t, q), change{"updated", "1", 2})
	q.Done("web")
	takeNone(t, q)
	equal(t, "stats", q.Stats(), Stats{})
}

func TestReadyKeysAreFirstInFirstOut(t *testing.T) {
	q := newChanges(Options[string, change]{Every: true})
	for state := range 3 {
		for _, key := range []string{"a", "b", "c"} {
			q.Add(key, change{"updated", key, state})
		}
	}
	var order []string
	for item, ok := q.Take(); ok; item, ok = q.Take() {
		order = append(order, item.Key)
		q.Done(item.Key)
	}
	equal(t, "order", strings.Join(order, ""), "abcabcabc")
}

func TestMergingOfWaitingValues(t *testing.T) {
	tests := []struct {
		name    string
		changes []change
		want    []change
	}{
		{"an addition goes on being one, with the newer state",
			[]change{{"added", "1", 1}, {"updated", "1", 2}, {"updated", "1", 3}}, []change{{"added", "1", 3}}},
		{"what came and went unseen never was",
			[]change{{"added", "1", 1}, {"deleted", "1", 2}}, nil},
		{"another object of that name does not hide that the first is gone",
			[]change{{"updated", "1", 1}, {"deleted", "1", 2}, {"added", "2", 3}, {"updated", "2", 4}},
			[]change{{"deleted", "1", 2}, {"added", "2", 4}}},
		{"the one between two others leaves no trace",
			[]change{{"deleted", "1", 1}, {"added", "2", 2}, {"deleted", "2", 3}, {"added", "3", 4}},
			[]change{{"deleted", "1", 1}, {"added", "3", 4}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := newChanges(Options[string, change]{})
			for _, c := range test.changes {
				q.Add("web", c)
			}
			equal(t, "waiting", q.Stats().Waiting, len(test.want))
			var got []change
			for item, ok := q.Take(); ok; item, ok = q.Take() {
				got = append(got, item.Value)
				q.Done("web")
			}
			equal(t, "taken", got, test.want)
		})
	}
}

// What a key holds is bounded however often its object is replaced: one value in flight, and two
// that wait.
func TestAtMostTwoWaitPerKey(t *testing.T) {
	for _, flight := range []string{"nothing", "in flight", "retried"} {
		t.Run(flight, func(t *testing.T) {
			q := newChanges(Options[string, change]{})
			q.Add("web", change{"updated", "0", 0})
			if flight != "nothing" {
				take(t, q)
			}
			if flight == "retried" {
				q.Retry("web", change{"updated", "0", 0}, time.Hour)
			}
			q.Add("web", change{"deleted", "0", 1})
			for life := 1; life < 100; life++ {
				uid := fmt.Sprint(life)
				for _, kind := range []string{"added", "updated", "synced", "deleted"} {
					q.Add("web", change{kind, uid, life})
					if waiting := q.Stats().Waiting; waiting > 2 {
						t.Fatalf("%d values wait after %s of life %d", waiting, kind, life)
					}
				}
			}
			q.Close()
		})
	}
}

// Values that cannot be merged are bounded as well, such as repeated deletions of one name in a
// rule that selects nothing else.
func TestMaxPerKey(t *testing.T) {
	synctest.Test(t, testMaxPerKey)
}

func testMaxPerKey(t *testing.T) {
	q := newChanges(Options[string, change]{MaxPerKey: 3})
	for life := range 10 {
		q.Add("web", change{"deleted", fmt.Sprint(life), life})
	}
	equal(t, "stats", q.Stats(), Stats{Waiting: 3, Dropped: 7})
	var lives []int
	for item, ok := q.Take(); ok; item, ok = q.Take() {
		lives = append(lives, item.Value.state)
		q.Done("web")
	}
	equal(t, "lives", lives, []int{7, 8, 9})
}

func TestEveryKeepsHistoryInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{Every: true})
		for state := range 5 {
			q.Add("web", change{"updated", "1", state})
		}
		q.Retry("web", take(t, q), time.Second)
		q.Add("web", change{"updated", "1", 5})
		time.Sleep(time.Second)
		synctest.Wait()
		for state := range 6 {
			equal(t, "taken", take(t, q), change{"updated", "1", state})
			q.Done("web")
		}
		equal(t, "stats", q.Stats(), Stats{})
	})
}

func TestEveryPastItsBounds(t *testing.T) {
	tests := []struct {
		name string
		o    Options[string, change]
	}{
		{"items", Options[string, change]{Every: true, MaxItems: 3}},
		{"bytes", Options[string, change]{Every: true, MaxBytes: 30, Size: func(change) int64 { return 10 }}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := newChanges(test.o)
			for state := range 10 {
				q.Add("web", change{"updated", "1", state})
			}
			// there is nothing to merge it with, so it is kept
			q.Add("api", change{"added", "2", 1})
			stats := q.Stats()
			equal(t, "waiting", stats.Waiting, 4)
			equal(t, "shortened", stats.Shortened, 7)

			var states []int
			for item, ok := q.Take(); ok; item, ok = q.Take() {
				if item.Key == "web" {
					states = append(states, item.Value.state)
				}
				q.Done(item.Key)
			}
			// the queue shortens history but keeps the last state
			equal(t, "states", states, []int{0, 1, 9})
			equal(t, "bytes", q.Stats().Bytes, 0)
		})
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Int32
		q := newChanges(Options[string, change]{Ready: func() { ready.Add(1) }})
		for _, key := range []string{"delayed", "in flight", "ready"} {
			q.Add(key, change{"added", key, 1})
		}
		q.Retry("delayed", take(t, q), time.Minute)
		take(t, q)
		q.Close()
		before := ready.Load()

		time.Sleep(time.Hour)
		synctest.Wait()
		q.Retry("in flight", change{"added", "1", 1}, 0)
		q.Redrive("redriven", change{"added", "1", 1}, time.Time{})
		q.Add("new", change{"added", "1", 1})
		takeNone(t, q)
		equal(t, "stats", q.Stats(), Stats{})
		equal(t, "times that something became ready", ready.Load(), before)
	})
}

// The queue gives back the memory of a burst once it is over, even while a few keys are never done.
func TestMemoryReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		const burst = 100_000
		for i := range burst {
			q.Add(fmt.Sprint(i), change{"added", "1", i})
		}
		for item, ok := q.Take(); ok; item, ok = q.Take() {
			q.Retry(item.Key, item.Value, time.Second)
		}
		for range 2 {
			time.Sleep(time.Second)
			synctest.Wait()
			for item, ok := q.Take(); ok; item, ok = q.Take() {
				if item.Value.state < 3 {
					q.Retry(item.Key, item.Value, time.Second)
				} else {
					q.Done(item.Key)
				}
			}
		}
		equal(t, "delayed", q.Stats().Delayed, 3)
		if q.keys.peak > 2*minShrink || q.delays.keys.Cap() > 2*minShrink {
			t.Errorf("3 keys hold a map that had %d and a heap of %d", q.keys.peak, q.delays.keys.Cap())
		}
		q.Close()
	})
}

// Producers and consumers run at once. The values of a key come in order and never overlap, and the
// last one arrives.
func TestConcurrentUse(t *testing.T) {
	const keys, states = 8, 500
	wake := make(chan struct{}, 1) // one wake-up is enough: a consumer takes everything
	q := newChanges(Options[string, change]{Ready: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	var producers, consumers sync.WaitGroup
	for k := range keys {
		producers.Go(func() {
			key := fmt.Sprint(k)
			for state := range states {
				q.Add(key, change{"updated", key, state + 1})
			}
		})
	}
	var held, last [keys]atomic.Int64
	var finals sync.WaitGroup
	finals.Add(keys)
	finished := make(chan struct{})
	for range 4 {
		consumers.Go(func() {
			for {
				item, ok := q.Take()
				if !ok {
					select {
					case <-wake:
						continue
					case <-finished:
						return
					}
				}
				k, state := int(item.Key[0]-'0'), int64(item.Value.state)
				if held[k].Add(1) != 1 {
					t.Errorf("key %d is in flight twice", k)
				}
				before := last[k].Swap(state)
				if before > state {
					t.Errorf("key %d: %d after %d", k, state, before)
				}
				held[k].Add(-1)
				if state%7 == 0 && before != state {
					q.Retry(item.Key, item.Value, time.Microsecond)
					continue
				}
				q.Done(item.Key)
				if state == states {
					finals.Done()
				}
			}
		})
	}
	producers.Wait()
	finals.Wait()
	close(finished)
	consumers.Wait()
	equal(t, "stats", q.Stats(), Stats{})
}

// A user may take the key that became ready last, or any.
func TestTakeOutOfTurn(t *testing.T) {
	q := New(Options[int, int]{})
	if _, ok := q.TakeAny(); ok {
		t.Error("something of an empty queue")
	}
	if _, ok := q.TakeNewest(); ok {
		t.Error("something of an empty queue")
	}
	const keys = 50
	for key := range keys {
		q.Add(key, key)
	}
	if item, ok := q.TakeNewest(); !ok || item.Key != keys-1 {
		t.Errorf("the newest is %d", item.Key)
	}
	seen := map[int]bool{}
	inOrder := true
	for last := -1; ; {
		item, ok := q.TakeAny()
		if !ok {
			break
		}
		inOrder = inOrder && item.Key > last
		last = item.Key
		seen[item.Key] = true
	}
	if len(seen) != keys-1 || inOrder {
		t.Errorf("%d keys, want %d; in order: %v", len(seen), keys-1, inOrder)
	}
	q.Done(3)
	q.Add(3, 3)
	if item, ok := q.Take(); !ok || item.Key != 3 {
		t.Errorf("after its turn: %d", item.Key)
	}
}

// Values that are older than their call count from then on, in whatever order they come.
func TestOldestOfOlderValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		defer q.Close()
		time.Sleep(time.Hour)
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		oldest := func(want time.Duration) {
			t.Helper()
			equal(t, "age", q.Stats().OldestAge, want)
		}
		q.Add("a", change{"added", "1", 1})
		oldest(0)
		q.AddSince("b", change{"added", "1", 1}, ago(-time.Minute)) // a clock was set
		oldest(0)
		q.AddSince("c", change{"added", "1", 1}, ago(20*time.Second))
		q.AddSince("d", change{"added", "1", 1}, ago(10*time.Second))
		q.Redrive("e", change{"added", "1", 1}, ago(30*time.Second))
		q.AddSince("f", change{"added", "1", 1}, ago(15*time.Second))
		for range 6 {
			item, _ := q.Take()
			switch item.Key {
			case "c":
				oldest(30 * time.Second)
				equal(t, "since", item.Since, ago(20*time.Second))
			case "e":
				oldest(30 * time.Second)
			}
			q.Done(item.Key)
		}
		oldest(0)
	})
}
