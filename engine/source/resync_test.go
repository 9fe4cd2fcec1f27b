package source

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// Resync rounds that fall due together run one after the other. With a million objects, a hundred
// lists of their keys would take gigabytes.
func TestResyncsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unconnected(t)
		s.tuning.chunk = 2
		i := s.Informer(Selection{Resource: pods})
		heard := make([]map[delta.Key]int, 5)
		for n := range heard {
			heard[n] = map[delta.Key]int{}
		}
		const s0 = time.Minute
		i.Consume(steps(func(s Step) {
			if s.Delta.Round != 0 {
				heard[time.Duration(s.Round.(timing.Every))-s0][s.Delta.Key()]++
			}
		}), timing.Every(s0), timing.Every(s0+1), timing.Every(s0+2), timing.Every(s0+3), timing.Every(s0+4))
		i.feed.caughtUp = true
		for n := range 3 {
			o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"o%d"}}`, n))
			if err != nil {
				t.Fatal(err)
			}
			i.feed.observe(o, delta.Added, arrival{number: 1})
		}
		time.Sleep(s0 + 4)
		for turns := 0; ; turns++ {
			if due := i.feed.tick(); due.After(time.Now()) {
				break
			}
			if turns > 100 {
				t.Fatal("it does not end")
			}
		}
		for n := range heard {
			if len(heard[n]) != 3 {
				t.Errorf("interval %d heard of %d objects", n, len(heard[n]))
			}
			for key, times := range heard[n] {
				if times != 1 {
					t.Errorf("interval %d heard of %v %d times", n, key, times)
				}
			}
		}
	})
}

// A round lets changes come in between, and gives other informers time. It is done before the next
// one is due, if that can be.
func TestResyncYieldsToOthers(t *testing.T) {
	for _, c := range []struct {
		why  string
		cost time.Duration // of an object
		took time.Duration // most that the round may take
	}{
		{"free", 0, 0},
		{"cheap", 10 * time.Microsecond, 41 * 10 * time.Microsecond * 10},
		{"an object takes longer than a turn", time.Millisecond, 400 * time.Millisecond},
		{"little time to spare", 8 * time.Millisecond, time.Second},
		{"the next round is late anyway", 30 * time.Millisecond, 3 * time.Second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := unconnected(t).Informer(Selection{Resource: pods})
				const objects = 100
				var heard []time.Time
				i.Consume(steps(func(s Step) {
					if s.Round != nil {
						time.Sleep(c.cost)
						heard = append(heard, time.Now())
					}
				}), timing.Every(time.Second))
				i.feed.caughtUp = true
				for n := range objects {
					i.feed.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, arrival{number: 1})
				}
				time.Sleep(time.Second)
				began, longest, idle := time.Now(), time.Duration(0), time.Duration(0)
				for len(heard) < objects {
					turn := time.Now()
					due := i.feed.tick()
					longest = max(longest, time.Since(turn))
					if rest := time.Until(due); rest > 0 && len(heard) < objects {
						idle += rest
						time.Sleep(rest)
					}
				}
				if len(heard) != objects {
					t.Fatalf("%d objects in a round, want %d", len(heard), objects)
				}
				took, cost := heard[objects-1].Sub(began), c.cost*objects
				if took > c.took {
					t.Errorf("the round took %v, want at most %v", took, c.took)
				}
				if want := max(timing.Turn+c.cost, c.cost); longest > want {
					t.Errorf("a turn took %v, want at most %v", longest, want)
				}
				if want := min(2*cost, time.Second-cost-2*c.cost-2*timing.Turn); idle < want {
					t.Errorf("it rested for %v, want at least %v", idle, want)
				}
			})
		})
	}
}

// The feed has other work, which may come while a round rests. That does not end the rest.
func TestOtherWorkDoesNotCutTheRestOfAResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unconnected(t).Informer(Selection{Resource: pods})
		heard := 0
		i.Consume(steps(func(s Step) {
			if s.Round != nil {
				time.Sleep(time.Millisecond)
				heard++
			}
		}), timing.Every(time.Second))
		i.feed.caughtUp = true
		for n := range 10 {
			i.feed.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, arrival{number: 1})
		}
		time.Sleep(time.Second)
		due := i.feed.tick()
		if rest := time.Until(due); heard != 1 || rest != timing.Lull*time.Millisecond {
			t.Fatalf("%d objects, and then a rest of %v", heard, rest)
		}
		time.Sleep(time.Millisecond)
		if again := i.feed.tick(); heard != 1 || !again.Equal(due) {
			t.Errorf("%d objects before the rest was over; the next turn moved by %v", heard, again.Sub(due))
		}
		time.Sleep(time.Until(due))
		if i.feed.tick(); heard != 2 {
			t.Errorf("%d objects after the rest, want 2", heard)
		}
	})
}

// A short interval whose rounds are never done in time does not keep out a long one.
func TestNoResyncStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unconnected(t).Informer(Selection{Resource: pods})
		const objects, often, rarely = 100, timing.Every(time.Second), timing.Every(10 * time.Second)
		heard := map[timing.Timetable]int{}
		i.Consume(steps(func(s Step) {
			if s.Round != nil {
				time.Sleep(20 * time.Millisecond)
				heard[s.Round]++
			}
		}), often, rarely)
		i.feed.caughtUp = true
		for n := range objects {
			i.feed.observe(state(t, fmt.Sprintf("o%d", n), "1", 1), delta.Added, arrival{number: 1})
		}
		for end := time.Now().Add(100 * time.Second); time.Now().Before(end); {
			time.Sleep(time.Until(i.feed.tick()))
		}
		if n := heard[rarely] / objects; n < 7 {
			t.Errorf("%d rounds of %v in 100 s", n, time.Duration(rarely))
		}
		if n := heard[often] / objects; n < 30 {
			t.Errorf("%d rounds of %v in 100 s", n, time.Duration(often))
		}
	})
}
