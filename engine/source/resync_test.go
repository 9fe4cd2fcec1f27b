package source

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
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
				heard[s.Resync-s0][s.Delta.Key()]++
			}
		}), s0, s0+1, s0+2, s0+3, s0+4)
		for n := range 3 {
			o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"o%d"}}`, n))
			if err != nil {
				t.Fatal(err)
			}
			i.feed.observe(o, delta.Added, nil, true)
		}
		time.Sleep(s0 + 4)
		for steps := 0; ; steps++ {
			more, due := i.feed.tick(time.Now())
			walking := 0
			for _, l := range i.feed.rounds {
				if l.rest != nil {
					walking++
				}
			}
			if walking > 1 {
				t.Fatalf("%d resyncs at once", walking)
			}
			if !more && due.After(time.Now()) {
				break
			}
			if steps > 100 {
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
