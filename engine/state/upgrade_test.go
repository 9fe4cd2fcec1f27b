package state

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store from before there were logs, whose process was killed, is read whole: Pebble had a log of
// its own. That log does not come back over what is written later.
func TestKilledStoreWithoutLogs(t *testing.T) {
	before := vfs.NewMem()
	s := open(t, "/state", onMemory(before))
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r", Resource: "old"}) })
	closed(t, s)
	db, err := pebble.Open("/state/"+storeName, &pebble.Options{FS: before, FormatMajorVersion: pebble.FormatNewest, Logger: &failure{logger: Options{}.withDefaults().Logger}})
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	for _, err := range []error{
		b.Delete(progressKey, nil),
		b.Set(formatKey, binary.AppendUvarint([]byte(formatMark), logless), nil),
		b.Set(ruleKey("r"), appendRule(nil, &RuleMemory{Name: "r", Resource: "of the killed process"}), nil),
		b.Commit(pebble.Sync),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	disk := killed(t, before)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want := "of the killed process"
	for _, next := range []string{"in the log", "in the store", "in the next log"} {
		s := open(t, "/state", onMemory(disk))
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
		was := disk
		disk = killed(t, was)
		closed(t, s)
	}
	s = open(t, "/state", onMemory(disk))
	defer closed(t, s)
	if rules, err := s.Rules(); err != nil || len(rules) != 1 || rules[0].Resource != want {
		t.Errorf("%v, %v; want %s", rules, err, want)
	}
}

// killed returns what a process leaves on a disk that ends now.
func killed(t *testing.T, disk vfs.FS) *vfs.MemFS {
	t.Helper()
	left := vfs.NewMem()
	if _, err := vfs.Clone(disk, left, "/state", "/state"); err != nil {
		t.Fatal(err)
	}
	return left
}
