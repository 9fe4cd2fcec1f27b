package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// byVersion makes each change a group of its own.
func byVersion(d delta.Delta) (g rule.Group) {
	copy(g[:], d.Object.ResourceVersion())
	return g
}

// waiting returns how many changes and groups the lane has.
func (g *groups) waiting() (changes, groups, queued int) {
	s := g.lane.gathering().stats()
	return s.Items, s.Groups, g.lane.queue.Stats().Waiting
}

// A group whose key changes with every change must not grow without bound, in either mode, if the
// handler takes nothing. No final state is lost.
func TestGroupsThatChangeAreBounded(t *testing.T) {
	for _, c := range []struct {
		why   string
		every bool
		wait  time.Duration
	}{
		{"latest, long", false, 744 * time.Hour}, {"every, long", true, 744 * time.Hour},
		{"latest, short", false, time.Second}, {"every, short", true, time.Second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const objects, most = 5, 10
				var isDown atomic.Bool
				isDown.Store(true)
				to := &recorder{answer: func(context.Context, handler.Event) error {
					if isDown.Load() {
						return errors.New("down")
					}
					return nil
				}}
				g := startGroups(t, &groups{to: to}, LaneOptions{Every: c.every, MaxItems: most, Gathering: &Gathering{By: "v", Of: byVersion, Wait: c.wait}})
				defer func() { g.lane.Close() }()
				version := 0
				for round := range 400 {
					for n := range objects {
						name := fmt.Sprint("o", n)
						version++
						m := updated(name, "u"+name, version)
						if round == 0 {
							m = added(name, "u"+name, version)
						}
						g.offer(byVersion, m)
					}
					pass(3 * time.Second)
					changes, groups, queued := g.waiting()
					if changes > most+objects || groups > 2*(most+objects) || queued > most+objects {
						t.Fatalf("%d changes in %d groups wait, %d deliveries are queued", changes, groups, queued)
					}
					if records := len(g.gathered.all()); records > most+objects {
						t.Fatalf("%d records", records)
					}
				}
				if g.lane.gathering().stats().Lost == 0 {
					t.Error("nothing was counted")
				}
				isDown.Store(false)
				pass(800 * time.Hour)
				if changes, groups, queued := g.waiting(); changes+groups+queued > 0 {
					t.Errorf("%d changes in %d groups wait, %d deliveries are queued", changes, groups, queued)
				}
				all := strings.Join(to.groups(), "\n")
				for n := range objects {
					if last := fmt.Sprintf("uo%d/updated/%d", n, version-objects+n+1); !strings.Contains(all, last) && !strings.Contains(all, strings.Replace(last, "updated", "added", 1)) {
						t.Errorf("%s got no event", last)
					}
				}
			})
		})
	}
}

// Events of a group of very many objects come early while the handler takes them, and are throttled
// again afterwards.
func TestFullGroupHasItsEventEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &recorder{}
		g := startGroups(t, &groups{to: to}, LaneOptions{MaxItems: 10, Gathering: &Gathering{By: "all", Of: allInOne, Wait: 744 * time.Hour}})
		defer func() { g.lane.Close() }()
		for n := range 10 {
			g.offer(allInOne, added(fmt.Sprint("o", n), fmt.Sprint("u", n), n+1))
		}
		pass(time.Hour)
		equal(t, "events within the bound", len(to.groups()), 0)
		for n := 10; n < 95; n++ {
			g.offer(allInOne, added(fmt.Sprint("o", n), fmt.Sprint("u", n), n+1))
		}
		pass(time.Minute)
		changes, _, _ := g.waiting()
		if changes > 10 || len(to.groups()) == 0 {
			t.Errorf("%d changes wait after %d events", changes, len(to.groups()))
		}
		before := len(to.groups())
		pass(700 * time.Hour)
		equal(t, "events before the time is over", len(to.groups()), before)
		pass(100 * time.Hour)
		equal(t, "items", len(strings.Fields(strings.Join(to.groups(), " "))), 95)
	})
}

// So is one of large objects: the bound of bytes holds like that of items.
func TestGatheredBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &recorder{}
		change := func(n int) rule.Match {
			return added(fmt.Sprintf("o%02d", n), fmt.Sprintf("u%02d", n), 10+n)
		}
		one := delivery.Delivery{Delta: change(0).Delta}
		most := 10 * delivery.Size(&one)
		g := startGroups(t, &groups{to: to}, LaneOptions{MaxBytes: most, Gathering: &Gathering{By: "all", Of: allInOne, Wait: 744 * time.Hour}})
		defer func() { g.lane.Close() }()
		for n := range 95 {
			g.offer(allInOne, change(n))
			pass(time.Minute)
		}
		if bytes := g.lane.gathering().stats().Bytes; bytes > most || bytes == 0 || len(to.groups()) == 0 {
			t.Errorf("%d of %d bytes wait after %d events", bytes, most, len(to.groups()))
		}
		pass(800 * time.Hour)
		equal(t, "items", len(strings.Fields(strings.Join(to.groups(), " "))), 95)
	})
}

// A full gathering whose groups all wait for a handler that hangs must not run hot.
func TestFullGroupsRestWhileTheHandlerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		to := &recorder{answer: func(context.Context, handler.Event) error { <-release; return nil }}
		g := startGroups(t, &groups{to: to}, LaneOptions{MaxItems: 10, Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Hour}})
		defer func() { g.lane.Close() }()
		for n := range 100 {
			g.offer(allInOne, added(fmt.Sprint("o", n), fmt.Sprint("u", n), n+1))
			if n == 20 {
				pass(time.Second)
			}
		}
		pass(time.Hour) // if it ran hot, this would not end
		close(release)
		pass(3 * time.Hour)
		equal(t, "items", len(strings.Fields(strings.Join(to.groups(), " "))), 100)
	})
}

// Groups that had an event are remembered because of Every, but not without bound, even if the
// object that they were about is always busy.
func TestRememberedGroupsAreBounded(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			to := &recorder{answer: func(_ context.Context, e handler.Event) error {
				if hangs {
					<-release
				}
				return nil
			}}
			g := startGroups(t, &groups{to: to}, LaneOptions{Gathering: &Gathering{By: "v", Of: byVersion, Every: 744 * time.Hour, maxGroups: 20}})
			defer func() { g.lane.Close() }()
			for n := range 200 {
				g.offer(byVersion, updated("a", "ua", n+1))
				pass(time.Second)
				if _, groups, _ := g.waiting(); groups > 21 || len(g.last) > 21 {
					t.Fatalf("%d groups are remembered, %d recorded", groups, len(g.last))
				}
			}
			if g.lane.gathering().stats().Forgotten == 0 {
				t.Error("nothing was counted")
			}
			close(release)
			pass(time.Minute)
			all := to.groups()
			if len(all) == 0 || all[len(all)-1] != "ua/updated/200" {
				t.Errorf("the last event is %v", all)
			}
		})
	}
}
