package queue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoadWaitsForTheWrite(t *testing.T) {
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
		d.noRoom = true // the store is not well, so no value counts as lost, however long it takes
		for range 100 {
			time.Sleep(maxLoadDelay)
			synctest.Wait()
			if err := refill(q); err != nil {
				t.Fatal(err)
			}
		}
		d.noRoom = false
		d.write()
		time.Sleep(maxLoadDelay)
		synctest.Wait()
		if hungry == before {
			t.Fatal("nobody was told that it can be tried again")
		}
		equal(t, "taken", drain(t, q), map[string][]int{"web": {1, 2}})
	})
}

func TestStoreFailsToLoad(t *testing.T) {
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
		for range 1000 { // the queue never gives up
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

// A value that a healthy store does not have is lost. It does not hold up the rest of its key for
// ever.
func TestStoreLostAValue(t *testing.T) {
	// the first, the last but one, and the last that went away
	for _, lost := range []int{1, 4, 5} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(t)
				q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d})
				for state := range 6 {
					q.Add("web", change{"updated", "1", state})
				}
				equal(t, "first", take(t, q).state, 0)
				q.Done("web")
				q.Add("web", change{"updated", "1", 6}) // comes behind those that are away
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

// Failing keys hold one value each, not everything that was loaded for them, and other keys go on.
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
		q.opts.MaxItems = 1 << 30 // from now on there is room for all
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
				t.Fatalf("%d values are in memory", waiting)
			}
		}
		equal(t, "states of the key that does not fail", done, states)
		equal(t, "waiting", q.Stats().Waiting, keys-1)
		equal(t, "away", q.Stats().Away, (keys-1)*(states-1))
	})
}

// The queue loads nothing while nobody takes what was loaded.
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
	equal(t, "supply", q.rota.supply, 0)
}

// lockedDisk is a disk that several goroutines may use. It writes everything before each read.
type lockedDisk struct {
	mu sync.Mutex
	disk
}

func (d *lockedDisk) Put(n uint64, key string, r Record[change]) (cut uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disk.Put(n, key, r)
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

// Producers, consumers and the loader run at once. Each value of a key comes, in order.
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

// A queue that is closed during a load adds nothing.
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

// When the memory is already full, a key gets what it needs to go on, and no more.
func TestLoadsWhenMemoryIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		q := newChanges(Options[string, change]{Every: true, MaxItems: 1, Size: sizeOf, Store: d})
		defer q.Close()
		q.Add("stuck", change{"updated", "1", 0})
		q.Retry("stuck", take(t, q), time.Hour)
		for state := range 10 {
			q.Add("web", change{"updated", "1", state})
		}
		d.write()
		for state := range 10 {
			if err := refill(q); err != nil {
				t.Fatal(err)
			}
			equal(t, "waiting", q.Stats().Waiting, 2)
			equal(t, "taken", take(t, q).state, state)
			q.Done("web")
		}
	})
}
