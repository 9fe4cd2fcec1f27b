package queue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// drain takes all that can be taken, and says what that was.
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

func TestEveryGoesOnInTheStore(t *testing.T) {
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

// What comes while a key has values in the store alone stays behind them, and in memory if there is room.
func TestWhatComesBehindWhatIsAway(t *testing.T) {
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
	q.Add("web", change{"updated", "1", 6}) // there is no memory for it: what is behind goes as well
	equal(t, "stats", [2]int{q.Stats().Waiting, q.Stats().Away}, [2]int{0, 5})
	d.noRoom = true
	q.Add("web", change{"updated", "1", 7})
	q.Add("web", change{"updated", "1", 8})
	q.Add("web", change{"updated", "1", 9}) // there is room nowhere: it is merged
	d.noRoom = false
	q.Add("web", change{"updated", "1", 10}) // what was merged cannot be told from what is written
	equal(t, "stats", [2]int{q.Stats().Waiting, q.Stats().Away}, [2]int{2, 5})
	d.write()
	equal(t, "taken", drain(t, q), map[string][]int{"web": {2, 3, 4, 5, 6, 7, 10}})
	equal(t, "stats", q.Stats(), Stats{Shortened: 2})
}

func TestWhatIsNotWrittenYetIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hungry := 0
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d, Hungry: func() { hungry++ }})
		for state := range 3 {
			q.Add("web", change{"updated", "1", state})
		}
		take(t, q)
		q.Done("web")
		before := hungry
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		takeNone(t, q)
		equal(t, "loads", d.loads, 1)
		d.write()
		time.Sleep(minLoadDelay)
		synctest.Wait()
		if hungry == before {
			t.Fatal("nobody was told that it can be tried again")
		}
		equal(t, "taken", drain(t, q), map[string][]int{"web": {1, 2}})
	})
}

func TestWhatTheStoreFailsToLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d})
		for state := range 3 {
			q.Add("web", change{"updated", "1", state})
		}
		take(t, q)
		q.Done("web")
		d.write()
		d.failing = true
		for range 1000 { // it is never given up
			if _, err := q.Refill(nothing, nothing); err == nil && d.loads == 0 {
				t.Fatal("no error")
			}
			time.Sleep(maxLoadDelay)
			synctest.Wait()
		}
		d.failing = false
		time.Sleep(maxLoadDelay)
		synctest.Wait()
		equal(t, "taken", drain(t, q), map[string][]int{"web": {1, 2}})
	})
}

// What a store that is well does not have is lost, and does not hold up the rest of its key for ever.
func TestWhatTheStoreLost(t *testing.T) {
	for _, lost := range []int{1, 4, 5} { // the first, the last but one, and the last that went away
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(t)
				q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d})
				for state := range 6 {
					q.Add("web", change{"updated", "1", state})
				}
				equal(t, "first", take(t, q).state, 0)
				q.Done("web")
				q.Add("web", change{"updated", "1", 6}) // behind
				d.write()
				delete(d.written, firstNumber+uint64(lost))
				var got []int
				var said error
				for range 100 {
					if _, err := q.Refill(nothing, nothing); err != nil {
						said = err
					}
					for item, ok := q.Take(); ok; item, ok = q.Take() {
						got = append(got, item.Value.state)
						q.Done("web")
					}
					time.Sleep(maxLoadDelay)
					synctest.Wait()
				}
				want := map[int][]int{1: {2, 3, 4, 5, 6}, 4: {1, 2, 3, 5, 6}, 5: {1, 2, 3, 4, 6}}[lost]
				equal(t, "taken", got, want)
				equal(t, "stats", q.Stats(), Stats{Dropped: 1})
				if said == nil {
					t.Error("nobody was told")
				}
			})
		})
	}
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
		q.Redrive("web", change{"added", "1", 100})
		q.Redrive("web", change{"added", "1", 101})
		d.write()
		q.Close()

		time.Sleep(time.Minute)
		q = d.crash(o)
		defer q.Close()
		equal(t, "waiting", q.Stats().Waiting, 0)
		equal(t, "away", q.Stats().Away, 8)
		equal(t, "loads", d.loads, 0)
		q.Add("web", change{"updated", "1", 6})
		q.Redrive("api", change{"added", "2", 0})
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
		equal(t, "age", q.Stats().OldestAge, time.Minute)
		equal(t, "delayed", q.Stats().Delayed, 1) // as before, and the others wait with the one that is retried
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

// A retry that was due in an hour still is, and so is what merges with it.
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

// Nothing is written when a value is taken. What was in flight when the process was killed may have been handled, and its
// deletion must not cancel it out.
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

// Keys that fail hold one value each, not all that was loaded for them, and others go on.
func TestKeysThatFailDoNotFillTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: func(change) int64 { return 1 << 10 }, Store: d})
		defer q.Close()
		const keys, states = 500, 10
		for state := range states {
			for k := range keys {
				q.Add(fmt.Sprint(k), change{"updated", "1", state})
			}
		}
		d.write()
		done := 0
		for {
			if err := refill(q); err != nil {
				t.Fatal(err)
			}
			item, ok := q.Take()
			if !ok {
				break
			}
			if item.Key == "7" {
				equal(t, "state", item.Value.state, done)
				done++
				q.Done(item.Key)
				continue
			}
			q.Retry(item.Key, item.Value, time.Hour)
			if waiting := q.Stats().Waiting; waiting > keys+maxSupply>>10 {
				t.Fatalf("%d are in memory", waiting)
			}
		}
		equal(t, "states of the key that does not fail", done, states)
		equal(t, "waiting", q.Stats().Waiting, keys-1)
		equal(t, "away", q.Stats().Away, (keys-1)*(states-1))
	})
}

// What nobody takes is not loaded.
func TestSupply(t *testing.T) {
	d := newDisk(t)
	size := int64(16 << 10)
	q := newChanges(Options[string, change]{Every: true, MaxItems: 1, MaxBytes: 1 << 40, Size: func(change) int64 { return size }, Store: d})
	for k := range 2000 {
		q.Add(fmt.Sprint(k), change{"updated", "1", 1})
	}
	d.write()
	q.opts.MaxItems = 1 << 30
	if err := refill(q); err != nil {
		t.Fatal(err)
	}
	if s := q.Stats(); s.Bytes > maxSupply+2*size || s.Bytes < maxSupply/2 {
		t.Errorf("%d bytes are loaded", s.Bytes)
	}
	for range 2000 {
		item, ok := q.Take()
		if !ok {
			t.Fatal("nothing is ready")
		}
		q.Done(item.Key)
		if err := refill(q); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "stats", q.Stats(), Stats{})
	equal(t, "supply", q.supply, 0)
}

// lockedDisk is a disk for several goroutines, that writes whenever it is read.
type lockedDisk struct {
	mu sync.Mutex
	disk
}

func (d *lockedDisk) Put(n uint64, key string, r Record[change]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk.Put(n, key, r)
}

func (d *lockedDisk) Delete(n uint64, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk.Delete(n, key)
}

func (d *lockedDisk) Load(key string, after uint64, maxItems int, maxBytes int64) ([]Numbered[change], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write()
	return d.disk.Load(key, after, maxItems, maxBytes)
}

// Producers, consumers and who loads at once: per key, each value comes, in order.
func TestConcurrentLoading(t *testing.T) {
	const keys, states = 8, 300
	wake := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	ready, hungry := make(chan struct{}, 1), make(chan struct{}, 1)
	d := &lockedDisk{disk: *newDisk(t)}
	q := newChanges(Options[string, change]{
		Every: true, MaxItems: 20, Size: sizeOf, Store: d, Ready: wake(ready), Hungry: wake(hungry),
	})
	finished := make(chan struct{})
	var producers, others, finals sync.WaitGroup
	finals.Add(keys)
	for k := range keys {
		producers.Go(func() {
			for state := range states {
				q.Add(fmt.Sprint(k), change{"updated", "1", state})
			}
		})
	}
	others.Go(func() {
		for {
			if err := refill(q); err != nil {
				t.Error(err)
			}
			select {
			case <-hungry:
			case <-finished:
				return
			}
		}
	})
	var last [keys]atomic.Int64
	for range 3 {
		others.Go(func() {
			for {
				item, ok := q.Take()
				if !ok {
					select {
					case <-ready:
						continue
					case <-finished:
						return
					}
				}
				k, state := int(item.Key[0]-'0'), int64(item.Value.state)
				if item.Value.state%50 == 7 && item.Value.kind == "updated" {
					q.Retry(item.Key, change{"retried", "1", item.Value.state}, time.Microsecond)
					continue
				}
				if !last[k].CompareAndSwap(state, state+1) {
					t.Errorf("key %d: %d, want %d", k, state, last[k].Load())
				}
				q.Done(item.Key)
				if state == states-1 {
					finals.Done()
				}
			}
		})
	}
	producers.Wait()
	finals.Wait()
	close(finished)
	others.Wait()
	equal(t, "stats", q.Stats(), Stats{})
	equal(t, "records", len(d.all()), 0)
}

// A queue that is closed while it is loaded takes nothing in.
func TestCloseWhileLoading(t *testing.T) {
	d := newDisk(t)
	o := Options[string, change]{Every: true, Size: sizeOf, Store: d}
	newQueue := newChanges(o)
	newQueue.Add("web", change{"added", "1", 1})
	d.write()
	q := d.crash(o)
	if more, err := q.Refill(q.Close, nothing); err != nil || !more {
		t.Fatal(more, err)
	}
	takeNone(t, q)
	equal(t, "stats", q.Stats(), Stats{})
	equal(t, "records", len(d.all()), 1)
}
