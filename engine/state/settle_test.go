package state

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/risk"
)

// settled settles the state on files, and returns its generation.
func settled(t *testing.T, files *vfs.MemFS, entries [][]byte) (got Generation) {
	t.Helper()
	o := onMemory(files)
	o.limits.log, o.limits.part = 20<<10, 3000
	err := Settle(groupDir, o, replay(entries), func(g Generation) error { got = g; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func replay(entries [][]byte) func(func([]byte) error) error {
	if entries == nil {
		return nil
	}
	return func(apply func([]byte) error) error {
		for i, entry := range entries {
			if err := apply(entry); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
		return nil
	}
}

// crashed returns files as a kill leaves them.
func crashed(files *vfs.MemFS) *vfs.MemFS {
	return files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// The state of one process becomes that of the first of several: however it ended, the others get all of
// it.
func TestSettleTheStateOfOne(t *testing.T) {
	for _, isKilled := range []bool{false, true} {
		files := vfs.NewCrashableMem()
		for i := range 3 { // three processes, one after the other
			s := open(t, groupDir, onMemory(files))
			s.recorded(func() { s.PutRule(RuleMemory{Name: fmt.Sprintf("r%d", i)}) })
			if err := s.flush(s.db.Load()); err != nil {
				t.Fatal(err)
			}
			after := files
			if isKilled {
				after = crashed(files)
			}
			closed(t, s)
			files = after
		}
		g := newGroup(t, 1)
		first := g.members[0]
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := settled(t, files, nil); got != (Generation{}) {
				t.Errorf("replicas never had it, and its generation is %v", got)
			}
		}
		first.files = files
		g.open(first)
		if first.IsEmpty() {
			t.Error("the replica believes that it is empty")
		}
		all := func(s *Store) {
			if rules, err := s.Rules(); err != nil || len(rules) != 3 || s.IsNew() {
				t.Errorf("it has the rules %v, %v; new: %v", rules, err, s.IsNew())
			}
		}
		g.isAlone = true
		g.leadIn(first, "c1", 1, all)
		for _, m := range g.members[1:] {
			g.copy(m, first)
		}
		g.isAlone = false
		g.leadIn(g.members[1], "c1", 1, all)
		g.apply(first, len(g.agreed))
		g.apply(g.members[2], len(g.agreed))
		g.leadIn(g.members[2], "c1", 1, all)
		g.compare()
	}
}

// A replica that goes on alone has everything that it had agreed to. It may be killed at any moment
// meanwhile.
func TestSettleTheStateOfAReplica(t *testing.T) {
	for seed := range cases(10, 200) {
		g := newGroup(t, seed)
		history := []content{{map[string]string{}, map[string][]uint64{}}}
		m := g.members[0]
		g.leadIn(g.members[1], "c1", 1, nothing)
		for range 3 {
			history = g.term(g.members[1], history, 1+g.IntN(15))
			g.apply(m, m.applied+g.IntN(len(g.agreed)-m.applied+1))
			if g.IntN(2) == 0 {
				g.restart(m, g.IntN(2) == 0)
			}
		}
		entries := g.agreed[min(m.synced, m.applied):]
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		var states []*vfs.MemFS
		note := func() { states = append(states, crashed(m.files)) }
		o := onMemory(m.files)
		note()
		err := Settle(groupDir, o, func(apply func([]byte) error) error {
			note()
			defer note()
			return replay(entries)(func(entry []byte) error {
				err := apply(entry)
				if g.IntN(10) == 0 {
					note()
				}
				return err
			})
		}, func(Generation) error { note(); return nil })
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i, files := range append(states, m.files) {
			if got := settled(t, files, entries); got != (Generation{"c1", 2}) {
				t.Errorf("seed %d, state %d: the generation is %v", seed, i, got)
			}
			next := newGroup(t, seed)
			one := next.members[0]
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			one.files = files
			next.open(one)
			next.isAlone = true
			next.leadIn(one, "c1", 3, nothing)
			for _, m := range next.members[1:] {
				next.copy(m, one)
			}
			next.isAlone = false
			next.term(next.members[1], history, 5)
			for _, m := range next.members {
				next.apply(m, len(next.agreed))
			}
			next.compare()
		}
	}
}

// What cannot be used is refused, and stays as it is.
func TestCheck(t *testing.T) {
	files := vfs.NewCrashableMem()
	o := onMemory(files)
	if err := Check(groupDir, o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is there: %v", err)
	}
	s := open(t, groupDir, o)
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
	closed(t, s)
	if err := Check(groupDir, o); err != nil {
		t.Error(err)
	}
	never := func(Generation) error { t.Error("it was found usable"); return nil }
	for what, harm := range map[string]func(*vfs.MemFS){
		"marked": func(files *vfs.MemFS) { risk.Begin(files, groupDir+"/"+storeName, risk.Damaged) },
		"lacks a table": func(files *vfs.MemFS) {
			names, _ := files.List(groupDir + "/" + storeName)
			for _, name := range names {
				if len(name) > 4 && name[len(name)-4:] == ".sst" {
					_ = files.Remove(groupDir + "/" + storeName + "/" + name)
				}
			}
		},
	} {
		harmed := crashed(files)
		harm(harmed)
		for _, err := range []error{
			Check(groupDir, onMemory(harmed)), Settle(groupDir, onMemory(harmed), nil, never),
		} {
			if err == nil {
				t.Errorf("%s: no error", what)
			}
			t.Logf("%s: %v", what, err)
		}
		if aside, err := asideIn(harmed, groupDir); err != nil || len(aside) > 0 {
			t.Errorf("%s: it is set aside: %v, %v", what, aside, err)
		}
	}
}

// A replica opens a state in which it was killed often, so it is no reason to refuse that state.
func TestCheckAfterManyEnds(t *testing.T) {
	files := vfs.NewCrashableMem()
	o := onMemory(files)
	closed(t, open(t, groupDir, o))
	for range risk.MaxEnds {
		risk.Begin(files, groupDir+"/"+storeName, risk.Opening)
		risk.Begin(files, groupDir+"/"+storeName, risk.Compacting)
	}
	catches := o
	catches.CatchCrashes = true
	if err := Check(groupDir, catches); !errors.Is(err, errDamaged) {
		t.Errorf("after crashes: %v", err)
	}
	if err := Check(groupDir, o); err != nil {
		t.Error(err)
	}
	if err := Settle(groupDir, o, nil, func(Generation) error { return nil }); err != nil {
		t.Error(err)
	}
}

// A disk that accepts no writes is an error, and nothing waits for it.
func TestSettleOnASickDisk(t *testing.T) {
	for _, reason := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS} {
		mem := vfs.NewCrashableMem()
		closed(t, open(t, groupDir, onMemory(mem)))
		files := newSickFS(mem)
		files.fall(failing(reason))
		o := onMemory(mem)
		o.disk = files
		never := func(Generation) error { t.Error("it is settled"); return nil }
		if err := Settle(groupDir, o, nil, never); !errors.Is(err, reason) {
			t.Errorf("%v: %v", reason, err)
		}
	}
}

// A state of a newer informd is refused as it is.
func TestCheckANewerVersion(t *testing.T) {
	for name, makeNewer := range newerStates {
		dir := t.TempDir()
		closed(t, open(t, dir, Options{}))
		makeNewer(t, dir)
		newer, ok := errors.AsType[*VersionError](Check(dir, Options{}))
		if !ok || newer.Dir != dir {
			t.Errorf("%s: %v", name, newer)
		}
	}
}

// Entries that do not go on where the log of a replica ends are refused, and change nothing.
func TestSettleWithAGap(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	g.term(g.members[0], []content{{map[string]string{}, map[string][]uint64{}}}, 20)
	m := g.members[1]
	g.apply(m, 4)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	o := onMemory(m.files)
	never := func(Generation) error { t.Error("it was found usable"); return nil }
	if err := Settle(groupDir, o, replay(g.agreed[6:]), never); !errors.As(err, new(*log.GapError)) {
		t.Errorf("an entry that does not go on: %v", err)
	}
	g.open(m)
	g.apply(m, len(g.agreed))
	g.compare()
}
