package engine

import (
	"fmt"
	"iter"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// catchingUp starts a daemon with a rule that has learned everything, has it catch up once more, and
// calls do before the first turn.
func catchingUp(t *testing.T, do func(l *life, in *intake.Intake, get map[string]*object.Object)) (told []string) {
	t.Helper()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "2")
	h := new(teller)
	e, stop := l.start(mapSource+aRule("r", ", delivery: every, resync: 1h"), h)
	l.await(h, 2)
	l.settled(e)
	in := e.work().Intakes[0]
	in.Informer.Visit(func(known iter.Seq[*object.Object]) {
		get := make(map[string]*object.Object)
		for o := range known {
			get[o.Name()] = o
		}
		in.BeginCatchUp([]follow.Pupil{{Rule: 0}}, known, nil, false)
		do(l, in, get)
	})
	l.holds("the rule has caught up", func() bool {
		return !in.IsCatchingUp()
	})
	l.quiet(e)
	return stop()
}

// An object that is gone before its turn is not given one. A round that comes before an object's turn
// gives it that first, so the round is not lost.
func TestStepsBeforeTheTurn(t *testing.T) {
	t.Parallel()
	initial := []string{"r synced a →1", "r synced b →2"}
	for name, c := range map[string]struct {
		do   func(l *life, in *intake.Intake, get map[string]*object.Object)
		want []string
	}{
		"nothing": {func(*life, *intake.Intake, map[string]*object.Object) {}, []string{"r synced a →1", "r synced b →2"}},
		"an update": {func(_ *life, in *intake.Intake, get map[string]*object.Object) {
			in.Take(source.Step{Delta: delta.Delta{Type: delta.Updated, Object: get["a"], Old: get["a"]}})
		}, []string{"r synced a →1", "r synced b →2"}},
		"a deletion": {func(_ *life, in *intake.Intake, get map[string]*object.Object) {
			in.Take(source.Step{Delta: delta.Delta{Type: delta.Deleted, Object: get["a"]}})
		}, []string{"r synced b →2"}},
		"an object that comes": {func(_ *life, in *intake.Intake, get map[string]*object.Object) {
			c := object.FromIdentity("shop", "c", "uid", "9")
			in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: c}})
		}, []string{"r added c →", "r synced a →1", "r synced b →2"}},
		"a round": {func(_ *life, in *intake.Intake, get map[string]*object.Object) {
			d := delta.Delta{Type: delta.Synced, Object: get["a"], Round: 1 << 40}
			in.Take(source.Step{Delta: d, Round: in.Rules[0].Rounds})
		}, []string{"r synced a →1", "r synced a →1", "r synced b →2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := catchingUp(t, c.do)
			want := append(append([]string(nil), initial...), c.want...)
			expect(t, name, told, want...)
		})
	}
}

// A rule that catches up sees an object in the state that it knew, whatever it knew it from.
func TestKnowledge(t *testing.T) {
	t.Parallel()
	a, b := object.FromIdentity("shop", "a", "1", "1"), object.FromIdentity("shop", "b", "2", "2")
	of := func(all ...*object.Object) map[delta.Key]*object.Object {
		m := make(map[delta.Key]*object.Object)
		for _, o := range all {
			m[delta.KeyOf(o)] = o
		}
		return m
	}
	isA := func(o *object.Object) bool { return o == a }
	left := &follow.Inside{Objects: of(b)}
	for i, c := range []struct {
		knew follow.Knowledge
		left *follow.Inside
		last *object.Object
		key  delta.Key
		want string
	}{
		{nil, nil, a, delta.KeyOf(a), "<nil> false"},
		{follow.Cut{Objects: of(a, b), Has: isA}, nil, nil, delta.KeyOf(a), "a true"},
		{follow.Cut{Objects: of(a, b), Has: isA}, nil, nil, delta.KeyOf(b), "b false"},
		{follow.Cut{Objects: of(a), Has: isA}, left, nil, delta.KeyOf(b), "b true"},
		{follow.Now{Has: isA}, left, a, delta.KeyOf(a), "a true"},
		{follow.Now{Has: isA}, nil, nil, delta.KeyOf(a), "<nil> false"},
	} {
		before := follow.Pupil{Knew: c.knew}.Before(c.key, c.last, c.left)
		name := "<nil>"
		if before.Object != nil {
			name = before.Object.Name()
		}
		if got := fmt.Sprint(name, " ", before.Inside); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}
