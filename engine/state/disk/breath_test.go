package disk

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Calm work rests once a stretch, and not before it has worked for one. In a hurry it does not
// stand back at all.
func TestBreath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var of Tempo
		b, piece := NewBreath(&of), stretch/10
		work := func(pieces int) (stoodBack []int) {
			for i := range pieces {
				began := time.Now()
				b.Take()
				switch took := time.Since(began); took {
				case 0:
				case rest:
					stoodBack = append(stoodBack, i)
				default:
					t.Errorf("piece %d: it stood back for %v, want %v", i, took, rest)
				}
				time.Sleep(piece) // the work
			}
			return stoodBack
		}
		if got := work(25); got != nil {
			t.Errorf("before it was calm, it stood back before pieces %v", got)
		}
		of.SetCalm(true)
		if got := work(25); len(got) != 2 || got[0] != 10 || got[1] != 20 {
			t.Errorf("it stood back before pieces %v, want 10 and 20", got)
		}
		of.Hurry()
		if got := work(25); got != nil {
			t.Errorf("in a hurry, it stood back before pieces %v", got)
		}
		of.SetCalm(true)
		of.End()
		if got := work(25); got != nil {
			t.Errorf("at the end, it stood back before pieces %v", got)
		}
		b = nil // as for files that are not tables
		if got := work(25); got != nil {
			t.Errorf("without a breath, it stood back before pieces %v", got)
		}
	})
}

// While it is calm, Pebble's tables are written with pauses. A log is not.
func TestTablesAreWrittenCalmly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := &Patient{FS: vfs.NewMem()}
		fs.Tempo.SetCalm(true)
		for name, want := range map[string]time.Duration{"000001.sst": 2 * rest, "cuts-00000001": 0} {
			file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for range 3 {
				if _, err := file.Write([]byte("part")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(stretch)
			}
			if got := time.Since(began) - 3*stretch; got != want {
				t.Errorf("%s: the writes stood back for %v, want %v", name, got, want)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
