package outbox

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// desk is a dispatcher and a handler around an outbox with one consumer. Events are named for their
// objects, one at a time each. The dispatcher submits as many as there is room for, as the real one
// does; takes says how long the handler takes for one.
type desk struct {
	t        *testing.T
	box      *Outbox
	consumer *Consumer
	takes    func(name string) time.Duration // negative: it does not answer

	waiting  []string
	isFresh  bool // something was offered since the last probe
	stale    int  // probes since the last answer with what waited before
	random   *rand.Rand
	inFlight int
	with     []work   // with the handler, by its own account
	most     int      // the most of them at once
	order    []string // names of events, as they were answered
	took     map[string]time.Duration
	errs     map[string]error
}

// work is an event that the handler works on.
type work struct {
	seq  uint64
	done time.Time // zero: never
}

func newDesk(t *testing.T, w Window, limit time.Duration, takes func(name string) time.Duration) *desk {
	box := New(limit)
	d := &desk{
		t: t, box: box, consumer: box.NewConsumer(), takes: takes,
		random: rand.New(rand.NewPCG(1, 2)), took: map[string]time.Duration{}, errs: map[string]error{},
	}
	if w.Bytes == 0 {
		w.Bytes, w.MaxBytes = 1<<20, 4<<20
	}
	w.Patience = time.Hour
	d.consumer.Attach(w)
	return d
}

// offer makes events wait.
func (d *desk) offer(names ...string) {
	d.waiting = append(d.waiting, names...)
	d.isFresh = true
}

// run lets time pass, in steps of a millisecond.
func (d *desk) run(span time.Duration) {
	for end := time.Now().Add(span); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		d.step()
		if !time.Now().Before(end) {
			return
		}
	}
}

// step submits, sends and expires what can be, until nothing can.
func (d *desk) step() {
	for {
		d.answer()
		n, isProbe := d.box.Room()
		if len(d.waiting) > 0 && d.inFlight < n && (!isProbe || d.isFresh || d.stale < 4) {
			d.submit(isProbe)
			continue
		}
		d.consumer.Expire(time.Now())
		b := d.consumer.Take(time.Now())
		if b == nil {
			return
		}
		for _, e := range b.Events {
			d.handle(e)
		}
	}
}

func (d *desk) submit(isProbe bool) {
	next := 0
	switch {
	case isProbe && d.isFresh:
		next, d.isFresh = len(d.waiting)-1, false
	case isProbe:
		next = d.random.IntN(len(d.waiting))
		d.stale++
	}
	name := d.waiting[next]
	d.waiting = slices.Delete(d.waiting, next, next+1)
	d.inFlight++
	began := time.Now()
	d.box.Submit(d.t.Context(), &handler.Event{Name: name}, func(_ handler.Answer, err error) {
		d.inFlight--
		d.stale = 0
		d.order = append(d.order, name)
		d.took[name], d.errs[name] = time.Since(began), err
	})
}

func (d *desk) handle(e Sent) {
	w := work{seq: e.Seq}
	if takes := d.takes(e.Event.Name); takes >= 0 {
		w.done = time.Now().Add(takes)
	}
	d.with = append(d.with, w)
	d.most = max(d.most, len(d.with))
}

// answer answers what is done, in one message.
func (d *desk) answer() {
	var answers []Outcome
	d.with = slices.DeleteFunc(d.with, func(w work) bool {
		isDone := !w.done.IsZero() && !w.done.After(time.Now())
		if isDone {
			answers = append(answers, Outcome{Seq: w.seq})
		}
		return isDone
	})
	if len(answers) > 0 {
		d.consumer.Complete(answers)
	}
}

// stop ends what is left.
func (d *desk) stop() {
	d.consumer.Detach(errGone)
	d.box.Stop(errStop)
	synctest.Wait()
}

// some returns n names.
func some(n int, prefix string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// hangs is a handler that hangs with names that begin with "hung", and takes quick for all others.
func hangs(quick time.Duration) func(name string) time.Duration {
	return func(name string) time.Duration {
		if strings.HasPrefix(name, "h") {
			return 20 * time.Second
		}
		return quick
	}
}

var standard = Window{Events: 8, MaxEvents: 136, Abandoned: 16}

// mixed returns good events with hung ones evenly among them.
func mixed(good, hung int) (names []string) {
	for i, name := range some(good, "good") {
		names = append(names, name)
		if every := good / hung; i%every == 0 && i/every < hung {
			names = append(names, fmt.Sprintf("hung-%d", i/every))
		}
	}
	return names
}

// Events that hang take no places from the others: all others are answered long before the first of
// those, wherever they are in the queue, and even if nothing is known about the handler yet.
func TestHungEventsAreAlone(t *testing.T) {
	for _, c := range []struct {
		why    string
		events []string
		within time.Duration // for all good ones; alone they would take 900/8*2 ms
	}{
		{"none", some(900, "good"), 230 * time.Millisecond},
		{"ten, first", append(some(10, "hung"), some(900, "good")...), 300 * time.Millisecond},
		{"ten among them", mixed(900, 10), 300 * time.Millisecond},
		{"a hundred among them", mixed(900, 100), 460 * time.Millisecond},
		{"a hundred, first", append(some(100, "hung"), some(900, "good")...), 600 * time.Millisecond},
		{"a hundred, last", append(some(900, "good"), some(100, "hung")...), 400 * time.Millisecond},
		{"a hundred, first and last", slices.Concat(some(50, "hung"), some(900, "good"), some(50, "hanging")), time.Second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, standard, 30*time.Second, hangs(2*time.Millisecond))
				defer d.stop()
				d.offer(c.events...)
				d.run(c.within)
				good := 0
				for _, name := range d.order {
					if strings.HasPrefix(name, "good") {
						good++
					}
				}
				if good != 900 {
					t.Errorf("%d of 900 were answered within %v", good, c.within)
				}
				// One that comes now does not wait for those that hang, either.
				d.run(time.Second)
				d.offer("last")
				d.run(10 * time.Millisecond)
				if took, ok := d.took["last"]; !ok {
					t.Errorf("the last one waits: %d are with the handler", len(d.consumer.bySeq))
				} else if took > 5*time.Millisecond {
					t.Errorf("the last one took %v", took)
				}
				if d.most > 136 {
					t.Errorf("%d were with the handler at once", d.most)
				}
			})
		})
	}
}

// A handler that is slow as a whole gets no more than its window, and a few probes while nothing is
// known.
func TestSlowAsAWhole(t *testing.T) {
	jitter := func(most time.Duration) func(string) time.Duration {
		n := time.Duration(0)
		return func(string) time.Duration { n++; return most/5*4 + most/5*(n*7%11)/11 }
	}
	for _, c := range []struct {
		why   string
		takes func(string) time.Duration
		cold  int
	}{
		{"5 s", func(string) time.Duration { return 5 * time.Second }, 13},
		{"4 to 5 s", jitter(5 * time.Second), 13},
		{"half a second", func(string) time.Duration { return time.Second / 2 }, 13},
		{"40 ms", func(string) time.Duration { return 40 * time.Millisecond }, 9},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, standard, 30*time.Second, c.takes)
				defer d.stop()
				d.offer(some(40, "first")...)
				d.run(10 * time.Second)
				if d.most > c.cold {
					t.Errorf("%d were with the handler at once, want at most %d", d.most, c.cold)
				}
				d.most = 0
				d.offer(some(200, "later")...)
				d.run(20 * time.Second)
				if d.most != 8 {
					t.Errorf("%d were with the handler later, want 8", d.most)
				}
			})
		})
	}
}

// A handler that becomes slow as a whole gets a few probes more, and the number does not creep. The
// same holds for one that answers nothing at all, over many time limits.
func TestSlowFromNowOn(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Second, -1} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := 2 * time.Millisecond
				w := standard
				d := newDesk(t, w, 30*time.Second, func(string) time.Duration { return now })
				defer d.stop()
				d.offer(some(100, "quick")...)
				d.run(time.Second)
				if len(d.order) != 100 {
					t.Fatalf("%d of 100 were answered", len(d.order))
				}
				now, d.most = takes, 0
				for round := range 20 {
					d.offer(some(50, fmt.Sprint("slow-", round))...)
					d.run(10 * time.Second)
					if n := d.consumer.sent.n + d.consumer.slowSent.n; n > 16 {
						t.Fatalf("%d are with the handler in round %d, want at most 16", n, round)
					}
				}
				if n := d.consumer.slowSent.n; n > 0 || len(d.box.slow) > 0 {
					t.Errorf("%d count as slow, %d objects are remembered", n, len(d.box.slow))
				}
			})
		})
	}
}

// Answer times that differ widely add little to the window.
func TestWideRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		d := newDesk(t, standard, 30*time.Second, func(string) time.Duration {
			n++
			return time.Duration(1+n*37%100) * 10 * time.Millisecond // 10 ms to 1 s
		})
		defer d.stop()
		d.offer(some(2000, "some")...)
		d.run(time.Minute)
		if d.most > 13 {
			t.Errorf("%d were with the handler at once, want 8 and few more", d.most)
		}
	})
}

// An object whose last event was slow takes no place with its next one. That ends with a quick
// answer.
func TestSlowObjectsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		isHung := true
		d := newDesk(t, standard, 30*time.Second, func(name string) time.Duration {
			if isHung && strings.HasPrefix(name, "hung") {
				return 20 * time.Second
			}
			return 2 * time.Millisecond
		})
		defer d.stop()
		d.offer(mixed(100, 50)...)
		d.run(25 * time.Second)
		for i := range 2 {
			// They come together, before all others, as after a backoff.
			d.offer(some(50, "hung")...)
			d.offer(some(100, "good")...)
			d.run(50 * time.Millisecond)
			slow, places := d.consumer.slowSent.n, d.consumer.sent.n
			if slow != 50 || places != 0 || len(d.waiting) != 0 {
				t.Errorf("round %d: %d take no place, want 50; %d take one; %d wait", i, slow, places, len(d.waiting))
			}
			d.run(25 * time.Second)
		}
		isHung = false
		d.offer(some(50, "hung")...)
		d.run(time.Second)
		if n := len(d.box.slow); n != 0 {
			t.Errorf("%d objects are remembered as slow after quick answers", n)
		}
	})
}

// Slow events have a bound, and those beyond it take places. Then Slow says which objects wait for
// what.
func TestSlowBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Window{Events: 2, MaxEvents: 6, Abandoned: 16}
		d := newDesk(t, w, 30*time.Second, hangs(2*time.Millisecond))
		defer d.stop()
		d.offer(mixed(20, 10)...)
		d.run(10 * time.Second)
		s := d.consumer.Slow()
		if d.most != 6 || s.Events != 4 || !s.IsFull || len(s.Longest) != 6 {
			t.Errorf("%d were with the handler at once, want 6; %+v", d.most, s)
		}
		if w := s.Longest[0]; w.Name != "hung-0" || time.Since(w.Since) < 9*time.Second {
			t.Errorf("the oldest is %+v", w)
		}
		d.run(11 * time.Second) // the first ones are answered
		if s := d.consumer.Slow(); s.IsFull {
			t.Errorf("later: %+v", s)
		}
		d.run(time.Minute)
		if len(d.order) != 30 || d.most > 6 {
			t.Errorf("%d of 30 were answered, %d were with the handler at once", len(d.order), d.most)
		}
	})
}

// A handler may have said how many events it takes at all.
func TestNoSlowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Window{Events: 4, Abandoned: 16}, 30*time.Second, hangs(2*time.Millisecond))
		defer d.stop()
		d.offer(append(some(5, "hung"), some(9, "good")...)...)
		d.run(10 * time.Second)
		if s := d.consumer.Slow(); d.most != 4 || len(d.order) != 0 || !s.IsFull || len(s.Longest) != 4 {
			t.Errorf("%d were with the handler at once, want 4; %d were answered; %+v", d.most, len(d.order), s)
		}
	})
}

// A probe and a slow event together do not exceed the bound of all events.
func TestProbeAndSlowEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, isProbeFirst := range []bool{true, false} {
			d := newDesk(t, Window{Events: 2, MaxEvents: 3, Abandoned: 16}, 30*time.Second, hangs(0))
			d.box.rememberSlow(object{name: "hung-slow"})
			d.offer("hung-0", "hung-1")
			d.run(10 * time.Millisecond)
			names := []string{"hung-2", "hung-slow"}
			if !isProbeFirst {
				slices.Reverse(names)
			}
			for _, name := range names {
				d.run(time.Second)
				d.box.Submit(t.Context(), &handler.Event{Name: name}, func(handler.Answer, error) {})
				d.run(time.Second)
			}
			if d.most != 3 {
				t.Errorf("%d were with the handler at once, want 3", d.most)
			}
			d.stop()
		}
	})
}

// The bytes of slow events do not count towards those of the others, up to a bound.
func TestSlowBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Window{Events: 8, MaxEvents: 136, Bytes: 100, MaxBytes: 300, Abandoned: 16}
		box := New(time.Minute)
		c := box.NewConsumer()
		c.Attach(w)
		defer box.Stop(errStop)
		defer c.Detach(errGone)
		submit := func(name string, size int) {
			ev := handler.Event{Name: name, Object: make([]byte, size)}
			box.Submit(t.Context(), &ev, func(handler.Answer, error) {})
		}
		take := func() (names []string) {
			for b := c.Take(time.Now()); b != nil; b = c.Take(time.Now()) {
				for _, e := range b.Events {
					names = append(names, e.Event.Name)
				}
			}
			return names
		}
		submit("hung-0", 60)
		submit("hung-1", 60) // does not fit beside it
		if got := take(); len(got) != 1 {
			t.Fatalf("sent: %v", got)
		}
		time.Sleep(coldPause)
		synctest.Wait()
		if got := take(); len(got) != 1 {
			t.Fatalf("sent as a probe: %v", got)
		}
		time.Sleep(coldPause)
		submit("quick", 30)
		if got := take(); len(got) != 1 {
			t.Fatalf("sent as another: %v", got)
		}
		time.Sleep(time.Millisecond)
		c.Complete([]Outcome{{Seq: 3}})
		if n, bytes := c.slowSent.n, c.sent.bytes; n != 2 || bytes != 0 {
			t.Errorf("%d are slow, want 2; the others have %d bytes", n, bytes)
		}
		submit("large", 180) // fits alone
		if got := take(); len(got) != 1 {
			t.Errorf("sent: %v", got)
		}
		submit("small", 1)
		if got := take(); len(got) != 0 {
			t.Errorf("sent beyond the bound of all: %v", got)
		}
	})
}

// Slow events that time out together do not show that the handler is beyond hope. As long as it
// works on them, they count as slow.
func TestManyTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Window{Events: 8, MaxEvents: 108, Abandoned: 16}, 10*time.Second, func(name string) time.Duration {
			if strings.HasPrefix(name, "hung") {
				return 15 * time.Second
			}
			return 2 * time.Millisecond
		})
		defer d.stop()
		d.offer(mixed(900, 100)...)
		d.run(time.Second)
		d.offer("last") // overtakes what is left
		d.run(11 * time.Second)
		c := d.consumer
		if c.late.slow != 100 || c.hasSlowRoom() || c.Overdue(time.Now()) != nil {
			t.Errorf("%d slow ones are late, want 100; room: %v; %v", c.late.slow, c.hasSlowRoom(), c.Overdue(time.Now()))
		}
		if err := d.errs["hung-0"]; !errors.Is(err, handler.ErrNoAnswer) {
			t.Errorf("a hung one ended with %v", err)
		}
		d.run(5 * time.Second)
		if len(c.late.bySeq) != 0 || len(c.late.byObject) != 0 || c.late.slow != 0 {
			t.Errorf("left: %d, %d, %d", len(c.late.bySeq), len(c.late.byObject), c.late.slow)
		}
	})
}

// What a slow event leaves when its process ends, and when its caller gives up, is what any other
// leaves.
func TestSlowEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standard, 30*time.Second, hangs(2*time.Millisecond))
		d.offer(mixed(100, 10)...)
		d.run(time.Second)
		held := d.consumer.Hold()
		select {
		case <-held:
			t.Error("held with ten events at the handler")
		default:
		}
		d.consumer.Fail(Lost(errGone))
		<-held
		for _, name := range some(10, "hung") {
			if !errors.Is(d.errs[name], handler.ErrLost) {
				t.Errorf("%s ended with %v", name, d.errs[name])
			}
		}
		if n, _ := d.box.Room(); n != 0 || d.inFlight != 0 || d.consumer.slowSent.n != 0 {
			t.Errorf("left: room for %d, %d in flight, %d slow", n, d.inFlight, d.consumer.slowSent.n)
		}
		d.box.Stop(errStop)
	})
}

// Slow events stay in the order of their time limits.
func TestInsert(t *testing.T) {
	var f fifo
	for _, seq := range []uint64{5, 2, 9, 7, 1} {
		f.insert(&call{seq: seq})
	}
	var got []uint64
	for c := f.head(); c != nil; c = c.next() {
		got = append(got, c.seq)
	}
	if !slices.Equal(got, []uint64{1, 2, 5, 7, 9}) || f.n != 5 || f.tail().seq != 9 {
		t.Errorf("%v, %d", got, f.n)
	}
	for c := f.tail(); c != nil; c = f.tail() {
		f.remove(c)
	}
	if f.n != 0 || f.head() != nil {
		t.Error("not empty")
	}
}

// An endpoint that hangs as a whole keeps what it has, and gets no more than a few probes. Another
// one that hangs with some objects goes on with the others.
func TestSlowEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standard, 30*time.Second, hangs(2*time.Millisecond))
		defer d.stop()
		down := d.box.NewConsumer()
		down.Attach(standard)
		defer down.Detach(errGone)
		d.offer(mixed(900, 50)...)
		for range 3000 {
			for b := down.Take(time.Now()); b != nil; b = down.Take(time.Now()) {
				continue
			}
			d.run(time.Millisecond)
		}
		if n := down.sent.n + down.slowSent.n; n > 16 {
			t.Errorf("%d are with the one that hangs, want at most 16", n)
		}
		if n := len(d.order); n < 900-16 {
			t.Errorf("%d are answered", n)
		}
	})
}

// The outbox remembers a bounded number of slow objects.
func TestRememberedBound(t *testing.T) {
	o := New(time.Minute)
	for _, name := range some(maxSlowObjects+10, "o") {
		o.rememberSlow(object{name: name})
		o.rememberSlow(object{name: name})
	}
	if n := len(o.slow); n != maxSlowObjects {
		t.Errorf("%d objects are remembered, want %d", n, maxSlowObjects)
	}
	if !slices.Contains(slices.Collect(maps.Values(o.slow)), true) {
		t.Error("nothing is")
	}
}
