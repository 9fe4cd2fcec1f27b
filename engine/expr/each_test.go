package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

// searchAll is a list that is one search, and searchSome one that is not.
const (
	searchAll  = `lookup("nodes.byName", object.metadata.name)`
	searchSome = `filter(lookup("nodes.byName", object.metadata.name), true)`
)

// counted finds n trees, and counts how many it has made.
func counted(n int, tree func(i int) any) (env *Env, made *int) {
	made = new(int)
	return &Env{
		Object: map[string]any{"metadata": map[string]any{"name": "a"}},
		Cache: cache(func(string, string, string) Found {
			return Found{Len: n, Trees: func(yield func(any) bool) {
				for i := range n {
					*made++
					if !yield(tree(i)) {
						return
					}
				}
			}}
		}),
	}, made
}

func small(i int) any { return map[string]any{"n": int64(i)} }

// large is more than a MiB, so eight of them exceed the memory of one evaluation.
func large(int) any { return strings.Repeat("x", 1<<20) }

// A list that is one search may have any number of elements of any total size. Another list has the
// bounds of one expression.
func TestEachHasNoBound(t *testing.T) {
	o := payload
	o.Scope = ForEach
	for _, test := range []struct {
		why  string
		n    int
		tree func(int) any
		want error // of the list that is not one search
	}{
		{"few", 1000, small, nil},
		{"many", 200_000, small, value.ErrSteps},
		{"much", 45, large, value.ErrMemory},
	} {
		t.Run(test.why, func(t *testing.T) {
			for text, want := range map[string]error{searchAll: nil, "(" + searchAll + ")": nil, searchSome: test.want} {
				env, made := counted(test.n, test.tree)
				got := 0
				err := mustCompile(t, text, o).Each(env, func(item any) error {
					if got++; text != searchSome && *made != got {
						t.Fatalf("%s: %d are decoded at element %d", text, *made, got)
					}
					return nil
				})
				if err != want || want == nil && got != test.n || want != nil && got > 0 {
					t.Errorf("%s: visited %d of %d, error %v, want %v", text, got, test.n, err, want)
				}
			}
		})
	}
}

// Each element takes from the budget what its value takes, and has the bounds of one evaluation.
func TestEachIsMetered(t *testing.T) {
	o := payload
	o.Scope = ForEach
	p := mustCompile(t, searchAll, o)
	t.Run("the budget that all share", func(t *testing.T) {
		env, _ := counted(1000, small)
		env.Budget = &Budget{Steps: MaxSteps, Memory: MaxMemory}
		left, visited := *env.Budget, 0
		err := p.Each(env, func(any) error {
			if visited++; env.Budget.Steps >= left.Steps || env.Budget.Memory >= left.Memory {
				t.Fatalf("element %d has taken nothing of %v", visited, left)
			}
			left = *env.Budget
			return nil
		})
		if err != nil || visited != 1000 {
			t.Errorf("visited %d, error %v", visited, err)
		}
	})
	t.Run("a budget that is too small", func(t *testing.T) {
		env, _ := counted(1000, small)
		env.Budget = &Budget{Steps: 100, Memory: MaxMemory}
		visited := 0
		err := p.Each(env, func(any) error { visited++; return nil })
		if err != errBudget || visited < 10 || visited > 50 {
			t.Errorf("visited %d, error %v, want %v", visited, err, errBudget)
		}
	})
	t.Run("a budget that visit renews", func(t *testing.T) {
		env, _ := counted(1000, small)
		env.Budget = &Budget{Steps: 100, Memory: MaxMemory}
		visited := 0
		err := p.Each(env, func(any) error { visited++; env.Budget.Steps = 100; return nil })
		if err != nil || visited != 1000 {
			t.Errorf("visited %d, error %v", visited, err)
		}
	})
	for want, tree := range map[error]any{
		value.ErrMemory: strings.Repeat("x", MaxMemory),
		value.ErrSteps:  slices.Repeat([]any{int64(1)}, MaxSteps),
	} {
		t.Run("one element: "+want.Error(), func(t *testing.T) {
			env, _ := counted(3, func(i int) any { return []any{small(0), tree, small(2)}[i] })
			visited := 0
			if err := p.Each(env, func(any) error { visited++; return nil }); err != want || visited != 1 {
				t.Errorf("visited %d, error %v, want %v", visited, err, want)
			}
		})
	}
}

// Each ends at an error of visit. A panic of visit is not its own, and one of a search is.
func TestEachEnds(t *testing.T) {
	o := payload
	o.Scope = ForEach
	stop := errors.New("stop")
	for _, text := range []string{searchAll, searchSome} {
		p := mustCompile(t, text, o)
		env, made := counted(10, small)
		visited := 0
		err := p.Each(env, func(item any) error {
			if visited++; visited == 3 {
				return stop
			}
			return nil
		})
		if err != stop || visited != 3 || text == searchAll && *made != 3 {
			t.Errorf("%s: visited %d, decoded %d, error %v", text, visited, *made, err)
		}
		if cause := panicOf(func() { _ = p.Each(env, func(any) error { panic("visit") }) }); cause != "visit" {
			t.Errorf("%s: the panic of visit is %v", text, cause)
		}
		env, _ = counted(2, func(i int) any { return []any{small(0)}[i] }) // panics at the second
		if err := p.Each(env, func(any) error { return nil }); err != errInternal {
			t.Errorf("%s: %v, want %v", text, err, errInternal)
		}
		env.Cache = cache(func(string, string, string) Found { panic("search") })
		if err := p.Each(env, func(any) error { return nil }); err != errInternal {
			t.Errorf("%s: %v, want %v", text, err, errInternal)
		}
		if err := p.Each(&Env{}, func(any) error { return stop }); err != nil {
			t.Errorf("%s: without an object and a cache: %v", text, err)
		}
	}
}

func panicOf(do func()) (cause any) {
	defer func() { cause = recover() }()
	do()
	return nil
}

// An element may be nil, which Each leaves out, and visit may evaluate other programs in between.
func TestEachWithin(t *testing.T) {
	o := payload
	o.Scope = ForEach
	items, of := forEach(t, searchAll, `len(lookup("nodes.byName", "x")) + item.n`)
	env, _ := counted(5, func(i int) any {
		if i%2 == 1 {
			return nil
		}
		return small(i)
	})
	var got []any
	err := items.Each(env, func(item any) error {
		within := *env
		within.Item = item
		v, err := of.Value(&within)
		got = append(got, v)
		return err
	})
	if fmt.Sprint(got) != "[5 7 9]" || err != nil {
		t.Errorf("got %v, error %v", got, err)
	}
}
