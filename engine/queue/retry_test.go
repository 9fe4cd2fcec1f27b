package queue

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Int32
		q := newChanges(Options[string, change]{Ready: func() { ready.Add(1) }})
		start := time.Now()
		q.Add("web", change{"added", "1", 1})
		q.Retry("web", take(t, q), time.Minute)
		takeNone(t, q)

		// A newer change neither overtakes the value due for a retry nor brings it forward.
		time.Sleep(30 * time.Second)
		q.Add("web", change{"updated", "1", 2})
		takeNone(t, q)
		equal(t, "stats", q.Stats(), Stats{Waiting: 1, Delayed: 1, OldestAge: 30 * time.Second})
		equal(t, "times that something became ready", ready.Load(), 1)

		time.Sleep(30 * time.Second)
		synctest.Wait()
		equal(t, "times that something became ready", ready.Load(), 2)
		item, _ := q.Take()
		equal(t, "item", item, Item[string, change]{Key: "web", Value: change{"added", "1", 2}, Since: start, N: item.N})
		q.Done("web")
		equal(t, "stats", q.Stats(), Stats{})
	})
}

func TestRetryMergesWithNewerValues(t *testing.T) {
	q := newChanges(Options[string, change]{})
	q.Add("web", change{"added", "1", 1})
	c := take(t, q)
	q.Add("web", change{"deleted", "1", 2})
	q.Add("web", change{"added", "2", 3})
	q.Retry("web", c, 0)
	// The addition was handed out, so its handler may know the object, and the deletion stays.
	equal(t, "waiting", q.Stats().Waiting, 2)
	equal(t, "first", take(t, q), change{"deleted", "1", 2})
	q.Done("web")
	equal(t, "second", take(t, q), change{"added", "2", 3})
}

// A postponed value was never handed out, so a change that undoes it leaves nothing. It still keeps
// its place and merges.
func TestPostpone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		q.Add("web", change{"added", "1", 1})
		c := take(t, q)
		q.Add("web", change{"updated", "1", 2})
		q.Postpone("web", c, time.Minute)
		equal(t, "stats", q.Stats(), Stats{Waiting: 1, Delayed: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		c = take(t, q)
		equal(t, "merged", c, change{"added", "1", 2})
		q.Add("web", change{"deleted", "1", 3})
		q.Postpone("web", c, time.Minute)
		equal(t, "never heard of", q.Stats(), Stats{})
		q.Postpone("web", c, 0) // it is not in flight
		equal(t, "stats", q.Stats(), Stats{})
	})
}

// Under Every too, Shorten merges what waits behind a value into it.
func TestShorten(t *testing.T) {
	q := newChanges(Options[string, change]{Every: true})
	for state := range 3 {
		q.Add("web", change{"updated", "1", state})
	}
	q.Shorten("web", take(t, q), 0)
	equal(t, "merged", take(t, q), change{"updated", "1", 2})
	equal(t, "shortened", q.Stats().Shortened, 2)
	q.Done("web")
	takeNone(t, q)
}

// A restart finds what the value in flight was rewritten to, even if it is then postponed.
func TestRewrite(t *testing.T) {
	d := newDisk(t)
	q := newChanges(Options[string, change]{Store: d})
	recorded := func() (all []change) {
		for _, r := range d.all() {
			all = append(all, r.Value)
		}
		return all
	}
	q.Add("web", change{"added", "1", 1})
	q.Rewrite("web", change{"added", "1", 9}) // it is not in flight
	equal(t, "waiting", recorded(), []change{{"added", "1", 1}})
	take(t, q)
	q.Rewrite("web", change{"added", "1", 2})
	equal(t, "in flight", recorded(), []change{{"added", "1", 2}})
	q.Postpone("web", change{"added", "1", 2}, 0)
	equal(t, "put back", recorded(), []change{{"added", "1", 2}})
	equal(t, "taken", take(t, q), change{"added", "1", 2})
	q.Done("web")
	equal(t, "done", recorded(), nil)
}

func TestRetriesOfOneKeyDoNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		for i, after := range []time.Duration{3, 1, 2, 1} {
			key := fmt.Sprint(i)
			q.Add(key, change{"added", key, i})
			take(t, q)
			q.Retry(key, change{"added", key, i}, after*time.Second)
		}
		q.Add("other", change{"added", "o", 9})
		equal(t, "at once", take(t, q).uid, "o")

		var order []string
		for range 3 {
			time.Sleep(time.Second)
			synctest.Wait()
			for item, ok := q.Take(); ok; item, ok = q.Take() {
				order = append(order, item.Key)
			}
			order = append(order, "|")
		}
		equal(t, "order", strings.Join(order, " "), "1 3 | 2 | 0 |")
	})
}

func TestRedrivenValueGoesFirstUnmerged(t *testing.T) {
	q := newChanges(Options[string, change]{})
	q.Add("web", change{"updated", "1", 7})
	seven := take(t, q)
	q.Redrive("web", change{"added", "1", 1}, time.Time{}) // given up long ago
	q.Add("web", change{"updated", "1", 8})
	q.Retry("web", seven, 0)

	equal(t, "first", take(t, q), change{"added", "1", 1})
	q.Retry("web", change{"added", "1", 1}, 0)
	equal(t, "again", take(t, q), change{"added", "1", 1})
	q.Done("web")
	equal(t, "then", take(t, q), change{"updated", "1", 8})
	q.Done("web")
	equal(t, "stats", q.Stats(), Stats{})
}

func TestDoneAndRetryOfIdleKeys(t *testing.T) {
	q := newChanges(Options[string, change]{})
	q.Done("web")
	q.Retry("web", change{"added", "1", 1}, 0)
	equal(t, "stats", q.Stats(), Stats{})
	q.Add("web", change{"added", "1", 1})
	q.Done("web")
	equal(t, "taken", take(t, q), change{"added", "1", 1})
}

// Hasten ends the delays of chosen keys, in the order in which they were due. The others wait on.
func TestHasten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		for i, key := range []string{"a", "b", "c", "d"} {
			q.Add(key, change{"added", key, 1})
			take(t, q)
			q.Retry(key, change{"added", key, 1}, time.Duration(9-i)*time.Minute)
		}
		takeNone(t, q)
		if n := q.Hasten(func(key string) bool { return key == "x" }); n != 0 {
			t.Errorf("hastened %d, want none", n)
		}
		if n := q.Hasten(func(key string) bool { return key == "a" || key == "c" }); n != 2 {
			t.Errorf("hastened %d, want 2", n)
		}
		equal(t, "first", take(t, q), change{"added", "c", 1})
		equal(t, "second", take(t, q), change{"added", "a", 1})
		takeNone(t, q)
		equal(t, "delayed", len(q.Delayed()), 2)
		time.Sleep(6*time.Minute + time.Second)
		synctest.Wait()
		equal(t, "in its time", take(t, q), change{"added", "d", 1})
		takeNone(t, q)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "the last", take(t, q), change{"added", "b", 1})
		q.Close()
	})
}
