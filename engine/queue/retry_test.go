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

// A delay that yields ends early for a newer value, whether that comes during the delay or came
// while the value was in flight. It takes at least a while, and Item says when it would have ended.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newChanges(Options[string, change]{})
		begun := time.Now()
		passed := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		takeAfter := func(what string, state int, left time.Duration) {
			t.Helper()
			item, ok := q.Take()
			if !ok {
				t.Fatalf("%s: nothing is ready after %v", what, time.Since(begun))
			}
			equal(t, what, item.Value.state, state)
			if left == 0 {
				equal(t, what+": until", item.Until, time.Time{})
			} else {
				equal(t, what+": left", time.Until(item.Until), left)
			}
		}
		q.Add("web", change{"updated", "1", 1})
		c := take(t, q)
		q.Yield("web", c, time.Minute, time.Second)
		takeNone(t, q)
		passed(30 * time.Second)
		q.Add("web", change{"updated", "1", 2})
		takeAfter("at once", 2, 30*time.Second)

		q.Yield("web", change{"updated", "1", 2}, 30*time.Second, time.Second)
		passed(time.Second / 2)
		q.Add("web", change{"updated", "1", 3})
		q.Add("web", change{"updated", "1", 4})
		takeNone(t, q)
		equal(t, "delayed", q.Stats().Delayed, 1)
		held, _ := q.Look("web")
		equal(t, "due", time.Until(held.Due), time.Second/2)
		passed(time.Second / 2)
		takeAfter("once a second", 4, 29*time.Second)

		q.Add("web", change{"updated", "1", 5})
		q.Yield("web", change{"updated", "1", 4}, 29*time.Second, time.Second)
		takeNone(t, q)
		passed(time.Second)
		takeAfter("came in flight", 5, 28*time.Second)

		q.Postpone("web", change{"updated", "1", 5}, 5*time.Second)
		q.Add("web", change{"updated", "1", 6})
		takeNone(t, q)
		passed(5 * time.Second)
		takeAfter("postponed", 6, 23*time.Second)

		q.Yield("web", change{"updated", "1", 6}, time.Second/2, time.Second)
		q.Add("web", change{"updated", "1", 7})
		passed(time.Second / 2)
		takeAfter("a delay that is shorter", 7, 0)

		q.Yield("web", change{"updated", "1", 7}, time.Minute, time.Second)
		passed(time.Minute)
		q.Add("web", change{"updated", "1", 8})
		takeAfter("not early", 8, 0)
		q.Postpone("web", change{"updated", "1", 8}, time.Minute)
		q.Add("web", change{"updated", "1", 9})
		takeNone(t, q)
		passed(time.Minute)
		takeAfter("postponed alone", 9, 0)

		q.Yield("web", change{"updated", "1", 9}, time.Minute, time.Second)
		q.Add("web", change{"updated", "1", 10})
		equal(t, "hastened", q.Hasten(func(string) bool { return true }), 1)
		takeAfter("on request", 10, 0)

		q.Retry("web", change{"updated", "1", 10}, time.Minute)
		passed(2 * time.Second)
		q.Add("web", change{"updated", "1", 11})
		takeNone(t, q)
		q.Close()
	})
}

// A delay does not end early for what cannot be merged into its value, and for what does not renew
// that.
func TestYieldToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options[string, change]{Renews: func(waiting, merged change) bool { return merged.state > waiting.state }}
		q := newChanges(o)
		q.Add("gone", change{"deleted", "1", 1})
		q.Yield("gone", take(t, q), time.Minute, 0)
		q.Add("gone", change{"added", "2", 2})
		q.Add("gone", change{"updated", "2", 3})
		q.Add("same", change{"updated", "1", 5})
		c := take(t, q)
		q.Add("same", change{"updated", "1", 5})
		q.Yield("same", c, time.Minute, 0)
		q.Add("same", change{"updated", "1", 5})
		q.Add("again", change{"updated", "1", 1})
		take(t, q)
		q.Redrive("again", change{"updated", "1", 0}, time.Time{})
		q.Yield("again", change{"updated", "1", 1}, time.Minute, 0)
		q.Add("again", change{"updated", "1", 2})
		takeNone(t, q)
		q.Add("same", change{"updated", "1", 6})
		equal(t, "renewed", take(t, q), change{"updated", "1", 6})
		q.Close()

		q = newChanges(Options[string, change]{Every: true})
		q.Add("web", change{"updated", "1", 1})
		q.Yield("web", take(t, q), time.Minute, 0)
		q.Add("web", change{"updated", "1", 2})
		takeNone(t, q)
		q.Close()
	})
}

// A delay yields after a restart too, to what came before and to what comes after the queue has
// loaded its value.
func TestYieldAfterARestart(t *testing.T) {
	for _, isLoaded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk(t)
			o := Options[string, change]{Store: d, MaxDelay: time.Hour}
			q := newChanges(o)
			for _, key := range []string{"idle", "web"} {
				q.Add(key, change{"updated", "1", 1})
				q.Yield(key, take(t, q), time.Minute, time.Second)
			}
			q.Add("late", change{"updated", "1", 1})
			q.Retry("late", take(t, q), time.Minute)
			q.Close()
			d.write()
			q = d.crash(o)
			load := func() {
				if err := refill(q); err != nil {
					t.Fatal(err)
				}
			}
			if isLoaded {
				load()
			}
			q.Add("web", change{"updated", "1", 2})
			q.Add("late", change{"updated", "1", 2})
			load()
			item, _ := q.Take()
			equal(t, "first", item.Value, change{"updated", "1", 2})
			equal(t, "key", item.Key, "web")
			equal(t, "until", time.Until(item.Until), time.Minute)
			takeNone(t, q)
			q.Yield("web", item.Value, time.Minute, time.Second)
			q.Add("web", change{"updated", "1", 3})
			d.write()
			for _, r := range d.all() {
				if want := r.key == "idle"; r.Yields != want {
					t.Errorf("%s is recorded as yielding: %v, want %v", r.key, r.Yields, want)
				}
			}
			q.Close()
		})
	}
}
