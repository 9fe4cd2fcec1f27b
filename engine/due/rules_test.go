package due_test

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func named(name string) *object.Object { return object.FromIdentity("shop", name, "uid", "1") }

// following is an informer that confirms all objects but one.
type following struct {
	isStale bool
	doubts  string
}

func (f *following) IsFresh() bool { return !f.isStale }

func (f *following) Confirms(o *object.Object, _ time.Time, _ iter.Seq[string]) bool {
	return o.Key() != f.doubts
}

// elapse returns what is decided at a time, and when to go on.
func elapse(r *due.Rules, at time.Time, f *following) (decided []string, again time.Time) {
	again = r.Elapse(due.Turn{
		Began: at, Now: func() time.Time { return at }, Informer: f,
		Get: func(key string) *object.Object {
			if k := delta.ParseKey(key); k.Name != "gone" {
				return named(k.Name)
			}
			return nil
		},
		Decide: func(i int, o *object.Object, _ time.Time) {
			decided = append(decided, o.Name())
			r.Apply([]evaluate.Wait{{Rule: i, Of: o}})
		},
	})
	return decided, again
}

func TestElapse(t *testing.T) {
	t.Parallel()
	var r due.Rules
	var never, hour, half due.Total
	r.Add(new(rule.Rule), &never, noon)
	r.Add(&rule.Rule{For: time.Hour}, &hour, noon)
	r.Add(&rule.Rule{For: time.Hour / 2}, &half, noon)
	r.Count()
	waits := []evaluate.Wait{
		{Rule: 1, Of: named("a"), Mark: noon}, {Rule: 2, Of: named("b"), Mark: noon.Add(time.Hour / 4)},
		{Rule: 2, Of: named("gone"), Mark: noon},
	}
	if !r.Apply(waits) || r.Apply(waits) || r.Marks(0) != nil || !r.Mark(0, named("a")).IsZero() {
		t.Error("the first marks make something due earlier, and the same marks do not")
	}
	if n, next := half.Stats(); n != 2 || !next.Equal(noon.Add(time.Hour/2)) {
		t.Errorf("%d objects wait until %s", n, next)
	}
	late := noon.Add(2 * time.Hour)
	for _, test := range []struct {
		at    time.Time
		of    following
		want  []string
		again time.Time
	}{
		{noon, following{}, nil, noon.Add(time.Hour / 2)},
		{late, following{isStale: true}, nil, late.Add(timing.Stale)},
		{late, following{doubts: "shop/a"}, []string{"b"}, late.Add(timing.Stale)},
		{late, following{}, []string{"a"}, time.Time{}},
	} {
		if got, again := elapse(&r, test.at, &test.of); !slices.Equal(got, test.want) || !again.Equal(test.again) {
			t.Errorf("at %s: decided %q, and goes on at %s; want %q, %s", test.at, got, again, test.want, test.again)
		}
	}
}

// What waits for a rule that goes on waits for the one in its place, and counts once. What waits for
// one that is gone does not count any more.
func TestSucceed(t *testing.T) {
	t.Parallel()
	var old, next due.Rules
	var stays, goes due.Total
	old.Add(&rule.Rule{For: time.Hour}, &goes, noon)
	old.Add(&rule.Rule{For: time.Hour}, &stays, noon)
	old.Count()
	old.Apply([]evaluate.Wait{
		{Rule: 0, Of: named("a"), Mark: noon}, {Rule: 1, Of: named("a"), Mark: noon},
	})
	next.Add(&rule.Rule{For: 2 * time.Hour}, &stays, noon)
	next.Carry(0, &old, 1)
	next.Succeed(&old)
	if n, at := stays.Stats(); n != 1 || !at.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("%d objects wait until %s", n, at)
	}
	if n, _ := goes.Stats(); n != 0 {
		t.Errorf("%d objects wait for a rule that is gone", n)
	}
}

// What waited for a rule that is not timed any more is due at once.
func TestRestore(t *testing.T) {
	t.Parallel()
	var r due.Rules
	var timed, untimed due.Total
	r.Add(&rule.Rule{For: time.Hour}, &timed, noon)
	r.Add(new(rule.Rule), &untimed, noon)
	r.Count()
	inside := map[delta.Key][]string{{Namespace: "shop", Name: "a"}: {
		"member", resume.Mark{Rule: "t", At: noon.Add(-time.Minute)}.String(),
		resume.Mark{Rule: "u", At: noon.Add(-time.Minute)}.String(), resume.Mark{Rule: "gone", At: noon}.String(),
	}}
	r.Restore([]*object.Object{named("a")}, inside, map[string]int{"t": 0, "u": 1}, noon)
	if n, at := timed.Stats(); n != 1 || !at.Equal(noon.Add(59*time.Minute)) {
		t.Errorf("%d objects wait until %s", n, at)
	}
	if got, again := elapse(&r, noon, new(following)); !slices.Equal(got, []string{"a"}) || again.IsZero() {
		t.Errorf("decided %q, and goes on at %s", got, again)
	}
	if n, _ := untimed.Stats(); n != 0 || len(r.Timed()) != 2 {
		t.Errorf("%d objects wait for a rule that is not timed", n)
	}
}
