package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// A lane that takes the place of another one, at another handler, delivers what waits there. What is
// in flight ends at its handler, and holds up later changes of its object only.
func TestSuccessorDeliversWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		first := &recorder{answer: func(context.Context, handler.Event) error {
			<-release
			return nil
		}}
		second := &recorder{}
		one := New(Recipient{Name: "one", Handler: first, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		two := New(Recipient{Name: "two", Handler: second}, NewLetterBox(LetterBoxOptions{}), Options{})
		start(t, one)
		start(t, two)
		l := one.Lane("r", pods, LaneOptions{Every: true})
		l.Offer(added("a", "ua", 1))
		synctest.Wait()
		l.Offer(updated("a", "ua", 2))
		l.Offer(added("b", "ub", 3))
		next := two.Succeed(l, l.naming.rule, LaneOptions{Every: true}, false)
		l.Offer(updated("b", "ub", 4)) // by a caller that still has the old lane
		next.Offer(updated("a", "ua", 5))
		synctest.Wait()
		equal(t, "at the first", first.ids(), []string{"r/ua/added/1"})
		equal(t, "at the second", second.ids(), []string{"r/ub/added/3", "r/ub/updated/4"})
		close(release)
		synctest.Wait()
		equal(t, "at the first", first.ids(), []string{"r/ua/added/1"})
		equal(t, "at the second", second.ids()[2:], []string{"r/ua/updated/2", "r/ua/updated/5"})
		if next.Holds(delta.Key{Namespace: "shop", Name: "a"}) {
			t.Error("something is left")
		}
	})
}

// What fails at the old handler, which ends meanwhile, is repeated at the new one.
func TestSuccessorRepeatsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &recorder{answer: func(ctx context.Context, _ handler.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		second := &recorder{}
		one := New(Recipient{Name: "one", Handler: first}, NewLetterBox(LetterBoxOptions{}), Options{DrainTimeout: time.Second})
		two := New(Recipient{Name: "two", Handler: second}, NewLetterBox(LetterBoxOptions{}), Options{})
		end := start(t, one)
		start(t, two)
		l := one.Lane("r", pods, LaneOptions{})
		l.Offer(added("a", "ua", 1))
		synctest.Wait()
		two.Succeed(l, l.naming.rule, LaneOptions{}, false)
		end()
		pass(time.Minute)
		equal(t, "at the second", second.ids(), []string{"r/ua/added/1"})
	})
}

// Deliveries that are held back because the handler was lost with them go on at the successor.
func TestSuccessorTakesSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found atomic.Bool // the handler
		to := &recorder{answer: func(ctx context.Context, _ handler.Event) error {
			if !found.Load() {
				return errors.Join(handler.ErrLost, errors.New("gone"))
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{}), Options{DrainTimeout: time.Second})
		end := start(t, d)
		l := d.Lane("r", pods, LaneOptions{})
		for _, name := range []string{"a", "b", "c"} {
			l.Offer(added(name, name, 1))
		}
		synctest.Wait()
		found.Store(true)
		pass(time.Minute)
		second := &recorder{}
		two := New(Recipient{Name: "two", Handler: second}, NewLetterBox(LetterBoxOptions{}), Options{})
		start(t, two)
		two.Succeed(l, l.naming.rule, LaneOptions{}, false)
		pass(time.Minute)
		end()
		pass(time.Minute)
		var objects []string
		second.mu.Lock()
		defer second.mu.Unlock()
		for _, ev := range second.events {
			objects = append(objects, ev.Name)
		}
		slices.Sort(objects)
		equal(t, "at the second", objects, []string{"a", "b", "c"})
	})
}

// A paused lane's successor is paused.
func TestSuccessorStaysPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &recorder{}
		d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{}), Options{})
		start(t, d)
		l := d.Lane("r", pods, LaneOptions{})
		l.Pause()
		l.Offer(added("a", "ua", 1))
		next := d.Succeed(l, l.naming.rule, LaneOptions{}, false)
		synctest.Wait()
		equal(t, "while it is paused", to.ids(), nil)
		next.Resume()
		synctest.Wait()
		equal(t, "afterwards", to.ids(), []string{"r/ua/added/1"})
	})
}

// What was gathered comes in the groups of the successor, at its times; and one by one if it has
// none.
func TestSuccessorInheritsGroups(t *testing.T) {
	byName := func(d delta.Delta) rule.Group { return rule.Group{d.Object.Name()[0]} }
	all := func(delta.Delta) rule.Group { return rule.Group{'*'} }
	offer := func(l *Lane, of func(delta.Delta) rule.Group, m rule.Match) {
		m.Group = of(m.Delta)
		l.Offer(m)
	}
	items := func(r *recorder) (out [][]string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, ev := range r.events {
			var names []string
			for _, item := range ev.Items {
				names = append(names, item.Name)
			}
			out = append(out, names)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		next  *Gathering
		after time.Duration
		want  [][]string
	}{
		{"same", &Gathering{By: "all", Wait: time.Minute, Of: all}, 31 * time.Second, [][]string{{"a", "b", "c"}}},
		{"longer", &Gathering{By: "all", Wait: time.Hour, Of: all}, time.Minute, nil},
		{"by name", &Gathering{By: "name", Wait: time.Minute, Of: byName}, 91 * time.Second, [][]string{{"a"}, {"b"}, {"c"}}},
		{"none", &Gathering{Ends: true}, time.Second, [][]string{nil, nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &recorder{}
				d := New(Recipient{Name: "h", Handler: to, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
				start(t, d)
				l := d.Lane("r", pods, LaneOptions{Gathering: &Gathering{By: "all", Wait: time.Minute, Of: all}})
				defer func() { l.newest().Close() }()
				offer(l, all, added("a", "ua", 1))
				pass(30 * time.Second)
				offer(l, all, added("b", "ub", 2))
				next := d.Succeed(l, l.naming.rule, LaneOptions{Gathering: c.next}, false)
				of := all
				if c.next.Of != nil {
					of = c.next.Of
				}
				pass(time.Second)
				offer(next, of, added("c", "uc", 3))
				pass(c.after)
				equal(t, "events", items(to), c.want)
			})
		})
	}
}

// Whoever pauses or resumes a lane that has just been succeeded means the rule, and so the successor.
func TestPauseOfASucceededLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := new(recorder)
		d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{}), Options{})
		other := New(Recipient{Name: "other", Handler: to}, NewLetterBox(LetterBoxOptions{}), Options{})
		start(t, d)
		start(t, other)
		first := d.Lane("r", pods, LaneOptions{})
		second := other.Succeed(first, "r", LaneOptions{}, false)
		first.Pause()
		second.Offer(added("a", "ua", 1))
		pass(time.Minute)
		equal(t, "of a paused rule", to.ids(), []string(nil))
		third := d.Succeed(second, "r", LaneOptions{}, false)
		if !first.Paused() || !third.Paused() {
			t.Error("the rule is not paused")
		}
		first.Resume()
		pass(time.Minute)
		equal(t, "of a resumed rule", to.ids(), []string{"r/ua/added/1"})
	})
}
