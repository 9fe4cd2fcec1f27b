package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// enters makes an action of the rule go through the gate, and returns how to end it.
func enters(t *testing.T, g *gate, rule string) (leave func(bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	leave, err := g.enter(ctx, rule)
	if err != nil {
		return nil
	}
	return leave
}

// fills lets in as many actions of the rule as may be.
func fills(t *testing.T, g *gate, rule string) (in []func(bool)) {
	t.Helper()
	for leave := enters(t, g, rule); leave != nil; leave = enters(t, g, rule) {
		in = append(in, leave)
	}
	return in
}

func TestGateBoundsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		in := slices.Concat(fills(t, g, "a"), fills(t, g, "b"))
		if len(in) != perAll || enters(t, g, "c") != nil {
			t.Fatalf("%d actions of two rules are under way, want %d", len(in), perAll)
		}
		in[0](false)
		if enters(t, g, "b") != nil {
			t.Error("a rule has more than its share")
		}
		last := enters(t, g, "c")
		if last == nil {
			t.Fatal("there is a place, and nobody gets it")
		}
		for _, leave := range append(in[1:], last) {
			leave(false)
		}
		if g.busy != 0 || len(g.of) != 0 || len(g.turns) != 0 {
			t.Errorf("at the end the gate holds %+v", g)
		}
	})
}

// A rule with many actions does not keep those of another waiting.
func TestRulesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		in := slices.Concat(fills(t, g, "a"), fills(t, g, "b"))
		var mu sync.Mutex
		var order []string
		wants := func(rule string) {
			go func() {
				leave, err := g.enter(t.Context(), rule)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, rule)
				mu.Unlock()
				time.Sleep(time.Second)
				leave(false)
			}()
			synctest.Wait()
		}
		for range 4 {
			wants("a")
		}
		wants("c")
		wants("d")
		for _, leave := range in[:6] {
			leave(false)
			synctest.Wait()
		}
		if got := fmt.Sprint(order); got != "[a c d a a a]" {
			t.Errorf("let in %s", got)
		}
		for _, leave := range in[6:] {
			leave(false)
		}
		time.Sleep(time.Minute)
	})
}

// A rule whose requests are too many for the API server makes fewer at once for some seconds. What
// began before that counts once.
func TestShareIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		leaveAll := func(in []func(bool), isOverload bool) {
			for _, leave := range in {
				leave(isOverload)
			}
		}
		for _, want := range []int{8, 4, 2, 1, 1} {
			in := fills(t, g, "r")
			if len(in) != want {
				t.Fatalf("%d under way, want %d", len(in), want)
			}
			leaveAll(in, true)
		}
		other := fills(t, g, "other")
		if len(other) != perRule {
			t.Errorf("another rule has a share of %d", len(other))
		}
		leaveAll(other, false)
		for _, want := range []int{2, 3, 4, 5, 6, 7, 8, 8} {
			time.Sleep(oneMore)
			in := fills(t, g, "r")
			if len(in) != want {
				t.Errorf("%d under way, want %d", len(in), want)
			}
			leaveAll(in, false)
		}
		if len(g.of) != 0 {
			t.Error("the gate remembers a rule that is as any other")
		}
	})
}

// Whoever waits no longer takes no place, also if the place comes at the same time.
func TestWaitsAtTheGateEnd(t *testing.T) {
	g := newGate(time.Now)
	var most atomic.Int64
	var under [4]atomic.Int64
	var group sync.WaitGroup
	for i := range 400 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*100*time.Microsecond)
			defer cancel()
			leave, err := g.enter(ctx, fmt.Sprint(i%4))
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return
			}
			if n := under[i%4].Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Millisecond)
			under[i%4].Add(-1)
			leave(false)
		})
	}
	group.Wait()
	if most.Load() > perRule || g.busy != 0 || len(g.of) != 0 || len(g.turns) != 0 {
		t.Errorf("at most %d under way; at the end %+v", most.Load(), g)
	}
}

func TestGateIsBounded(t *testing.T) {
	g := newGate(time.Now)
	for i := range 2 * maxRules {
		leave, err := g.enter(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		leave(true)
	}
	if len(g.of) > maxRules {
		t.Errorf("the gate knows %d rules, want at most %d", len(g.of), maxRules)
	}
}

// A rule acts for 50 events a second, 100 at once, however many actions each asks for.
func TestEventsOfARuleAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &Executor{writes: NewWrites()}
		began := time.Now()
		for range burst + perSecond {
			s := x.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil)
			for range 100 {
				if err := s.await(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if took := time.Since(began); took < 990*time.Millisecond || took > 1010*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := x.Begin(ctx, By{Rule: "r"}, anEvent(), nil).await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// What the API server says of its load reaches the gate, what a webhook says does not.
func TestOverloadLowersTheShare(t *testing.T) {
	for message, want := range map[string]int{
		"too many requests": 4,
		`admission webhook "w" denied the request: later`: 0, // forgotten: as that of any other rule
	} {
		s := newServer(t, answers(http.StatusTooManyRequests, status(429, "TooManyRequests", message, "")))
		if _, err := s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).One(t.Context(), Request{Action: aPatch()}); err == nil {
			t.Fatal("no error")
		}
		got := 0
		if of := s.limits.gate.of["r"]; of != nil {
			got = of.limit
		}
		if got != want || s.limits.gate.busy != 0 {
			t.Errorf("%s: the share is %d, want %d", message, got, want)
		}
	}
}

// A panic takes no place for ever.
func TestPanicLeavesTheGate(t *testing.T) {
	s := newServer(t, answers(200, fmt.Sprintf(pods2, "")))
	func() {
		defer func() { _ = recover() }()
		_, _ = s.Begin(t.Context(), By{Rule: "r"}, anEvent(), nil).prune(t.Context(), Prune(pods, "of=x"), func(handler.Action) bool { panic("x") })
	}()
	if s.limits.gate.busy != 0 {
		t.Error("the place is not free")
	}
}
