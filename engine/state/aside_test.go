package state

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// made returns the directory of a closed state that holds one rule.
func made(t *testing.T) (dir string) {
	dir = t.TempDir()
	s := open(t, dir, Options{})
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
	closed(t, s)
	return dir
}

// meddle changes a state on disk without the Store.
func meddle(t *testing.T, dir string, f func(db *pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(dir, storeName), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: &failure{logger: Options{}.withDefaults().Logger}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f(db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStatesThatAreSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		why     string
		message string
		do      func(t *testing.T, dir string)
	}{
		"a damaged version": {damaged, "damaged", func(t *testing.T, dir string) {
			meddle(t, dir, func(db *pebble.DB) error { return db.Set(records.FormatKey, []byte(records.FormatMark), pebble.Sync) })
		}},
		"somebody else's Pebble": {foreign, "not informd's", func(t *testing.T, dir string) {
			meddle(t, dir, func(db *pebble.DB) error {
				if err := db.Set([]byte("a"), nil, nil); err != nil {
					return err
				}
				return db.Delete(records.FormatKey, pebble.Sync)
			})
		}},
		"something else": {foreign, "not informd's", func(t *testing.T, dir string) {
			store := filepath.Join(dir, storeName)
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(store, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(store, "thesis.txt"), []byte("do not lose"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"a file": {foreign, "not informd's", func(t *testing.T, dir string) {
			store := filepath.Join(dir, storeName)
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(store, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"without its list of files": {damaged, "damaged", func(t *testing.T, dir string) {
			meddle(t, dir, func(db *pebble.DB) error { return db.Flush() })
			markers, err := filepath.Glob(filepath.Join(dir, storeName, "marker.manifest*"))
			if err != nil || len(markers) == 0 {
				t.Fatal(markers, err)
			}
			for _, m := range markers {
				if err := os.Remove(m); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"found to be damaged while it ran": {damaged, "damaged", func(t *testing.T, dir string) {
			risk.Begin(Options{}.withDefaults().disk, filepath.Join(dir, storeName), risk.Damaged)
		}},
		"the end of ten processes that opened it": {unstartable, "ten times", func(t *testing.T, dir string) {
			for range risk.MaxEnds {
				risk.Begin(Options{}.withDefaults().disk, filepath.Join(dir, storeName), risk.Opening)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := made(t)
			c.do(t, dir)
			var log journal
			s := open(t, dir, Options{Logger: log.logger()})
			rules, err := s.Rules()
			if len(rules) > 0 || err != nil {
				t.Errorf("rules %v, %v", rules, err)
			}
			aside := s.Status().SetAside
			if len(aside) != 1 || !strings.HasSuffix(aside[0], "-"+c.why) {
				t.Errorf("set aside: %v", aside)
			} else if _, err := os.Stat(aside[0]); err != nil {
				t.Error(err)
			}
			if log.count("level=ERROR") != 1 || log.count(c.message) == 0 {
				t.Errorf("logged %s", log.text())
			}
			closed(t, s)
		})
	}
}

func TestSurvivedStartsDoNotCount(t *testing.T) {
	dir := made(t)
	files := Options{}.withDefaults().disk
	for range 3 {
		for range risk.MaxEnds - 1 {
			risk.Begin(files, filepath.Join(dir, storeName), risk.Opening)
		}
		s := open(t, dir, Options{})
		if rules, err := s.Rules(); len(rules) != 1 || err != nil {
			t.Fatalf("rules %v, %v", rules, err)
		}
		closed(t, s)
	}
}

func TestThreeStatesAreKept(t *testing.T) {
	dir := made(t)
	var before []string
	for range maxAside + 2 {
		meddle(t, dir, func(db *pebble.DB) error { return db.Set(records.FormatKey, []byte("x"), pebble.Sync) })
		began := time.Now()
		s := open(t, dir, Options{})
		aside := s.Status().SetAside
		if at := s.Status().LastSetAside; at.Before(began) || at.After(time.Now()) {
			t.Errorf("last set aside at %v, not since %v", at, began)
		}
		if len(aside) > maxAside || slices.Contains(before, aside[len(aside)-1]) {
			t.Errorf("set aside: %v, before %v", aside, before)
		}
		before = aside
		closed(t, s)
	}
	if len(before) != maxAside {
		t.Errorf("set aside: %v", before)
	}
}

// After a Load meets damage, every Load returns nothing, also for objects that were loaded before.
func TestDamageFoundWhileLoading(t *testing.T) {
	for name, harm := range map[string]func(db *pebble.DB) error{
		"object": func(db *pebble.DB) error {
			return db.Set(records.AppendObjectKey(nil, records.NewOwner(records.ObjectPrefix, "two"), key("a")), []byte{1}, nil)
		},
		"identity": func(db *pebble.DB) error { return swapValues(db, records.NewOwner(records.ObjectPrefix, "two")) },
		"informer": func(db *pebble.DB) error {
			return db.Set(records.InformerKey(records.NewOwner(records.ObjectPrefix, "two")), nil, nil)
		},
		"rule":   func(db *pebble.DB) error { return db.Set(records.RuleKey("r"), []byte("r"), nil) },
		"letter": func(db *pebble.DB) error { return db.Set(records.LetterKey("l"), []byte("l"), nil) },
		"lane": func(db *pebble.DB) error {
			o := records.NewOwner(records.DeliveryPrefix, "r")
			return db.Set(o[:], nil, nil)
		},
		"dictionary": func(db *pebble.DB) error {
			return db.DeleteRange([]byte{records.DictionaryPrefix}, []byte{records.DictionaryPrefix + 1}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			if err := s.Bind(Cluster{UID: "u"}); err != nil {
				t.Fatal(err)
			}
			p := newPods(1)
			s.recorded(func() {
				s.PutRule(RuleMemory{Name: "r"})
				s.Objects("one", ObjectsOptions{}).Put(obj(t, "a", 1, ""), nil)
				for n := range 100 {
					s.Objects("two", ObjectsOptions{}).Put(p.pod(t, n, n, 2000), nil)
				}
			})
			closed(t, s)
			meddle(t, dir, harm)
			s = open(t, dir, Options{})
			if err := s.Bind(Cluster{UID: "u"}); err != nil {
				t.Fatal(err)
			}
			if got := s.mustLoad(t, "one"); len(got.Objects) != 1 {
				t.Fatal("not loaded")
			}
			_, err1 := s.Objects("two", ObjectsOptions{}).Load()
			_, err2 := s.Rules()
			_, err3 := s.Letters()
			_, err4 := s.Lane("r", LaneOptions{}).Keys()
			failed := 0
			for _, err := range []error{err1, err2, err3, err4} {
				if err == ErrSetAside {
					failed++
				} else if err != nil {
					t.Error(err)
				}
			}
			if failed != 1 || len(s.Status().SetAside) != 1 {
				t.Errorf("%d loads failed, set aside: %v", failed, s.Status().SetAside)
			}
			if got := s.mustLoad(t, "one"); len(got.Objects) != 0 {
				t.Error("loaded what is set aside")
			}
			closed(t, s)
			s = open(t, dir, Options{})
			if err := s.Bind(Cluster{UID: "another"}); err != nil || len(s.Status().SetAside) != 2 {
				t.Errorf("the fresh state is not bound: %v", err)
			}
			closed(t, s)
		})
	}
}

// swapValues exchanges the values of two objects.
func swapValues(db *pebble.DB, o records.Owner) error {
	var keys, values [][]byte
	err := scan(db, o[:], o[:], func(key []byte, it *pebble.Iterator) (bool, error) {
		keys, values = append(keys, slices.Clone(key)), append(values, slices.Clone(it.Value()))
		return len(keys) < 2, nil
	})
	if err != nil {
		return err
	}
	if err := db.Set(keys[0], values[1], nil); err != nil {
		return err
	}
	return db.Set(keys[1], values[0], nil)
}

// Damage that the running daemon meets ends durability until the next start. It does not end the
// daemon.
func TestDamageFoundWhileRunning(t *testing.T) {
	dir := t.TempDir()
	var log journal
	s := run(t, open(t, dir, Options{Logger: log.logger(), FlushEvery: 5 * time.Millisecond, limits: quick}))
	lane := s.Lane("r", LaneOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	put := func(n uint64) {
		s.recorded(func() {
			lane.Put(n, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}})
		})
	}
	put(1)
	s.written()
	s.moveSoon(time.Minute)
	if err := s.db.Load().pebble.Set(records.AppendDeliveryKey(nil, lane.owner, key("a"), 1), []byte("x"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status shows the trouble", func() bool {
		if _, err := lane.Load(key("a"), 0, 1, 1); err == nil { // an error can also be a read that takes too long
			t.Fatal("loaded what is damaged")
		}
		return strings.Contains(s.Status().Trouble, "next start")
	})
	for n := range uint64(100) {
		put(n + 2)
	}
	if status := s.Status(); status.Unwritten > 1 || lane.Room(1) {
		t.Errorf("%+v: memory fills", status)
	}
	s.stop()
	again := open(t, dir, Options{})
	if keys, err := again.Lane("r", LaneOptions{}).Keys(); len(keys) > 0 || err != nil || len(again.Status().SetAside) != 1 {
		t.Errorf("%v, %v, %v", keys, err, again.Status().SetAside)
	}
	closed(t, again)
}
