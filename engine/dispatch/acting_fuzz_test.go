package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// cluster is an API server with its watch. A rule's actions change its objects, and so does
// somebody else.
type cluster struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	things  map[string]*thing
	watch   []watched
	// by version: the process whose rule wrote it, once the write was answered
	writers map[string]*life

	conflicts int
}

// thing is an object. foreign counts what somebody else does to it. The rule sets seen to the same
// value, and deletes the object at every fifth.
type thing struct {
	uid           string
	foreign, seen int
	last          *object.Object // nil if there is no object of the name
}

// watched is one watch event. hidden means that the rule does not select it.
type watched struct {
	match  rule.Match
	hidden bool
}

func (c *cluster) thing(name string) *thing {
	if c.things[name] == nil {
		c.things[name] = &thing{}
	}
	return c.things[name]
}

// change makes the next version of an object, and returns the version by which the change is known.
func (c *cluster) change(name string, kind delta.Type, hidden bool) string {
	o := c.thing(name)
	c.version++
	text := fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d"},"foreign":%d,"seen":%d}`,
		name, o.uid, c.version, o.foreign, o.seen)
	now, err := object.FromJSON(text)
	if err != nil {
		c.t.Fatal(err)
	}
	d := delta.Delta{Type: kind, Object: now}
	if kind == delta.Updated {
		d.Old = o.last
	}
	o.last = now
	version := now.ResourceVersion()
	if kind == delta.Deleted {
		o.last, version = nil, "gone "+o.uid
	}
	c.watch = append(c.watch, watched{rule.Match{Delta: d, Version: version}, hidden})
	return version
}

// foreign is a change by somebody else.
func (c *cluster) foreign(name string, kind byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.thing(name)
	switch {
	case o.last == nil:
		*o = thing{uid: fmt.Sprint("u", c.version), foreign: o.foreign + 1}
		c.change(name, delta.Added, false)
	case kind&7 == 0:
		c.change(name, delta.Deleted, false)
	case kind&7 == 1: // the rule does not receive it
		c.change(name, delta.Updated, true)
	default:
		o.foreign++
		c.change(name, delta.Updated, false)
	}
}

// wasDeletedByRule reports whether ev is the rule's own deletion of the object of last, and the
// rule selects no change of somebody else in between. The handler does not receive such a deletion.
// The own actions that followed last, and wait for another attempt, are then about the deletion.
func (c *cluster) wasDeletedByRule(last, ev *handler.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Event != handler.Deleted || ev.UID != last.UID || c.writers["gone "+ev.UID] == nil {
		return false
	}
	return !slices.ContainsFunc(c.watch, func(w watched) bool {
		n, o := version(c.t, handler.Event{ResourceVersion: w.match.Delta.Object.ResourceVersion()}), w.match.Delta.Object
		return o.UID() == ev.UID && version(c.t, *last) < n && !w.hidden && c.writers[w.match.Version] == nil
	})
}

// life is one process of the daemon.
type life struct {
	*process
	own     *writes
	cluster *cluster
	next    func() byte
	renewed sync.Map // versions that Renew returned
}

// Do performs actions as an executor does. Its responses come late, or not at all.
func (l *life) Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error {
	for _, a := range actions {
		if err := l.act(ctx, ev, a); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) Perform(context.Context, Performance) (trail.Verdict, error) { panic("not its own") }

func (l *life) Check(*handler.Event, []handler.Action) error             { return nil }
func (l *life) Delay(_ context.Context, ev *handler.Event) time.Duration { return l.pause() }

func (l *life) pause() time.Duration { return time.Duration(l.next()&3) * 20 * time.Millisecond }

func (l *life) act(ctx context.Context, ev *handler.Event, a handler.Action) error {
	c := l.cluster
	n := l.own.begin(a.Name)
	version, b := "", l.next()
	defer func() {
		l.own.mu.Lock()
		defer l.own.mu.Unlock()
		if version != "" {
			l.own.mine[version] = true
		}
		l.own.writing[a.Name] = slices.DeleteFunc(l.own.writing[a.Name], func(other uint64) bool { return other == n })
	}()
	time.Sleep(l.pause())
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	o, made := c.thing(a.Name), ""
	switch {
	case o.last == nil, a.UID != "" && o.uid != a.UID: // there is nothing to change any more
	case a.UID != "" && o.last.ResourceVersion() != ev.ResourceVersion:
		c.conflicts++
		c.mu.Unlock()
		return fmt.Errorf("conflict: %w", ErrStale)
	case a.Verb == handler.ActionDelete:
		made = c.change(a.Name, delta.Deleted, false)
	case a.UID == "": // it would change the object in any state
		made = c.change(a.Name, delta.Updated, false)
	default:
		if seen, err := strconv.Atoi(string(a.Patch)); err != nil {
			c.t.Error(err)
		} else if seen != o.seen {
			o.seen = seen
			made = c.change(a.Name, delta.Updated, false)
		}
	}
	lost := b&0x70 == 0x70
	if made != "" && !lost {
		c.writers[made] = l
	}
	c.mu.Unlock()
	time.Sleep(l.pause())
	if lost {
		return errors.New("the connection was reset")
	}
	version = made
	return nil
}

// renew returns what the watch has brought by now.
func (l *life) renew(d delta.Delta) (rule.Match, bool) {
	l.s.mu.Lock()
	at := l.s.at
	l.s.mu.Unlock()
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	for _, w := range slices.Backward(l.cluster.watch[:at]) {
		if o := w.match.Delta.Object; o.UID() == d.Object.UID() {
			if w.match.Delta.Type != delta.Deleted {
				d.Object = o
				l.renewed.Store(o.ResourceVersion(), true)
			}
			break
		}
	}
	return rule.Match{Delta: d}, true
}

// reconciler is the rule's handler.
type reconciler struct {
	t       *testing.T
	cluster *cluster
	mu      sync.Mutex
	next    func() byte
	busy    map[string]bool
	last    map[string]handler.Event
	heard   map[string]bool // by uid: whether the object should exist
	life    *life
	// The rule has own actions, too. While they wait for another attempt, it receives a deletion of
	// its own: see ends.
	isBoth bool
}

func (r *reconciler) Handle(_ context.Context, ev handler.Event) (answer handler.Answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[ev.Name] {
		r.t.Errorf("%s comes while another event of %s is handled", ev.ID, ev.Name)
	}
	if last, ok := r.last[ev.Name]; ok && version(r.t, ev) < version(r.t, last) {
		r.t.Errorf("%s comes after %s", ev.ID, last.ID)
	}
	known := ev.ResourceVersion
	if ev.Event == handler.Deleted {
		known = "gone " + ev.UID
	}
	r.cluster.mu.Lock()
	_, renewed := r.life.renewed.Load(known)
	if r.cluster.writers[known] == r.life && !renewed && !(r.isBoth && ev.Event == handler.Deleted) {
		r.t.Errorf("%s is the rule's own change", ev.ID)
	}
	r.cluster.mu.Unlock()
	r.last[ev.Name] = ev
	r.heard[ev.UID] = ev.Event != handler.Deleted
	b := r.next()
	r.busy[ev.Name] = true
	r.mu.Unlock()
	time.Sleep(time.Duration(b>>3&3) * 30 * time.Millisecond)
	r.mu.Lock()
	r.busy[ev.Name] = false
	switch {
	case b&7 == 6:
		return answer, errors.New("down")
	case b&7 == 7:
		return answer, handler.RetryAfter(time.Second, nil)
	case ev.Event == handler.Deleted:
		return answer, nil
	}
	var state struct{ Foreign, Seen int }
	if err := json.Unmarshal(ev.Object, &state); err != nil {
		r.t.Error(err)
	}
	self := handler.Action{Verb: handler.ActionPatch, Name: ev.Name, UID: ev.UID, Patch: fmt.Append(nil, state.Foreign)}
	switch {
	case state.Foreign%5 == 4:
		self.Verb, self.Patch = handler.ActionDelete, nil
	// if so, the answer is a patch that changes nothing
	case state.Seen == state.Foreign && b&7 != 5:
		return answer, nil
	}
	answer.Actions = []handler.Action{self}
	if b>>5&3 == 3 {
		other := handler.Action{Verb: handler.ActionPatch, Name: names[b>>3&3]}
		answer.Actions = slices.Insert(answer.Actions, int(b>>7), other)
	}
	return answer, nil
}

// sequel performs the own actions of a rule with a handler. They change nothing, and fail now and
// then. It notes the last version for which they succeeded, by uid.
type sequel struct {
	*reconciler
	done map[string]int // guarded by reconciler.mu
}

func (a *sequel) Check(*handler.Event, []handler.Action) error { return nil }

func (a *sequel) Delay(context.Context, *handler.Event) time.Duration { return 0 }

func (a *sequel) Do(context.Context, *handler.Event, []handler.Action) error { panic("no answer") }

func (a *sequel) Perform(_ context.Context, p Performance) (trail.Verdict, error) {
	ev := p.Event
	a.mu.Lock()
	defer a.mu.Unlock()
	last, heard := a.last[ev.Name]
	_, renewed := a.life.renewed.Load(ev.ResourceVersion)
	if heard && !renewed && version(a.t, last) != version(a.t, *ev) && !a.cluster.wasDeletedByRule(&last, ev) {
		a.t.Errorf("own actions for %s, but the handler last received %s", ev.ID, last.ID)
	}
	if a.busy[ev.Name] {
		a.t.Errorf("own actions for %s while the handler has an event of %s", ev.ID, ev.Name)
	}
	switch a.next() & 7 {
	case 5:
		return 0, fmt.Errorf("conflict: %w", ErrStale)
	case 6:
		return 0, errors.New("down")
	case 7:
		return 0, Later(3*time.Second, errors.New("one target is down"))
	}
	a.done[ev.UID] = version(a.t, *ev)
	return 0, nil
}

var names = []string{"web", "db", "api", "job"}

// FuzzActing lets a rule change the objects of its events, and others, while somebody else changes
// them too. The watch overtakes responses and falls behind them. There are conflicts, lost
// responses and crashes. In every case the rule does not receive changes that its process made
// itself. Events of an object come in order and one at a time. Own actions follow the event that
// they are about, if the rule has both. In the end the rule has seen to everybody's last change of
// each object, with a bounded number of conflicts.
func FuzzActing(f *testing.F) {
	f.Add([]byte{0, 8, 24, 4, 8, 24, 12, 8, 24, 4, 8, 24, 7, 5, 8, 24, 4}, []byte{1, 2, 3, 0, 1, 2})
	f.Add([]byte{1, 0, 24, 0, 24, 0, 24, 4, 0, 9, 12, 0, 24, 5, 0, 24, 4, 1, 24, 6, 1, 8, 12}, []byte{97, 3, 2, 225, 1, 0, 3, 255, 3})
	f.Add([]byte{2, 0, 24, 4, 0, 8, 4, 7, 0, 24, 4, 0, 24, 15, 4, 23, 5, 1, 24, 4, 7, 0, 24, 28}, []byte{3, 3, 3, 3, 112, 3, 2, 1, 96, 227})
	f.Add([]byte{3, 0, 24, 4, 1, 24, 4, 2, 24, 4, 3, 24, 4, 15, 5, 0, 24, 1, 24, 4, 4, 4}, []byte{229, 2, 253, 3, 101, 3, 1, 7, 6, 5})
	f.Add([]byte{4, 0, 24, 4, 1, 24, 4, 2, 24, 4, 3, 24, 4, 15, 5, 0, 24, 1, 24, 4, 4, 4}, []byte{229, 2, 253, 3, 101, 3, 1, 7, 6, 5, 5, 5, 6, 6, 1, 5})
	f.Add([]byte{5, 0, 24, 0, 24, 0, 24, 4, 0, 9, 12, 0, 24, 5, 0, 24, 4, 1, 24, 6, 1, 8, 12, 7, 5}, []byte{97, 3, 2, 225, 5, 5, 5, 1, 0, 3, 255, 3, 6})
	f.Add([]byte{6, 0, 24, 4, 0, 8, 4, 7, 0, 24, 4, 0, 24, 15, 4, 23, 5, 1, 24, 4, 7, 0, 24, 28}, []byte{3, 3, 6, 3, 5, 5, 112, 3, 2, 1, 96, 227})
	f.Add([]byte("$0000'\x00B*B1"), []byte("\xe5990A2101%"))
	f.Add([]byte{4, 0, 24, 4, 8, 24, 4, 0, 24, 7, 5, 0, 24, 4, 0, 24, 15, 4, 0, 24, 31, 5}, []byte{0, 7, 0, 7, 7, 0, 7, 0, 7, 7, 5, 7})
	f.Fuzz(func(t *testing.T, changes, answers []byte) {
		if len(changes)+len(answers) > 500 {
			t.Skip("longer programs only take longer")
		}
		synctest.Test(t, func(t *testing.T) { acted(t, changes, answers) })
	})
}

func acted(t *testing.T, changes, answers []byte) {
	var mu sync.Mutex
	reader := func(program []byte) func() byte {
		return func() (b byte) {
			mu.Lock()
			defer mu.Unlock()
			if len(program) > 0 {
				b, program = program[0], program[1:]
			}
			return b
		}
	}
	next, nextAnswer := reader(changes), reader(answers)
	c := &cluster{t: t, things: map[string]*thing{}, writers: map[string]*life{}}
	h := &reconciler{t: t, cluster: c, next: nextAnswer, busy: map[string]bool{}, last: map[string]handler.Event{}, heard: map[string]bool{}}
	setup := next()
	var implementation handler.Handler = h
	if setup&2 == 2 {
		implementation = elsewhere{h}
	}
	h.isBoth = setup&4 == 4
	own := &sequel{h, map[string]int{}}
	begin := func(s *shelf) *life {
		l := &life{own: newWrites(), cluster: c, next: nextAnswer}
		h.mu.Lock()
		h.life = l
		h.mu.Unlock()
		d := New(Recipient{Handler: implementation, Concurrency: 3, Retry: Retry{Backoff: 100 * time.Millisecond, MaxBackoff: 4 * time.Second}},
			NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: l})
		p := preparer{renew: l.renew}
		if h.isBoth {
			p.actions = func(context.Context, delta.Delta) ([]handler.Action, error) { return []handler.Action{{}}, nil }
		}
		lane := d.Lane("r", pods, p.lane(LaneOptions{Store: s, Every: setup&1 == 1, Own: l.own, Acts: true, Actor: own}))
		s.restore(lane)
		l.process = &process{s, lane, nil}
		l.stop = start(t, d)
		return l
	}
	l := begin(newShelf(t))
	// hear lets the watch bring further events, at most as many as most says.
	hear := func(most int) {
		for range most {
			c.mu.Lock()
			if l.s.at == len(c.watch) {
				c.mu.Unlock()
				return
			}
			w := c.watch[l.s.at]
			c.mu.Unlock()
			l.s.Begin()
			if !w.hidden {
				l.l.Offer(w.match)
			}
			l.s.mu.Lock()
			l.s.at++
			l.s.mu.Unlock()
			l.s.End()
		}
	}
	for n := 1; n < len(changes); n++ {
		b := next()
		switch b & 7 {
		default:
			c.foreign(names[b&3], next())
		case 4:
			pass(time.Duration(b>>3) * 7 * time.Millisecond)
		case 5:
			hear(int(b>>3) + 1)
		case 6:
			l.s.write()
		case 7:
			heard := l.s.at
			s := l.kill()
			h.mu.Lock()
			clear(h.busy)
			clear(h.last)
			h.mu.Unlock()
			l = begin(s)
			l.l.Doubt(true)
			hear(heard - s.at)
			l.l.Doubt(false)
		}
	}
	l.s.mu.Lock()
	l.s.writes = true
	l.s.mu.Unlock()
	for rounds := 0; ; rounds++ {
		c.mu.Lock()
		all := len(c.watch)
		c.mu.Unlock()
		stats := l.l.Stats()
		if stats.Waiting+stats.InFlight+stats.Away == 0 && l.s.at == all {
			break
		}
		if rounds > 20_000 {
			t.Fatalf("deliveries still wait or fly: %+v", stats)
		}
		hear(all)
		pass(100 * time.Millisecond)
	}
	equal(t, "records", l.s.ids(), nil)
	equal(t, "unknown", len(l.l.shared.owned.unknown), 0)
	if most := 10 * (len(c.watch) + len(changes)); c.conflicts > most {
		t.Errorf("%d conflicts over %d changes", c.conflicts, len(c.watch))
	}
	for _, name := range slices.Sorted(maps.Keys(c.things)) {
		o := c.things[name]
		if last, heard := h.last[name]; heard && h.isBoth && own.done[last.UID] < version(t, last) {
			t.Errorf("own actions of %s were done for version %d", last.ID, own.done[last.UID])
		}
		switch {
		case o.last == nil:
			deleted := "gone " + o.uid
			if c.writers[deleted] == nil && h.heard[o.uid] && !slices.ContainsFunc(c.watch, func(w watched) bool { return w.match.Version == deleted && w.hidden }) {
				t.Errorf("%s was deleted, but the handler did not receive that", name)
			}
		case o.foreign%5 == 4:
			t.Errorf("%s still exists at %d; the rule deletes every fifth", name, o.foreign)
		case o.seen != o.foreign:
			t.Errorf("%s is at %d, and was seen at %d", name, o.foreign, o.seen)
		case !h.heard[o.uid]:
			t.Errorf("%s was not heard of", name)
		}
	}
}
