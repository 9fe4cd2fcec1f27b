package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// world holds the objects as a rule sees them. Each name belongs to one uid, inside or outside of
// the rule.
type world struct {
	version int
	round   int64
	names   map[string]*resident
	offered map[string][]string // by name: ids of all changes, in order
}

// process is a dispatcher with its lane, over what is recorded.
type process struct {
	s    *shelf
	l    *Lane
	stop func()
}

// begin returns a process that continues from the records in s. again was offered before and not
// written.
func begin(t *testing.T, s *shelf, h Recipient, o LaneOptions, again []rule.Match) *process {
	o.Store = s
	d := New(h, NewLetterBox(LetterBoxOptions{}), Options{Journal: s})
	l := d.Lane("r", pods, o)
	s.restore(l)
	stop := start(t, d)
	l.Doubt(true)
	s.offer(l, again...)
	l.Doubt(false)
	return &process{s, l, stop}
}

// kill ends p at once, and returns what the next process finds.
func (p *process) kill() *shelf {
	s := p.s.kill()
	p.l.Close()
	p.stop()
	return s
}

type resident struct {
	uid    string
	inside bool
	object *object.Object
}

// change makes the next possible change of a name.
func (w *world) change(name string, kind byte) rule.Match {
	r := w.names[name]
	if r == nil {
		r = &resident{}
		w.names[name] = r
	}
	w.version++
	d := delta.Delta{Object: pod(name, r.uid, w.version), Old: r.object}
	switch {
	case !r.inside && (r.uid == "" || kind&1 == 0): // another object of that name
		r.uid = fmt.Sprint("u", w.version)
		d.Type, d.Object, d.Old, r.inside = delta.Added, pod(name, r.uid, w.version), nil, true
	case !r.inside: // the same object comes back inside
		d.Type, d.Old, r.inside = delta.Added, nil, true
	case kind&3 == 0:
		d.Type, r.inside = delta.Deleted, false
	case kind&3 == 1:
		w.round++
		d.Type, d.Object, d.Old, d.Round = delta.Synced, r.object, nil, w.round
	default:
		d.Type = delta.Updated
	}
	r.object = d.Object
	w.offered[name] = append(w.offered[name], d.ID("r"))
	return rule.Match{Delta: d}
}

// witness is a handler that answers as a program says, and checks the promises made to handlers.
type witness struct {
	t    *testing.T
	mu   sync.Mutex
	next func() byte
	busy map[string]bool          // by name
	last map[string]handler.Event // by name
	// by name, uid: whether the handler should think that the object exists
	heard map[string]map[string]bool
	ids   map[string][]string // by name, without repeats
	again map[string]bool     // by name: another process has started since the last event
}

// killed notes that the process was killed. Everything not recorded as done may come again.
func (w *witness) killed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.busy)
	for name := range w.last {
		w.again[name] = true
	}
}

func (w *witness) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[ev.Name] {
		w.t.Errorf("%s comes while another event of %s is handled", ev.ID, ev.Name)
	}
	last, seen := w.last[ev.Name]
	again := w.again[ev.Name]
	w.again[ev.Name] = false
	if again {
		if !slices.Contains(w.ids[ev.Name], ev.ID) {
			w.ids[ev.Name] = append(w.ids[ev.Name], ev.ID)
		}
	} else if seen && last.ID == ev.ID {
		if ev.Attempt != last.Attempt+1 {
			w.t.Errorf("%s: attempt %d after %d", ev.ID, ev.Attempt, last.Attempt)
		}
	} else {
		if repeat := slices.Contains(w.ids[ev.Name], ev.ID); ev.Attempt != 1 && !repeat {
			w.t.Errorf("%s: begins with attempt %d", ev.ID, ev.Attempt)
		}
		if seen && version(w.t, ev) < version(w.t, last) {
			w.t.Errorf("%s comes after %s", ev.ID, last.ID)
		}
		if !slices.Contains(w.ids[ev.Name], ev.ID) {
			w.ids[ev.Name] = append(w.ids[ev.Name], ev.ID)
		}
	}
	w.last[ev.Name] = ev
	if w.heard[ev.Name] == nil {
		w.heard[ev.Name] = map[string]bool{}
	}
	w.heard[ev.Name][ev.UID] = ev.Event != handler.Deleted

	b := w.next()
	w.busy[ev.Name] = true
	w.mu.Unlock()
	time.Sleep(time.Duration(b>>3&3) * 300 * time.Millisecond)
	w.mu.Lock()
	w.busy[ev.Name] = false
	switch b & 7 {
	case 3:
		return handler.Answer{}, handler.RetryAfter(2*time.Second, nil)
	case 4:
		if b&32 != 0 { // as a rule's own actions fail
			return handler.Answer{}, Later(3*time.Second, errors.New("down"))
		}
		return handler.Answer{}, errors.New("down")
	case 5:
		return handler.Answer{}, handler.ErrLost
	case 6:
		return handler.Answer{}, handler.ErrReject
	case 7:
		panic("oops")
	}
	return handler.Answer{}, nil
}

func version(t *testing.T, ev handler.Event) int {
	n, err := strconv.Atoi(ev.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FuzzLane changes objects while the handler answers in every way. In every case, events of an
// object come in order and one at a time. In the end the handler has received the final state of
// each object, and the deletion of each object that it ever received. Under every it has received
// each change. That also holds if the process is killed and changes that were not written are
// offered again. It holds if most waiting deliveries do not fit into memory.
func FuzzLane(f *testing.F) {
	f.Add([]byte{0, 0, 8, 2, 8, 0, 8, 0}, []byte{4, 4, 5, 0})
	f.Add([]byte{1, 0, 8, 2, 8, 0, 8, 0, 9, 1, 9, 2, 3}, []byte{7, 4, 5, 5, 5, 6})
	f.Add([]byte{6, 8, 2, 16, 3, 24, 1, 7, 8, 0, 8, 1, 8, 0}, []byte{13, 21, 29, 5, 13, 4, 12})
	f.Add([]byte{38, 8, 2, 16, 3, 24, 1, 7, 8, 0, 8, 1, 8, 0}, []byte{13, 21, 29, 5, 13, 4, 12})
	f.Add([]byte{71, 8, 2, 16, 6, 24, 16, 7, 8, 5, 8, 16, 8, 5, 7, 6, 5, 16}, []byte{13, 21, 29, 5, 13, 4, 12})
	f.Add([]byte{70, 8, 2, 6, 3, 24, 15, 8, 5, 8, 1, 5, 8, 6, 5}, []byte{13, 21, 29, 5, 13, 4, 12})
	// done but not written as done, then deleted: the handler must receive the deletion
	f.Add([]byte("0CC%C&7%C"), []byte("0"))
	f.Add([]byte{0, 8, 2, 16, 6, 24, 16, 7, 8, 5, 8, 16, 7, 8, 6, 16, 39, 8, 5, 16}, []byte{36, 36, 44, 36, 36, 60, 36, 36})
	f.Fuzz(func(t *testing.T, changes, answers []byte) {
		if len(changes)+len(answers) > 500 {
			t.Skip("longer programs only take longer")
		}
		synctest.Test(t, func(t *testing.T) { witnessed(t, changes, answers) })
	})
}

func witnessed(t *testing.T, changes, answers []byte) {
	reader := func(program []byte) func() byte {
		return func() (b byte) {
			if len(program) > 0 {
				b, program = program[0], program[1:]
			}
			return b
		}
	}
	next := reader(changes)
	there := &world{names: map[string]*resident{}, offered: map[string][]string{}}
	h := &witness{
		t: t, next: reader(answers), busy: map[string]bool{}, last: map[string]handler.Event{},
		heard: map[string]map[string]bool{}, ids: map[string][]string{}, again: map[string]bool{},
	}
	setup := next()
	every := setup&1 == 1
	var implementation handler.Handler = h
	if setup>>5&1 == 1 {
		implementation = elsewhere{h}
	}
	limited := Recipient{
		Handler: implementation, Concurrency: int(setup>>1&3) + 1,
		Retry: Retry{Attempts: int(setup >> 3 & 3), MaxBackoff: 4 * time.Second},
	}
	options := LaneOptions{Every: every}
	if setup>>6&1 == 1 {
		options.MaxItems = 2
	}
	p := begin(t, newShelf(t), limited, options, nil)
	var unwritten []rule.Match
	killed := false
	for n := 1; n < len(changes); n++ {
		b := next()
		switch {
		case b&7 == 7:
			pass(time.Duration(b>>3&7) * 200 * time.Millisecond)
			continue
		case b&7 == 6 && p.s.write():
			unwritten = nil
			continue
		case b&7 == 5:
			next := p.kill()
			h.killed()
			p = begin(t, next, limited, options, unwritten)
			killed = true
			continue
		}
		name := []string{"web", "db", "api", "job"}[b&3]
		m := there.change(name, b>>3)
		unwritten = append(unwritten, m)
		p.s.offer(p.l, m)
		// At most two changes of one name wait, next to one in flight.
		if stats := p.l.Stats(); !every && !killed && stats.Waiting > 2*len(there.names) {
			t.Fatalf("%d changes wait for %d names", stats.Waiting, len(there.names))
		}
	}
	p.s.mu.Lock()
	p.s.writes = true
	p.s.mu.Unlock()
	pass(time.Hour)
	if stats := p.l.Stats(); stats.Waiting+stats.InFlight+stats.Away > 0 {
		t.Fatalf("deliveries still wait or fly: %+v", stats)
	}
	equal(t, "records", p.s.ids(), nil)
	for name, r := range there.names {
		for uid, thinks := range h.heard[name] {
			if is := uid == r.uid && r.inside; thinks != is {
				t.Errorf("%s: the handler thinks that %s exists: %v, want %v", name, uid, thinks, is)
			}
		}
		if last, seen := h.last[name]; r.inside && (!seen || last.ResourceVersion != r.object.ResourceVersion()) {
			t.Errorf("%s: the last event is %s, but the object is at %s", name, last.ID, r.object.ResourceVersion())
		}
		if every {
			equal(t, "events of "+name, h.ids[name], there.offered[name])
		}
	}
}
