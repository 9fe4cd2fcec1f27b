package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// lives is a program that is killed again and again: a queue over a disk, changing objects, and a
// consumer that takes the changes and remembers what it heard.
type lives struct {
	t *testing.T
	o Options[string, change]
	d *disk
	q *Queue[string, change]

	state     int
	objects   map[string]*life
	unwritten []told // what the source tells again after a crash
	inFlight  map[string]Item[string, change]
	lastTaken map[string]int             // state, in this life
	heard     map[string]map[string]bool // by key and uid: whether the object should be there
	heardLast map[string]int             // state
	all       map[string][]int           // states that were done, each once
	// redriven states that are recorded, and whether they were done
	redriven map[int]bool
	merged   bool // because memory and store had no room
}

type life struct {
	uid    string
	inside bool
	states []int
}

type told struct {
	key      string
	c        change
	redriven bool
}

// FuzzStore changes objects and kills a queue whose store writes late, fails or has no room. In
// every case the consumer receives the final state of each object, and the deletion of each object
// that it knows. Under Every it receives each change. Within a key and life, changes come in order.
// The records always match what the queue holds.
func FuzzStore(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 4, 2, 4, 12, 12, 11, 12, 2, 4})
	f.Add([]byte{0, 0, 0, 2, 8, 11, 0, 16, 32, 12, 2, 5, 11, 12})
	f.Add([]byte{3, 0, 6, 8, 0, 0, 0, 0, 9, 0, 0, 9, 0, 0, 8, 11, 12, 2, 5, 2, 12, 2, 4, 7})
	f.Add([]byte{3, 0, 6, 8, 0, 0, 0, 15, 0, 0, 31, 12, 47, 0, 15, 11, 12, 63, 5, 2, 12, 15, 2, 4, 7})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 5, 4, 12, 2, 5, 5, 8, 7, 3, 12, 2, 5, 6, 11, 12, 2, 4})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 4, 12, 2, 5, 3, 10, 12, 10, 7, 12, 2, 4})
	f.Add([]byte{0, 0, 1, 2, 5, 11, 8, 11, 0, 1, 12, 2, 5, 27, 8, 11, 12, 0, 1, 2, 5, 59, 0, 1, 7, 2, 2, 4})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1000 {
			t.Skip("longer programs only take longer")
		}
		synctest.Test(t, func(t *testing.T) { live(t, program) })
	})
}

func live(t *testing.T, program []byte) {
	next := func() (b byte) {
		if len(program) > 0 {
			b, program = program[0], program[1:]
		}
		return b
	}
	setup := next()
	d := newDisk(t)
	w := &lives{
		t: t, d: d, objects: map[string]*life{}, heard: map[string]map[string]bool{}, heardLast: map[string]int{},
		all: map[string][]int{}, redriven: map[int]bool{},
		o: Options[string, change]{
			Every: setup&1 == 1, MaxItems: int(setup>>1&3) + 1, MaxBytes: int64(setup>>3&31) + 8, Size: sizeOf, Store: d,
			Renews: renews,
		},
	}
	w.start()
	for len(program) > 0 {
		op := next()
		key := string('a' + rune(op>>4&3))
		switch op & 15 {
		case 0, 1, 13:
			w.change(key, next())
		case 2, 3, 14:
			w.take()
		case 4:
			w.done(key)
		case 5:
			b := next()
			w.retry(key, b)
		case 6:
			w.state++
			w.tell(told{key, change{"updated", "r", w.state}, true})
		case 7:
			time.Sleep(time.Duration(next()&7) * 500 * time.Millisecond)
		case 8:
			w.write()
		case 9:
			d.noRoom = !d.noRoom
		case 10:
			d.failing = !d.failing
		case 11:
			w.q.Close()
			w.start()
		case 15:
			w.postpone(time.Duration(op>>4&3) * time.Second)
		default:
			if _, err := w.q.Refill(nothing, nothing); err != nil && !d.failing {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		w.check()
	}
	w.finish()
}

// start begins a process's life. The source repeats everything that it offered before and that was
// not written.
func (w *lives) start() {
	if w.q != nil {
		w.merged = w.merged || w.q.Stats().Shortened > 0
	}
	time.Sleep(time.Second)
	w.q = w.d.crash(w.o)
	w.inFlight, w.lastTaken = map[string]Item[string, change]{}, map[string]int{}
	again := w.unwritten
	w.unwritten = nil
	w.q.Doubt(true)
	for _, what := range again {
		w.tell(what)
	}
	w.q.Doubt(false)
}

func (w *lives) tell(what told) {
	w.unwritten = append(w.unwritten, what)
	if what.redriven {
		w.redriven[what.c.state] = false
		w.q.Redrive(what.key, what.c, time.Time{})
		return
	}
	w.q.Add(what.key, what.c)
}

func (w *lives) write() {
	w.d.write()
	w.unwritten = nil
}

// change makes the next possible change of an object.
func (w *lives) change(key string, kind byte) {
	l := w.objects[key]
	if l == nil {
		l = &life{}
		w.objects[key] = l
	}
	w.state++
	c := change{"updated", l.uid, w.state}
	switch {
	case !l.inside:
		l.uid, l.inside = fmt.Sprint("u", w.state), true
		c.kind, c.uid = "added", l.uid
	case kind&3 == 0:
		c.kind, l.inside = "deleted", false
	}
	l.states = append(l.states, w.state)
	w.tell(told{key, c, false})
}

func (w *lives) take() bool {
	item, ok := w.q.Take()
	if !ok {
		return false
	}
	key, c := item.Key, item.Value
	if _, twice := w.inFlight[key]; twice {
		w.t.Fatalf("%s is in flight twice", key)
	}
	w.inFlight[key] = item
	if c.uid == "r" {
		return true
	}
	if !slices.Contains(w.objects[key].states, c.state) {
		w.t.Fatalf("%s: %v was never told", key, c)
	}
	if c.state < w.lastTaken[key] {
		w.t.Fatalf("%s: %v after %d", key, c, w.lastTaken[key])
	}
	w.lastTaken[key], w.heardLast[key] = c.state, c.state
	if w.heard[key] == nil {
		w.heard[key] = map[string]bool{}
	}
	w.heard[key][c.uid] = c.kind != "deleted"
	return true
}

func (w *lives) done(key string) {
	item, ok := w.inFlight[key]
	w.q.Done(key)
	if !ok {
		return
	}
	delete(w.inFlight, key)
	if item.Value.uid == "r" {
		w.redriven[item.Value.state] = true
	} else if !slices.Contains(w.all[key], item.Value.state) {
		w.all[key] = append(w.all[key], item.Value.state)
	}
}

func (w *lives) retry(key string, how byte) {
	after, putBack := time.Duration(how&3)*time.Second, w.q.Retry
	switch {
	case how&4 != 0:
		putBack = w.q.Shorten
	case how&8 != 0:
		least := time.Duration(how>>4&3) * time.Second
		putBack = func(key string, c change, after time.Duration) { w.q.Yield(key, c, after, least) }
	}
	putBack(key, w.inFlight[key].Value, after)
	delete(w.inFlight, key)
}

// postpone takes something and puts it back unheard.
func (w *lives) postpone(after time.Duration) {
	if item, ok := w.q.Take(); ok {
		w.q.Rewrite(item.Key, item.Value)
		w.q.Postpone(item.Key, item.Value, after)
	}
}

// finish lets everything succeed until nothing is left, and compares what the consumer heard with
// the objects.
func (w *lives) finish() {
	w.d.noRoom, w.d.failing = false, false
	for range 3 {
		for {
			for _, item := range w.inFlight {
				w.done(item.Key)
			}
			w.write()
			if err := refill(w.q); err != nil {
				w.t.Fatal(err)
			}
			w.check()
			if !w.take() {
				break
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	}
	equal(w.t, "stats", w.q.Stats(), Stats{Shortened: w.q.Stats().Shortened})
	equal(w.t, "keys", len(w.q.keys.all)+w.q.ages.past.Len(), 0)
	equal(w.t, "records", len(w.d.all()), 0)
	w.merged = w.merged || w.q.Stats().Shortened > 0
	for key, l := range w.objects {
		for uid, thinks := range w.heard[key] {
			if is := uid == l.uid && l.inside; thinks != is {
				w.t.Errorf("%s: the consumer thinks uid %s exists: %v, want %v", key, uid, thinks, is)
			}
		}
		if last := l.states[len(l.states)-1]; l.inside && w.heardLast[key] != last {
			w.t.Errorf("%s: heard of state %d last, want %d", key, w.heardLast[key], last)
		}
		if w.o.Every && !w.merged {
			slices.Sort(w.all[key])
			equal(w.t, "states of "+key, w.all[key], l.states)
		}
	}
	for state, done := range w.redriven {
		if !done {
			w.t.Errorf("state %d was not redriven", state)
		}
	}
}

// check compares what the queue holds with the records and with its own counts.
func (w *lives) check() {
	t, q, records := w.t, w.q, w.d.all()
	t.Helper()
	s := q.Stats()
	q.mu.Lock()
	defer q.mu.Unlock()
	var supply int64
	var waiting, isAway, tracked int
	took := func(e *entry[string, change], val *value[change]) {
		r := records[val.n]
		if r == nil || r.key != e.key || r.Value != val.v && e.inFlight != val {
			t.Fatalf("%s: %v is recorded as %v", e.key, val.v, r)
		}
		delete(records, val.n)
	}
	for _, e := range q.keys.all {
		a := e.away
		here, length, lastN := 0, 0, uint64(0)
		if e.inFlight != nil {
			took(e, e.inFlight)
			if e.inFlight.loaded {
				here++
			}
		}
		behind := false
		for at := e.waiting.Front(); at != nil; at = at.Next() {
			behind = behind || a.open() && at == a.behind
			took(e, at.Value)
			if n := at.Value.n; n <= lastN && !at.Value.redriven {
				t.Fatalf("%s: %d behind %d", e.key, n, lastN)
			} else if a.open() && !at.Value.redriven && behind != (n > a.last) {
				t.Fatalf("%s: number %d waits behind those away: %v, but they end at %d", e.key, n, behind, a.last)
			} else {
				lastN = n
			}
			if at.Value.loaded {
				here++
				if e.isReady {
					supply += at.Value.size + overhead
				}
			}
			length++
		}
		waiting += length
		equal(t, "length", int(e.length), length)
		if a != nil {
			tracked++
			isAway += a.count
			equal(t, "here", a.here, here)
			found := 0
			for n, r := range records {
				if r.key == e.key && n > a.after && n <= a.last {
					found++
					delete(records, n)
				}
			}
			equal(t, e.key+": records of what is away", found, a.count)
		}
		places := 0
		for _, is := range []bool{e.isReady, e.isHungry, e.delayed != notDelayed, e.inFlight != nil} {
			if is {
				places++
			}
		}
		equal(t, e.key+": places", places, 1)
	}
	if len(records) > 0 {
		t.Fatalf("recorded but not held: %v", records)
	}
	equal(t, "counts", []int{s.Waiting, s.Away, q.ages.past.Len()}, []int{waiting, isAway, tracked})
	equal(t, "supply", q.rota.supply, supply)
}
