package state

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// Many goroutines record at once, as informers and dispatchers do, while the store writes and
// others read.
func TestHammer(t *testing.T) {
	dir := t.TempDir()
	s := run(t, open(t, dir, Options{FlushEvery: time.Millisecond}))
	if _, err := s.Letters(); err != nil {
		t.Fatal(err)
	}
	const informers, changes = 4, 300
	var all sync.WaitGroup
	for n := range informers {
		id := fmt.Sprint("i", n)
		i, lane := s.Objects(id, ObjectsOptions{}), s.Lane(id, LaneOptions{})
		if _, err := i.Load(); err != nil {
			t.Fatal(err)
		}
		if _, err := lane.Keys(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for c := range uint64(changes) {
				name := fmt.Sprint("o", c%10)
				o := obj(t, name, int(c), "text")
				s.recorded(func() {
					i.Put(o, []string{id})
					i.Version(fmt.Sprint(c))
					lane.Put(c+1, key(name), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
					if c >= 10 {
						lane.Delete(c-9, key(name))
					}
					s.PutLetter(delivery.Letter{ID: fmt.Sprint(id, "-", c), Delta: delta.Delta{Object: o}})
					if c >= 20 {
						s.DeleteLetter(fmt.Sprint(id, "-", c-20))
					}
					s.PutRule(RuleMemory{Name: id, Paused: c%2 == 0})
				})
				if lane.Room(100); c%20 == 0 {
					if _, err := lane.Load(key(name), 0, 100, 1<<20); err != nil {
						t.Error(err)
					}
				}
				_ = s.Status()
			}
		})
		all.Go(func() {
			for c := range 30 {
				name := fmt.Sprint("short", c, id)
				s.recorded(func() {
					s.PutRule(RuleMemory{Name: name})
					s.Lane(name, LaneOptions{}).Put(1, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}})
				})
				s.recorded(func() { s.DropRule(name) })
			}
		})
	}
	all.Wait()
	s.written()
	s.stop()
	again := open(t, dir, Options{})
	defer closed(t, again)
	if rules, err := again.Rules(); len(rules) != informers || err != nil {
		t.Errorf("rules %v, %v", rules, err)
	}
	if list, err := again.Letters(); len(list) != 20*informers || err != nil {
		t.Errorf("%d letters, %v", len(list), err)
	}
	for n := range informers {
		id := fmt.Sprint("i", n)
		snapshot := again.mustLoad(t, id)
		if len(snapshot.Objects) != 10 || snapshot.ResourceVersion != fmt.Sprint(changes-1) {
			t.Errorf("%d objects at %s", len(snapshot.Objects), snapshot.ResourceVersion)
		}
		keys, err := again.Lane(id, LaneOptions{}).Keys()
		if len(keys) != 10 || err != nil {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if k.N != 1 || k.First <= changes-10 {
				t.Errorf("%+v waits", k)
			}
		}
	}
}
