package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// allInOne is the grouping of rules whose changes are all one group.
func allInOne(delta.Delta) rule.Group { return rule.Group{'*'} }

// groups is a lane whose changes come in groups, and what records them.
type groups struct {
	t        *testing.T
	queued   *shelf // of the queue
	gathered *shelf
	last     map[rule.Group]gather.LastEvent
	lane     *Lane
	to       *recorder
	end      func()
}

// startGroups starts a lane over what the shelves hold.
func startGroups(t *testing.T, g *groups, o LaneOptions) *groups {
	t.Helper()
	if g.queued == nil {
		g.queued, g.gathered, g.last = newShelf(t), newShelf(t), make(map[rule.Group]gather.LastEvent)
	}
	g.gathered.writes = true
	g.t = t
	gathering := o.Gathering
	gathering.Store = g.gathered
	gathering.Remember = func(id rule.Group, last gather.LastEvent) { g.last[id] = last }
	gathering.Forget = func(id rule.Group) { delete(g.last, id) }
	o.Store = g.queued
	d := New(Recipient{Name: "h", Handler: g.to, Retry: Retry{Backoff: time.Minute, MaxBackoff: time.Minute}},
		NewLetterBox(LetterBoxOptions{}), Options{Journal: bothShelves{g.queued, g.gathered}})
	g.lane = d.Lane("r", pods, o)
	g.queued.restore(g.lane)
	g.lane.RestoreGathered(g.gathered.gathered(), g.last)
	g.end = start(t, d)
	return g
}

// killed returns what the next process finds.
func (g *groups) killed(to *recorder) *groups {
	g.queued.write()
	g.gathered.write()
	next := &groups{queued: g.queued.kill(), gathered: g.gathered.kill(), last: g.last, to: to}
	g.lane.newest().Close()
	g.end()
	return next
}

func (g *groups) offer(of func(delta.Delta) rule.Group, matches ...rule.Match) {
	for _, m := range matches {
		m.Group = of(m.Delta)
		both := bothShelves{g.queued, g.gathered}
		both.Begin()
		g.lane.Offer(m)
		both.End()
	}
}

// events returns the items of each event, and its number if it was attempted before.
func (r *recorder) groups() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.events {
		var items []string
		for _, item := range ev.Items {
			items = append(items, strings.TrimPrefix(item.ID, "r/"))
		}
		text := strings.Join(items, " ")
		if ev.Items == nil {
			text = "alone " + strings.TrimPrefix(ev.ID, "r/")
		}
		if ev.Attempt > 1 {
			text += fmt.Sprintf(" #%d", ev.Attempt)
		}
		out = append(out, text)
	}
	return out
}

// bothShelves is the Journal of two shelves.
type bothShelves [2]*shelf

func (b bothShelves) Begin() {
	b[0].Begin()
	b[1].Begin()
}

func (b bothShelves) End() {
	b[1].End()
	b[0].End()
}

func (b bothShelves) Written(ctx context.Context) error {
	return errors.Join(b[0].Written(ctx), b[1].Written(ctx))
}

func (b bothShelves) Await(ctx context.Context, cut uint64) error { return b[0].Await(ctx, cut) }

// gathered returns what RestoreGathered gets.
func (s *shelf) gathered() (all []Gathered) {
	byKey := make(map[delta.Key]*Gathered)
	for n, f := range s.written {
		g := byKey[f.key]
		if g == nil {
			g = &Gathered{Key: f.key, First: n, Last: n}
			byKey[f.key] = g
		}
		g.First, g.Last = min(g.First, n), max(g.Last, n)
	}
	for _, g := range byKey {
		all = append(all, *g)
	}
	return all
}

// A group has one delivery at a time, even if its last one takes longer than its times.
func TestGroupHasAnEventOnceItsLastOneHasEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		Gathering
	}{
		{"wait", Gathering{Wait: time.Second}},
		{"every", Gathering{Every: time.Second}},
		{"both", Gathering{Wait: time.Second, Every: 10 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				to := &recorder{answer: func(context.Context, handler.Event) error {
					<-release
					return nil
				}}
				c.By, c.Of = "all", allInOne
				g := startGroups(t, &groups{to: to}, LaneOptions{Gathering: &c.Gathering})
				defer func() { g.lane.Close() }()
				g.offer(allInOne, added("a", "ua", 1))
				pass(5 * time.Minute)
				g.offer(allInOne, added("b", "ub", 2))
				pass(5 * time.Minute)
				equal(t, "while the first is in flight", to.groups(), []string{"ua/added/1"})
				close(release)
				pass(time.Minute)
				equal(t, "afterwards", to.groups(), []string{"ua/added/1", "ub/added/2"})
				pass(time.Minute)
				if len(g.last) > 0 || g.lane.gathering().stats().Groups > 0 {
					t.Errorf("it was not forgotten: %v", g.last)
				}
			})
		})
	}
}

// After a restart, the newest change of a group is what it was before, and its event is as early.
func TestGroupKeepsItsOrderOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := func() LaneOptions {
			return LaneOptions{Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Minute}}
		}
		g := startGroups(t, &groups{to: &recorder{}}, options())
		g.offer(allInOne, added("a", "ua", 1))
		pass(30 * time.Second)
		g.offer(allInOne, added("b", "ub", 2), updated("a", "ua", 3))
		g = startGroups(t, g.killed(&recorder{}), options())
		defer func() { g.lane.Close() }()
		pass(29 * time.Second)
		equal(t, "early", g.to.groups(), nil)
		pass(2 * time.Second)
		equal(t, "events", g.to.groups(), []string{"ub/added/2 ua/added/3"})
		equal(t, "records", len(g.gathered.all())+len(g.queued.all()), 0)
	})
}

// Nor does it change if changes came before the older ones were loaded.
func TestGroupKeepsItsOrderOverTwoRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := func() LaneOptions {
			return LaneOptions{Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Minute}}
		}
		g := startGroups(t, &groups{to: &recorder{}}, options())
		g.offer(allInOne, added("a", "ua", 1))
		next := g.killed(&recorder{})
		next.gathered.slow = time.Second
		g = startGroups(t, next, options())
		g.offer(allInOne, updated("a", "ua", 2), added("b", "ub", 3))
		pass(5 * time.Second)
		g = startGroups(t, g.killed(&recorder{}), options())
		defer func() { g.lane.Close() }()
		pass(time.Minute)
		equal(t, "events", g.to.groups(), []string{"ua/added/2 ub/added/3"})
	})
}

// A lane that is succeeded while it loads leaves everything to its successor.
func TestSuccessionWhileGroupsAreLoaded(t *testing.T) {
	for _, isNone := range []bool{false, true} {
		t.Run(fmt.Sprintf("none=%v", isNone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options := func() LaneOptions {
					return LaneOptions{Every: true, Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Minute}}
				}
				g := startGroups(t, &groups{to: &recorder{}}, options())
				g.offer(allInOne, added("a", "ua", 1), updated("a", "ua", 2), added("b", "ub", 3))
				next := g.killed(&recorder{})
				next.gathered.slow = time.Second
				g = startGroups(t, next, LaneOptions{Gathering: &Gathering{Ends: isNone, By: "all", Of: allInOne, Wait: time.Minute}})
				pass(500 * time.Millisecond) // it loads
				o := LaneOptions{Gathering: &Gathering{Ends: isNone, By: "all", Of: allInOne, Wait: time.Minute, Store: g.gathered}, Store: g.queued}
				l := g.lane.dispatcher.Succeed(g.lane, g.lane.naming.rule, o, false)
				defer func() { l.Close() }()
				pass(10 * time.Minute)
				want := []string{"ua/added/2 ub/added/3"}
				if isNone {
					want = []string{"alone ua/added/2", "alone ub/added/3"}
				}
				events := g.to.groups()
				slices.Sort(events)
				equal(t, "events", events, want)
				equal(t, "records", len(g.gathered.all())+len(g.queued.all()), 0)
			})
		})
	}
}

// What is offered at the moment when a lane is succeeded is not lost.
func TestOffersWhileGroupsAreSucceeded(t *testing.T) {
	to := &recorder{}
	d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{}), Options{})
	start(t, d)
	options := func() LaneOptions {
		return LaneOptions{Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Millisecond}}
	}
	first := d.Lane("r", pods, options())
	const n = 20_000
	var offering sync.WaitGroup
	var isOver atomic.Bool
	offering.Go(func() {
		defer isOver.Store(true)
		for i := range n {
			m := added(fmt.Sprint("p", i), "u", i+1)
			m.Group = allInOne(m.Delta)
			first.Offer(m)
		}
	})
	last := first
	for !isOver.Load() {
		last = d.Succeed(last, last.naming.rule, options(), false)
	}
	offering.Wait()
	defer last.Close()
	got := 0
	for deadline := time.Now().Add(30 * time.Second); got < n && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got = 0
		to.mu.Lock()
		for _, ev := range to.events {
			got += len(ev.Items)
		}
		to.mu.Unlock()
	}
	equal(t, "items", got, n)
}

// An object whose newest changes cancelled out may still have an older one in its group.
func TestLookAtWhatIsLeftInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &recorder{}
		g := startGroups(t, &groups{to: to}, LaneOptions{Gathering: &Gathering{By: "all", Of: allInOne, Every: time.Minute}})
		g.offer(allInOne, added("a", "ua", 1))
		synctest.Wait()
		pass(10 * time.Second)
		g.offer(allInOne, deleted("a", "ua", 2))
		g.offer(allInOne, added("a", "ub", 3))
		g.offer(allInOne, deleted("a", "ub", 4))
		o := g.lane.Look(delta.Key{Namespace: "shop", Name: "a"})
		if until := time.Until(o.Next); o.Gathered != 1 || until != 50*time.Second {
			t.Errorf("%d changes wait, for %v", o.Gathered, until)
		}
		pass(time.Minute)
		equal(t, "told", to.groups(), []string{"ua/added/1", "ua/deleted/2"})
		g.end()
	})
}
