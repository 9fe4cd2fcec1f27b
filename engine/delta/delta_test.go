package delta

import (
	"fmt"
	"testing"

	"github.com/informd/informd/engine/object"
)

func state(t testing.TB, uid, version string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"a","uid":%q,"resourceVersion":%q}}`, uid, version))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestID(t *testing.T) {
	o := state(t, "u", "7")
	for want, d := range map[string]Delta{
		"r/u/added/7":       {Type: Added, Object: o},
		"r/u/deleted/7":     {Type: Deleted, Object: o, Old: o},
		"r/u/synced/7":      {Type: Synced, Object: o},
		"r/u/synced/7/99":   {Type: Synced, Object: o, Round: 99},
		"r/u/deleted/7~2":   {Type: Deleted, Object: o, Occasion: 2},
		"r/u/synced/7~3/99": {Type: Synced, Object: o, Occasion: 3, Round: 99},
		"r/u/synced/7~4":    {Type: Synced, Object: o, Occasion: 4, Round: Known},
	} {
		if got := d.ID("r"); got != want {
			t.Errorf("id %q, want %q", got, want)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for _, want := range []Type{Added, Updated, Deleted, Synced} {
		if got, ok := ParseType(want.String()); !ok || got != want || !All.Has(want) || SetOf(want) == All {
			t.Errorf("%v comes back as %v, %v", want, got, ok)
		}
	}
	if _, ok := ParseType("modified"); ok {
		t.Error("modified must not parse as a type")
	}
}

func TestMerge(t *testing.T) {
	const (
		both    = "both"
		nothing = "nothing"
	)
	for _, c := range []struct {
		waiting, newer Type
		sent           bool
		want           string
	}{ // the round is 0; TestMergeOfResyncs covers others
		{Added, Updated, false, "added"},
		{Added, Synced, false, "added"},
		{Added, Added, false, "added"}, // the object stopped matching unnoticed, and matches again
		{Added, Deleted, false, nothing},
		{Added, Deleted, true, "deleted"},
		{Synced, Updated, false, "synced"},
		{Synced, Synced, false, "synced"},
		{Synced, Deleted, false, nothing},
		{Synced, Deleted, true, "deleted"},
		{Updated, Updated, false, "updated"},
		{Updated, Synced, false, "updated"},
		{Updated, Deleted, false, "deleted"}, // the handler may already know the object
		{Deleted, Deleted, false, "deleted"},
		{Deleted, Added, false, both},
		{Deleted, Synced, false, both},
		{Deleted, Updated, true, both},
	} {
		t.Run(fmt.Sprintf("%v+%v sent=%v", c.waiting, c.newer, c.sent), func(t *testing.T) {
			v1, v2, v3, v4 := state(t, "u", "1"), state(t, "u", "2"), state(t, "u", "3"), state(t, "u", "4")
			waiting := Delta{Type: c.waiting, Object: v2, Old: v1}
			newer := Delta{Type: c.newer, Object: v4, Old: v3}
			merged, keep, ok := Merge(waiting, newer, c.sent)
			got := merged.Type.String()
			if !ok {
				got = both
			} else if !keep {
				got = nothing
			}
			if got != c.want {
				t.Fatalf("got %s, want %s", got, c.want)
			}
			if !ok || !keep {
				return
			}
			if merged.Object != v4 {
				t.Error("the merged delta does not hold the newer object")
			}
			if merged.Type == Updated && merged.Old != v1 {
				t.Error("a merged update must keep the first Old")
			}
			if _, _, ok := Merge(waiting, Delta{Type: c.newer, Object: state(t, "other", "9")}, c.sent); ok {
				t.Error("merged two objects")
			}
		})
	}
}

func TestMergeOfResyncs(t *testing.T) {
	v1, v2 := state(t, "u", "1"), state(t, "u", "2")
	first := Delta{Type: Synced, Object: v1}
	second, third := Delta{Type: Synced, Object: v1, Round: 60}, Delta{Type: Synced, Object: v2, Round: 120}
	if merged, _, _ := Merge(second, third, false); merged.Round != 120 || merged.Object != v2 {
		t.Errorf("got round %v, want 120, the later one", merged.Round)
	}
	if merged, _, _ := Merge(first, third, false); merged.Round != 0 || merged.Object != v2 {
		t.Errorf("got round %v, want 0, because the handler has not seen the object yet", merged.Round)
	}
	if merged, keep, _ := Merge(second, Delta{Type: Deleted, Object: v2}, false); !keep || merged.Type != Deleted {
		t.Error("the handler knows a resynced object, so it must get the deletion")
	}
}

// waiting merges d into the queue as a lane does: it merges the last two deltas as long as they
// merge. sent says whether the first delta was already attempted.
func waiting(queue []Delta, sent bool, d Delta) []Delta {
	queue = append(queue, d)
	for n := len(queue); n > 1; n = len(queue) {
		merged, keep, ok := Merge(queue[n-2], queue[n-1], sent && n == 2)
		if !ok {
			break
		}
		queue = queue[:n-2]
		if keep {
			queue = append(queue, merged)
		}
	}
	return queue
}

// knowledge is what a handler concludes from deltas: the resourceVersion of each object that it
// believes to exist.
type knowledge map[string]string

func (k knowledge) apply(d Delta) {
	if d.Type == Deleted {
		delete(k, d.Object.UID())
		return
	}
	k[d.Object.UID()] = d.Object.ResourceVersion()
}

// FuzzMerge plays the life of the objects of one key. Each byte is one step: a change, a departure
// or return, a recreation, a resync, a delivery or a failed attempt. One handler gets every delta,
// the other only those left after merging. Both must end with the same knowledge.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 4, 1, 5, 2, 0})
	f.Add([]byte{0, 5, 2, 0, 2, 0, 1, 4})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			return
		}
		var (
			queue          []Delta
			sent           bool
			all, left      = knowledge{}, knowledge{}
			uid, version   = 0, 0
			exists, inside bool
			last           *object.Object
		)
		emit := func(d Delta) {
			all.apply(d)
			if sent && len(queue) == 0 {
				t.Fatal("the queue is empty, yet its first delta was attempted")
			}
			queue = waiting(queue, sent, d)
			if len(queue) == 0 {
				sent = false
			}
		}
		deliver := func() {
			left.apply(queue[0])
			queue, sent = queue[1:], false
		}
		for _, step := range steps {
			version++
			switch now := func() *object.Object { return state(t, fmt.Sprint(uid), fmt.Sprint(version)) }; step % 6 {
			case 0: // the object is created or changes
				if !exists {
					uid++
				}
				o := now()
				if exists && inside {
					emit(Delta{Type: Updated, Object: o, Old: last})
				} else {
					emit(Delta{Type: Added, Object: o})
				}
				exists, inside, last = true, true, o
			case 1: // the object stops matching
				if exists && inside {
					emit(Delta{Type: Deleted, Object: last})
					inside = false
				}
			case 2: // the object is deleted
				if exists && inside {
					emit(Delta{Type: Deleted, Object: now(), Old: last})
				}
				exists, inside = false, false
			case 3: // resync
				if exists && inside {
					emit(Delta{Type: Synced, Object: last, Round: int64(version)})
				}
			case 4: // the handler acknowledges
				if len(queue) > 0 {
					deliver()
				}
			case 5: // an attempt fails, but the handler may have acted on it
				if len(queue) > 0 {
					left.apply(queue[0])
					sent = true
				}
			}
			perUID := map[string]int{}
			for _, d := range queue {
				if perUID[d.Object.UID()]++; perUID[d.Object.UID()] > 2 {
					t.Fatalf("more than two deltas of one object wait: %v", queue)
				}
			}
		}
		for len(queue) > 0 {
			deliver()
		}
		if fmt.Sprint(all) != fmt.Sprint(left) {
			t.Fatalf("after every delta the handler knows %v, after the merged ones %v", all, left)
		}
	})
}
