package trail

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

func added(name string) delta.Delta {
	return delta.Delta{Type: delta.Added, Object: object.FromIdentity("shop", name, "uid-"+name, "7")}
}

func TestRing(t *testing.T) {
	t.Parallel()
	c := new(Counter)
	a, b := New(c, 3), New(c, 3)
	now := time.Unix(1, 0)
	for i := range 5 {
		a.Add(added(fmt.Sprint(i)), Selected, now)
		b.Add(added("b"), ByWhen, now)
	}
	var names []string
	for _, e := range a.choose(func(*Entry) bool { return true }) {
		names = append(names, fmt.Sprint(e.Number, " ", e.Key))
	}
	if diff := cmp.Diff([]string{"6 shop/2", "8 shop/3", "10 shop/4"}, names); diff != "" {
		t.Errorf("a ring of three after five entries (-want +got)\n%s", diff)
	}
	if c.Last() != 11 {
		t.Errorf("the last entry has the number %d, want 11", c.Last())
	}
	if found, missed := a.After(6); len(found) != 2 || missed {
		t.Errorf("after 6: %v, missed %v", found, missed)
	}
	if _, missed := a.After(3); !missed {
		t.Error("entry 4 is gone, and nobody says so")
	}
	if got := a.Of(delta.Key{Namespace: "shop", Name: "3"}); len(got) != 1 || got[0].Number != 8 {
		t.Errorf("of shop/3: %v", got)
	}
}

// A reader that has found nothing yet goes on with the first entry. To ask after 0 means to
// ask for the newest.
func TestFirstEntryComesAfterNothing(t *testing.T) {
	t.Parallel()
	c := new(Counter)
	l, nothing := New(c, 2), c.Last()
	l.Add(added("web"), Selected, time.Time{})
	if found, missed := l.After(nothing); len(found) != 1 || missed || nothing == 0 {
		t.Errorf("after %d: %v, missed %v", nothing, found, missed)
	}
}

func TestEntryHasTheIDOfItsEvent(t *testing.T) {
	t.Parallel()
	l := New(new(Counter), 1)
	for _, round := range []int64{0, 12} {
		d := added("web")
		d.Type, d.Round = delta.Synced, round
		l.AddAttempt(d, Sent, time.Time{}, Numbers{Attempt: 2})
		got := l.Of(d.Key())
		if len(got) != 1 || got[0].ID("r") != d.ID("r") || got[0].Attempt != 2 {
			t.Errorf("%+v: want id %s", got, d.ID("r"))
		}
	}
}

// Nobody has to ask whether there is a Trail.
func TestNil(t *testing.T) {
	t.Parallel()
	var none *Trail
	none.Add(added("a"), Own, time.Time{})
	none.AddAttempt(added("a"), Sent, time.Time{}, Numbers{})
	if found, missed := none.After(0); found != nil || missed {
		t.Error(found, missed)
	}
}

func BenchmarkAdd(b *testing.B) {
	l, d, now := New(new(Counter), 1024), added("web"), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l.Add(d, Selected, now)
	}
}

// The numbers of an attempt do not stay behind for the change that takes its place.
func TestNumbersGoWithTheirEntry(t *testing.T) {
	t.Parallel()
	l := New(new(Counter), 2)
	at := time.Unix(7, 5)
	for attempt := range 3 {
		l.AddAttempt(added("web"), Sent, at, Numbers{Attempt: 1 + attempt})
	}
	l.Add(added("web"), Selected, at)
	var got []string
	for _, e := range l.Of(added("web").Key()) {
		got = append(got, fmt.Sprint(e.Verdict, " ", e.Attempt, " ", e.UID, " ", e.Version, " ", e.At.Equal(at)))
	}
	if diff := cmp.Diff([]string{"sent 3 uid-web 7 true", "selected 0 uid-web 7 true"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A Trail keeps its entries and their numbers while it grows to its bound and turns.
func TestGrows(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{1, 3, 4, 5, 16, 40} {
		l, at := New(new(Counter), bound), time.Unix(7, 0)
		var want []string
		for i := range 100 {
			d, attempt := added(fmt.Sprint(i)), 0
			if i%3 == 1 {
				attempt = i
				l.AddAttempt(d, Sent, at, Numbers{Attempt: attempt})
			} else {
				l.Add(d, Selected, at)
			}
			want = append(want, fmt.Sprint(d.Key(), " ", attempt))
			want = want[max(0, len(want)-bound):]
			var got []string
			for _, e := range l.choose(func(*Entry) bool { return true }) {
				got = append(got, fmt.Sprint(e.Key, " ", e.Attempt))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("bound %d, after %d entries (-want +got)\n%s", bound, i+1, diff)
			}
		}
	}
}

// A Trail says from when on it remembers everything.
func TestSince(t *testing.T) {
	t.Parallel()
	l, began := New(new(Counter), 2), time.Unix(1, 0)
	for i, want := range []int64{1, 1, 1, 11, 12} {
		if got := l.Since(began); got.Unix() != want {
			t.Errorf("after %d entries: since %d, want %d", i, got.Unix(), want)
		}
		l.Add(added("web"), Selected, time.Unix(10+int64(i), 0))
	}
	if got := (*Trail)(nil).Since(began); !got.Equal(began) {
		t.Errorf("the nil Trail remembers since %v", got)
	}
}
