package state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

var here = Cluster{UID: "u", Server: "a"}

// written returns a disk in memory with a state of many changes, and the ledger of those changes.
func written(t *testing.T, seed uint64) (*vfs.MemFS, *ledger) {
	t.Helper()
	memory := vfs.NewMem()
	s := open(t, "/state", onMemory(memory))
	if err := s.Bind(here); err != nil {
		t.Fatal(err)
	}
	l := newLedger(t, s, seed)
	s.recorded(func() {
		s.PutRule(RuleMemory{Name: "r", Resource: "pods"})
		s.PutRule(RuleMemory{Name: "going"})
		s.Lane("going", LaneOptions{}).Put(1, key("g"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "g", 1, "")}}})
		s.Objects("gone", ObjectsOptions{}).Put(obj(t, "g", 1, ""), nil)
	})
	for n := range 20 {
		for range l.r.IntN(20) {
			l.change()
		}
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		if n == 7 && seed%3 > 0 {
			if err := s.moved(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.change()
	closed(t, s)
	return memory, l
}

func (l *ledger) found(s *Store) {
	l.t.Helper()
	found, err := read(s)
	if want := l.describe(); err != nil || found != want {
		l.t.Fatalf("found %v\n%s\nnot\n%s", err, found, want)
	}
	rules, err := s.Rules()
	if len(rules) == 0 || err != nil || rules[len(rules)-1].Resource != "pods" {
		l.t.Fatalf("rules %v, %v", rules, err)
	}
}

func mustTrace(t *testing.T, files vfs.FS) trace {
	t.Helper()
	now, err := traceOf(files, "/state/store")
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// If a disk accepts no writes at the start, informd loads its state and later writes the changes on
// top of it. If the process ends before that, the state on disk is as it was.
func TestStartOnAReadOnlyDisk(t *testing.T) {
	for seed := range uint64(12) {
		reason := []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO}[seed%4]
		heals := seed < 8
		t.Run(fmt.Sprint(reason, " ", seed), func(t *testing.T) {
			memory, l := written(t, seed)
			l.t = t
			before, was := l.describe(), mustTrace(t, memory)
			files := newSickFS(memory)
			files.fall(failing(reason))
			var log journal
			o := onMemory(files)
			o.Logger = log.logger()
			s := open(t, "/state", o)
			if trouble := s.Status().Trouble; !strings.Contains(trouble, "not written") || !strings.Contains(trouble, reason.Error()) {
				t.Errorf("trouble: %q", trouble)
			}
			if err := s.Bind(here); err != nil || s.Status().Unwritten != 0 {
				t.Errorf("%v, %+v", err, s.Status())
			}
			l.found(s)
			ids, err := s.Informers()
			if diff := cmp.Diff([]string{"gone", "i"}, ids, cmpopts.SortSlices(strings.Compare)); diff != "" || err != nil {
				t.Error(diff, err)
			}
			s.recorded(func() { s.DropRule("going"); s.DropInformer("gone") })
			r := run(t, s)
			l.on(s)
			oldest := uint64(1 << 60)
			for n := range l.wait {
				oldest = min(oldest, n)
			}
			waiting := l.wait[oldest]
			for range 100 {
				l.change()
			}
			if got, err := l.lane.Load(key(waiting), oldest-1, 1, 1); err != nil || len(got) != 1 || got[0].N != oldest {
				t.Errorf("loaded later: %v, %v", got, err)
			}
			if l.lane.Room(1) {
				t.Error("Room returns true on a disk that accepts no writes")
			}
			if now := mustTrace(t, memory); now != was {
				t.Error("something was written")
			}
			if heals {
				files.heal()
				r.written()
				eventually(t, "that is logged", func() bool { return log.count("durable again") > 0 })
				if n := log.count("durable again"); n != 1 || !l.lane.Room(1) {
					t.Errorf("logged %s", log.text())
				}
				for range 50 {
					l.change()
				}
			}
			r.stop()
			if n := log.count("the disk never became writable"); (n == 0) != heals {
				t.Errorf("logged %s", log.text())
			}
			again := open(t, "/state", onMemory(memory))
			defer closed(t, again)
			if err := again.Bind(here); err != nil {
				t.Error(err)
			}
			if aside := again.Status().SetAside; len(aside) > 0 {
				t.Errorf("set aside: %v", aside)
			}
			if !heals {
				if found, err := read(again); err != nil || found != before {
					t.Errorf("found %v\n%s\nnot\n%s", err, found, before)
				}
				return
			}
			l.found(again)
			if ids, err := again.Informers(); len(ids) != 1 || err != nil {
				t.Errorf("informers %v, %v", ids, err)
			}
			if keys, err := again.Lane("going", LaneOptions{}).Keys(); len(keys) > 0 || err != nil {
				t.Errorf("of a dropped rule wait %v, %v", keys, err)
			}
		})
	}
}

// Pebble logs large transactions in another form than small ones.
func TestReadingOfLargeTransactions(t *testing.T) {
	long(t)
	memory := vfs.NewMem()
	l := live(t, open(t, "/state", onMemory(memory)))
	r := rand.NewChaCha8([32]byte{1})
	for round := range 3 {
		l.recorded(func() {
			for n := range 40 {
				o := noise(t, r, fmt.Sprint("o", round, "-", n), 200_000)
				l.i.Put(o, nil)
				l.want[o.Name()] = o.ResourceVersion()
			}
		})
		l.written()
		l.record(3)
	}
	l.stop()
	files := newSickFS(memory)
	files.fall(failing(syscall.EROFS))
	s := open(t, "/state", onMemory(files))
	l.found(t, s)
	closed(t, s)
}

// If a disk accepts no writes and its state is unusable, the state is set aside as soon as that is
// possible.
func TestUnusableStateOnAReadOnlyDisk(t *testing.T) {
	version := func(t *testing.T, files vfs.FS, value []byte) {
		db, err := pebble.Open("/state/store", &pebble.Options{FS: files, FormatMajorVersion: pebble.FormatNewest, Logger: &failure{logger: Options{}.withDefaults().Logger}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Set(records.FormatKey, value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for why, do := range map[string]func(t *testing.T, files vfs.FS){
		otherCluster: func(*testing.T, vfs.FS) {},
		otherVersion: func(t *testing.T, files vfs.FS) { version(t, files, records.FormatOf(records.NewestFormat+1)) },
		damaged:      func(t *testing.T, files vfs.FS) { version(t, files, []byte(records.FormatMark)) },
		foreign:      func(t *testing.T, files vfs.FS) { version(t, files, []byte("of another program")) },
		unstartable: func(_ *testing.T, files vfs.FS) {
			for range risk.MaxEnds {
				risk.Begin(files, "/state/store", risk.Opening)
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			memory, _ := written(t, 1)
			do(t, memory)
			files := newSickFS(memory)
			files.fall(failing(syscall.ENOSPC))
			var log journal
			o := onMemory(files)
			o.Logger = log.logger()
			o.SetAside = why == otherVersion
			s := open(t, "/state", o)
			cluster := here
			if why == otherCluster {
				cluster.UID = "v"
			}
			if err := s.Bind(cluster); err != nil {
				t.Error(err)
			}
			l := live(t, s)
			if len(l.want) > 0 {
				t.Errorf("loaded %v", l.want)
			}
			if status := s.Status(); status.Trouble == "" || len(status.SetAside) > 0 {
				t.Errorf("%+v", status)
			}
			l.record(100)
			files.heal()
			l.written()
			if aside := s.Status().SetAside; len(aside) != 1 || !strings.HasSuffix(aside[0], "-"+why) || log.count(explanations[why]) != 1 {
				t.Errorf("set aside: %v, logged %s", aside, log.text())
			}
			l.stop()
			again := open(t, "/state", onMemory(memory))
			defer closed(t, again)
			if err := again.Bind(cluster); err != nil {
				t.Error(err)
			}
			l.found(t, again)
		})
	}
}

// When the disk accepts writes again, it must still hold the state that was loaded: the later
// changes belong to that state only.
func TestAnotherStateAfterReading(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, memory *vfs.MemFS){
		"changed": func(t *testing.T, memory *vfs.MemFS) {
			s := open(t, "/state", onMemory(memory))
			s.recorded(func() { s.DropInformer("i") })
			closed(t, s)
		},
		"gone": func(t *testing.T, memory *vfs.MemFS) {
			if err := memory.RemoveAll("/state/store"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory, l := written(t, 2)
			files := newSickFS(memory)
			files.fall(failing(syscall.EROFS))
			s := open(t, "/state", onMemory(files))
			l.found(s)
			r := run(t, s)
			l.on(s)
			l.change()
			change(t, memory)
			files.heal()
			eventually(t, "the store gives up writing", func() bool { return strings.Contains(s.Status().Trouble, "next start") })
			l.change()
			r.stop()
			again := open(t, "/state", onMemory(memory))
			defer closed(t, again)
			if snapshot := again.mustLoad(t, "i"); len(snapshot.Objects) > 0 || snapshot.ResourceVersion != "" || len(again.Status().SetAside) > 0 {
				t.Errorf("%v, %+v", snapshot, again.Status())
			}
		})
	}
}

// The disk works at first and then fails. Meanwhile the Store reads from it what was loaded.
func TestReadingContinuesWhenOpeningFails(t *testing.T) {
	memory, l := written(t, 3)
	files := newSickFS(memory)
	tried := make(chan struct{}, 1)
	files.fall(func(op, name string) error {
		if op == "sync" && name == "/state" { // between the probe and opening Pebble
			select {
			case tried <- struct{}{}:
			default:
			}
			return syscall.EIO
		}
		return nil
	})
	s := open(t, "/state", onMemory(files))
	l.found(s)
	r := run(t, s)
	l.on(s)
	for n, name := range l.wait {
		first := s.db.Load()
		for range 3 {
			<-tried
		}
		eventually(t, "the delivery is read", func() bool {
			got, err := l.lane.Load(key(name), n-1, 1, 1)
			return err == nil && len(got) == 1 && s.db.Load() != first
		})
		break
	}
	l.change()
	files.heal()
	r.written()
	r.stop()
	again := open(t, "/state", onMemory(memory))
	defer closed(t, again)
	l.found(again)
}

// A disk with too little room for Pebble to open counts as full. Pebble would wait for more room
// before it can read anything.
func TestStartOnANearlyFullDisk(t *testing.T) {
	memory, l := written(t, 1)
	memory.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 100 << 10})
	s := open(t, "/state", onMemory(memory))
	if trouble := s.Status().Trouble; !strings.Contains(trouble, "no space left") {
		t.Errorf("trouble: %q", trouble)
	}
	l.found(s)
	r := run(t, s)
	l.on(s)
	l.change()
	memory.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 100 << 20})
	r.written()
	r.stop()
	again := open(t, "/state", onMemory(memory))
	defer closed(t, again)
	l.found(again)
}
