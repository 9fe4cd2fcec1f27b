package source

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Listeners whose resyncs fall due together are served one after the other: of a million objects, a hundred lists of
// what is left would be gigabytes.
func TestResyncsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unconnected(t)
		s.tuning.chunk = 2
		i := s.Informer(Selection{Resource: pods})
		heard := make([]map[delta.Key]int, 5)
		for n := range heard {
			heard[n] = map[delta.Key]int{}
			i.AddListener(Listener{Resync: time.Minute, OnDelta: func(d delta.Delta, _ any) {
				if d.Round != 0 {
					heard[n][d.Key()]++
				}
			}})
		}
		for n := range 3 {
			o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"o%d"}}`, n))
			if err != nil {
				t.Fatal(err)
			}
			i.observe(o, delta.Added, nil, true)
		}
		time.Sleep(time.Minute)
		for steps := 0; ; steps++ {
			more, due := i.step(time.Now())
			walking := 0
			for _, l := range i.listeners {
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
				t.Errorf("listener %d heard of %d objects", n, len(heard[n]))
			}
			for key, times := range heard[n] {
				if times != 1 {
					t.Errorf("listener %d heard of %v %d times", n, key, times)
				}
			}
		}
	})
}
