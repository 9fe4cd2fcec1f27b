package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// drain takes everything that can be taken, and returns it as text.
func drain(t *testing.T, q *Queue[string, change]) (states map[string][]int) {
	t.Helper()
	states = map[string][]int{}
	for {
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		item, ok := q.Take()
		if !ok {
			return states
		}
		states[item.Key] = append(states[item.Key], item.Value.state)
		q.Done(item.Key)
	}
}

func upTo(n int) (states []int) {
	for state := range n {
		states = append(states, state)
	}
	return states
}

func TestEveryContinuesInTheStore(t *testing.T) {
	d := newDisk(t)
	const states, maxItems = 1000, 100
	q := newChanges(Options[string, change]{Every: true, MaxItems: maxItems, Size: sizeOf, Store: d})
	for state := range states {
		q.Add("web", change{"updated", "1", state})
		q.Add("api", change{"updated", "2", state})
	}
	s := q.Stats()
	equal(t, "waiting", s.Waiting, maxItems)
	equal(t, "away", s.Away, 2*states-maxItems)
	equal(t, "records", len(d.all()), 2*states)
	d.write()
	equal(t, "taken", drain(t, q), map[string][]int{"web": upTo(states), "api": upTo(states)})
	equal(t, "stats", q.Stats(), Stats{})
	equal(t, "records", len(d.all()), 0)
	if d.loads > 2*(states/loadItems+2) {
		t.Errorf("%d loads", d.loads)
	}
}

// While a key has values in the store alone, new values stay behind them, and in memory if there is
// room.
func TestNewValuesBehindStoredOnes(t *testing.T) {
	d := newDisk(t)
	q := newChanges(Options[string, change]{Every: true, MaxItems: 2, Size: sizeOf, Store: d})
	for state := range 4 {
		q.Add("web", change{"updated", "1", state})
	}
	for state := range 2 {
		equal(t, "taken", take(t, q).state, state)
		q.Done("web")
	}
	takeNone(t, q)
	q.Add("web", change{"updated", "1", 4})
	equal(t, "stats", [2]int{q.Stats().Waiting, q.Stats().Away}, [2]int{1, 2})
	takeNone(t, q)
	q.Add("web", change{"updated", "1", 5})
	q.Add("web", change{"updated", "1", 6}) // memory is full: the values behind go away as well
	equal(t, "stats", [2]int{q.Stats().Waiting, q.Stats().Away}, [2]int{0, 5})
	d.noRoom = true
	q.Add("web", change{"updated", "1", 7})
	q.Add("web", change{"updated", "1", 8})
	q.Add("web", change{"updated", "1", 9}) // neither memory nor store has room: it is merged
	d.noRoom = false
	q.Add("web", change{"updated", "1", 10}) // the written record may not show the merge
	equal(t, "stats", [2]int{q.Stats().Waiting, q.Stats().Away}, [2]int{2, 5})
	d.write()
	equal(t, "taken", drain(t, q), map[string][]int{"web": {2, 3, 4, 5, 6, 7, 10}})
	equal(t, "stats", q.Stats(), Stats{Shortened: 2})
}

func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		o := Options[string, change]{Every: true, MaxItems: 3, Size: sizeOf, Store: d}
		q := newChanges(o)
		began := time.Now()
		for state := range 6 {
			q.Add("web", change{"updated", "1", state})
		}
		q.Retry("web", take(t, q), time.Hour)
		q.Redrive("web", change{"added", "1", 100}, time.Time{})
		q.Redrive("web", change{"added", "1", 101}, time.Time{})
		d.write()
		q.Close()

		time.Sleep(time.Minute)
		q = d.crash(o)
		defer q.Close()
		equal(t, "waiting", q.Stats().Waiting, 0)
		equal(t, "away", q.Stats().Away, 8)
		equal(t, "loads", d.loads, 0)
		q.Add("web", change{"updated", "1", 6})
		q.Redrive("api", change{"added", "2", 0}, time.Time{})
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		equal(t, "age", q.Stats().OldestAge, time.Minute)
		// as before, and the others wait with the value that is retried
		equal(t, "delayed", q.Stats().Delayed, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		var got []string
		for item, ok := q.Take(); ok; item, ok = q.Take() {
			got = append(got, fmt.Sprint(item.Key, item.Value.state, " ", item.Since.Sub(began)))
			q.Done(item.Key)
			if err := refill(q); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"api0 1m0s", "web100 0s", "web101 0s"}
		for state := range 6 {
			want = append(want, fmt.Sprint("web", state, " 0s"))
		}
		equal(t, "taken", got, append(want, "web6 1m0s"))
	})
}

// A restart changes neither the due time of a retry nor that of a value that merges with it.
func TestRestoredDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		o := Options[string, change]{Size: sizeOf, Store: d}
		q := newChanges(o)
		q.Add("web", change{"added", "1", 0})
		q.Retry("web", take(t, q), time.Hour)
		q.Add("web", change{"updated", "1", 1})
		d.write()
		q.Close()
		q = d.crash(o)
		defer q.Close()
		q.Add("web", change{"updated", "1", 2})
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		equal(t, "stats", q.Stats(), Stats{Waiting: 1, Bytes: sizeOf(change{state: 2}), Delayed: 1})
		equal(t, "records", len(d.all()), 1)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		takeNone(t, q)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "taken", take(t, q), change{"added", "1", 2})
	})
}

// Taking a value writes nothing. A value in flight when the process was killed may have been
// handled, so its deletion must not cancel it out.
func TestRestoredWhileInFlight(t *testing.T) {
	d := newDisk(t)
	o := Options[string, change]{Size: sizeOf, Store: d}
	q := newChanges(o)
	q.Add("web", change{"added", "1", 0})
	take(t, q)
	d.write()
	q = d.crash(o)
	q.Add("web", change{"deleted", "1", 1})
	if err := refill(q); err != nil {
		t.Fatal(err)
	}
	equal(t, "taken", take(t, q), change{"deleted", "1", 1})
	q.Done("web")
	equal(t, "records", len(d.all()), 0)
}

// If the mode changes, values that went away before are merged as they are loaded. Once all are
// loaded, they merge with the values behind them.
func TestLatestMergesStoredValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, Store: d})
		const states = loadItems + 8
		for state := range states {
			q.Add("web", change{"updated", "1", state})
		}
		d.write()
		q.Close()
		q = d.crash(Options[string, change]{Store: d})
		q.Add("web", change{"updated", "1", 1000})
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		equal(t, "the first load", take(t, q).state, loadItems-1)
		q.Retry("web", change{"updated", "1", loadItems - 1}, 0)
		equal(t, "again, without what is behind the rest", take(t, q).state, loadItems-1)
		q.Done("web")
		equal(t, "records", len(d.all()), 9)
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		equal(t, "the rest", take(t, q).state, 1000)
		q.Done("web")
		equal(t, "records", len(d.all()), 0)
		equal(t, "stats", q.Stats(), Stats{})
	})
}

// Values redriven before and after a restart come once each, in the order of the requests.
func TestRedriveBesideRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		o := Options[string, change]{Every: true, Store: d}
		q := newChanges(o)
		q.Add("web", change{"updated", "1", 5})
		q.Redrive("web", change{"updated", "1", 1}, time.Time{})
		d.write()
		q.Close()
		time.Sleep(time.Second)
		q = d.crash(o)
		q.Redrive("web", change{"updated", "1", 2}, time.Time{})
		d.write()
		equal(t, "at once", take(t, q).state, 2)
		q.Redrive("web", change{"updated", "1", 3}, time.Time{})
		d.write()
		q.Done("web") // the store does not write this
		equal(t, "taken", drain(t, q), map[string][]int{"web": {3, 1, 5}})
		equal(t, "records", len(d.all()), 0)
	})
}

func TestDoubtKeepsCancelledValues(t *testing.T) {
	d := newDisk(t)
	o := Options[string, change]{Store: d}
	q := newChanges(o)
	come := func() {
		q.Add("web", change{"added", "1", 1})
		q.Add("web", change{"deleted", "1", 2})
	}
	come()
	takeNone(t, q)
	q.Doubt(true)
	come()
	q.Doubt(false)
	equal(t, "taken", take(t, q), change{"deleted", "1", 2})
	q.Done("web")
	come()
	takeNone(t, q)
	equal(t, "records", len(d.all()), 0)
}

// Merge may cancel out a value due for a retry and one that came meanwhile. Then neither has a
// record.
func TestRetryThatIsCancelledOut(t *testing.T) {
	d := newDisk(t)
	q := New(Options[string, change]{
		Store: d, Merge: func(_, _ change, _ bool) (change, bool, bool) { return change{}, false, true },
	})
	q.Add("web", change{"added", "1", 1})
	c := take(t, q)
	q.Add("web", change{"deleted", "1", 2})
	q.Retry("web", c, 0)
	takeNone(t, q)
	equal(t, "records", len(d.all()), 0)
	equal(t, "stats", q.Stats(), Stats{})
}

func TestOldestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d})
		defer q.Close()
		age := func(what string, want time.Duration) {
			t.Helper()
			equal(t, "age: "+what, q.Stats().OldestAge, want*time.Second)
		}
		age("nothing", 0)
		for state := range 5 {
			q.Add("web", change{"updated", "1", state})
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		d.write()
		q.opts.MaxItems = 100
		age("the first waits", 10)
		take(t, q)
		age("the first is in flight", 10)
		q.Done("web")
		age("the second is away", 9)
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		age("it is loaded", 9)
		one := take(t, q)
		age("it is in flight", 9)
		q.Retry("web", one, time.Second)
		equal(t, "away again", q.Stats().Away, 3)
		age("it waits for a retry", 9)
		time.Sleep(time.Second)
		synctest.Wait()
		take(t, q)
		q.Done("web")
		age("the third is away", 9)
		equal(t, "taken", drain(t, q)["web"], []int{2, 3, 4})
		age("nothing", 0)

		q.opts.MaxItems = 1
		for state := range loadItems + 10 {
			q.Add("api", change{"updated", "1", state})
			time.Sleep(time.Second)
		}
		d.write()
		q.opts.MaxItems = 100
		for range 1 + loadItems { // the value in memory, and one load
			if err := refill(q); err != nil {
				t.Fatal(err)
			}
			take(t, q)
			q.Done("api")
		}
		age("the rest is away, and younger than the last that was loaded", 10)
	})
}
