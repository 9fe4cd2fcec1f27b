package source

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// model follows the steps of an informer, and fails the test if a step does not follow from the one
// before.
type model struct {
	t     *testing.T
	calls atomic.Int32
	mu    sync.Mutex
	known map[delta.Key]*object.Object
	fresh func(*object.Object) bool // returns whether the store is as fresh as an object
}

func (m *model) hear(d delta.Delta, _ any) {
	if m.calls.Add(1) > 1 {
		m.t.Error("two calls at once")
	}
	defer m.calls.Add(-1)
	m.mu.Lock()
	defer m.mu.Unlock()
	old, o := m.known[d.Key()], d.Object
	complain := func(what string) { m.t.Errorf("%s: %v", what, words([]delta.Delta{d})) }
	switch d.Type {
	case delta.Added:
		if old != nil {
			complain("added, but it existed already")
		}
	case delta.Synced:
		if d.Round == 0 && old != nil {
			complain("synced twice")
		}
	case delta.Updated:
		if old == nil || d.Old != old {
			complain("updated from another state than the last one")
		} else if old.UID() != o.UID() || number(old) >= number(o) {
			complain("updated to an older state, or another object")
		}
	case delta.Deleted:
		if old == nil || d.Old != old || old.UID() != o.UID() {
			complain("deleted, but it did not exist")
		}
		delete(m.known, d.Key())
	}
	if !m.fresh(o) {
		complain("the store is behind")
	}
	if d.Type != delta.Deleted {
		m.known[d.Key()] = o
	}
}

// same fails the test if a visit shows anything else than the last steps.
func (m *model) same(known iter.Seq[*object.Object]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for o := range known {
		if n++; m.known[delta.KeyOf(o)] != o {
			m.t.Errorf("a visit shows %s in another state than the last step", delta.KeyOf(o))
		}
	}
	if n != len(m.known) {
		m.t.Errorf("a visit shows %d objects, but the consumer knows %d", n, len(m.known))
	}
}

// agrees returns whether the informer's store holds what the model knows.
func (m *model) agrees(i *Informer, objects int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, o := range m.known {
		if stored, ok := i.cache.get(key.Namespace, key.Name); !ok || stored != o {
			return false
		}
	}
	return len(m.known) == objects
}

func number(o *object.Object) int64 {
	n, _ := strconv.ParseInt(o.ResourceVersion(), 10, 64)
	return n
}

// TestHammer changes objects at full speed, drops watches, expires history and adds indexes. Each
// step must follow from the one before. In the end the consumer must know what the server has.
func TestHammer(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, _ := serving(t, watchList)
		server.SetHistory(100_000)
		i.gate.bound, i.feed.chunk = 50, 7
		m := &model{t: t, known: map[delta.Key]*object.Object{}}
		m.fresh = func(o *object.Object) bool {
			stored, ok := i.cache.get(o.Namespace(), o.Name())
			return !ok || number(stored) >= number(o)
		}
		i.Consume(consumer(m.hear))
		run(t, s)
		random := rand.New(rand.NewPCG(1, 2))
		exists := map[string]string{}
		for step := range 4000 {
			name := fmt.Sprintf("o%02d", random.IntN(40))
			if exists[name] != "" && random.IntN(3) == 0 {
				server.Delete(pods, "shop", name)
				delete(exists, name)
			} else {
				server.Apply(pods, body(name, step))
				exists[name] = fmt.Sprint(step)
			}
			if step%400 == 200 {
				server.DropWatches()
			}
			if step%1500 == 1499 {
				server.Expire()
			}
			if step%700 == 600 {
				i.Visit(m.same)
				if err := i.AddIndexers(map[string]Index{fmt.Sprint(step): byVersion}); err != nil {
					t.Fatal(err)
				}
			}
		}
		server.Apply(pods, body("last", 1))
		await(t, "the last object", func() bool { _, ok := i.cache.get("shop", "last"); return ok })
		await(t, "a consumer that knows what the store has", func() bool { return m.agrees(i, len(exists)+1) })
		if n := i.Stats().Objects; n != len(exists)+1 {
			t.Errorf("%d objects are counted, there are %d", n, len(exists)+1)
		}
		for name := range exists {
			if o, ok := i.cache.get("shop", name); !ok || version(o) != exists[name] {
				t.Errorf("%s is not as the server has it", name)
			}
		}
		if got, want := i.LastSyncResourceVersion(), server.ResourceVersion(); got != want {
			t.Errorf("resourceVersion %s, the server has %s", got, want)
		}
		for step := 600; step < 4000; step += 700 {
			for name := range exists {
				o, _ := i.cache.get("shop", name)
				if found, err := collected(i.cache.byIndex(fmt.Sprint(step), version(o))); err != nil || len(found) != 1 || found[0] != o {
					t.Errorf("index %d does not have %s: %v", step, name, err)
				}
			}
		}
	})
}
