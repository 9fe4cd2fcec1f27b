package state

import (
	"testing"
	"testing/synctest"
	"time"
)

// Long work stands back once a stretch, and not before it has worked for one.
func TestBreath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, piece := new(breath), stretch/10
		var stoodBack []int
		for i := range 25 {
			began := time.Now()
			b.take()
			switch took := time.Since(began); took {
			case 0:
			case breather:
				stoodBack = append(stoodBack, i)
			default:
				t.Errorf("piece %d: it stood back for %v, want %v", i, took, breather)
			}
			time.Sleep(piece) // the work
		}
		if len(stoodBack) != 2 || stoodBack[0] != 10 || stoodBack[1] != 20 {
			t.Errorf("it stood back before pieces %v, want 10 and 20", stoodBack)
		}
	})
}

// Work that somebody waits for has no breath.
func TestNoBreath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none *breath
		began := time.Now()
		for range 10 {
			none.take()
			time.Sleep(stretch)
		}
		if took := time.Since(began); took != 10*stretch {
			t.Errorf("it took %v, want %v", took, 10*stretch)
		}
	})
}
