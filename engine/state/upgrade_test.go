package state

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/records"
)

// A store from before there were logs, whose process was killed, is read whole: Pebble had a log of
// its own. That log does not come back over what is written later.
func TestKilledStoreWithoutLogs(t *testing.T) {
	before := vfs.NewCrashableMem()
	s := open(t, "/state", onMemory(before))
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r", Resource: "old"}) })
	closed(t, s)
	db, err := pebble.Open("/state/"+storeName, &pebble.Options{FS: before, FormatMajorVersion: pebble.FormatNewest, Logger: &failure{logger: Options{}.withDefaults().Logger}})
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	for _, err := range []error{
		b.Delete(records.ProgressKey, nil),
		b.Set(records.FormatKey, binary.AppendUvarint([]byte(records.FormatMark), records.Logless), nil),
		b.Set(records.RuleKey("r"), records.AppendRule(nil, &RuleMemory{Name: "r", Resource: "of the killed process"}), nil),
		b.Commit(pebble.Sync),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files := killed(before)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want := "of the killed process"
	for _, next := range []string{"in the log", "in the store", "in the next log"} {
		s := open(t, "/state", onMemory(files))
		rules, err := s.Rules()
		if err != nil || len(rules) != 1 || rules[0].Resource != want {
			t.Errorf("%v, %v; want %s", rules, err, want)
		}
		want = next
		s.recorded(func() { s.PutRule(RuleMemory{Name: "r", Resource: next}) })
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		if next == "in the store" {
			if err := s.moved(); err != nil {
				t.Fatal(err)
			}
		}
		was := files
		files = killed(was)
		closed(t, s)
	}
	s = open(t, "/state", onMemory(files))
	defer closed(t, s)
	if rules, err := s.Rules(); err != nil || len(rules) != 1 || rules[0].Resource != want {
		t.Errorf("%v, %v; want %s", rules, err, want)
	}
}

// killed returns what a process leaves on a disk that ends now, at one moment for all files.
func killed(files *vfs.MemFS) *vfs.MemFS {
	return files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}
