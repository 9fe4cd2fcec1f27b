package replica

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// encode returns entries as raft-wal writes them.
func encode(t *testing.T, logs []*raft.Log) []types.LogEntry {
	t.Helper()
	var all []types.LogEntry
	for _, log := range logs {
		var b bytes.Buffer
		if err := (&wal.BinaryCodec{}).Encode(log, &b); err != nil {
			t.Fatal(err)
		}
		all = append(all, types.LogEntry{Index: log.Index, Data: b.Bytes()})
	}
	return all
}

// raft-wal may be ended after it has sealed a file, or while it does so, and before it has noted the
// next one.
func TestALogThatEndsWithASealedFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		min    uint64
		isTorn bool
		last   uint64
	}{
		"sealed":          {1, false, 60},
		"begins later":    {7, false, 60},
		"sealed half way": {1, true, 10},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lock, err := openDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lock.Close() }()
			inner := filepath.Join(dir, "raft")
			files, info := segment.NewFiler(inner, fs.New()), types.SegmentInfo{
				ID: 1, BaseIndex: 1, MinIndex: test.min, Codec: wal.CodecBinaryV1, SizeLimit: 1000,
			}
			file, err := files.Create(info)
			if err != nil {
				t.Fatal(err)
			}
			for _, logs := range [][]*raft.Log{entries(1, 10, 1), entries(11, 60, 1)} {
				if err := file.Append(encode(t, logs)); err != nil {
					t.Fatal(err)
				}
			}
			if isSealed, _, _ := file.Sealed(); !isSealed {
				t.Fatal("the file is not sealed")
			}
			_ = file.Close()
			if test.isTorn { // of what sealed it, the end is missing
				tear(t, filepath.Join(inner, segment.FileName(info)))
			}
			var notes metadb.BoltMetaDB
			if _, err := notes.Load(inner); err != nil {
				t.Fatal(err)
			}
			state := types.PersistentState{NextSegmentID: 2, Segments: []types.SegmentInfo{info}}
			if err := notes.CommitState(state); err != nil {
				t.Fatal(err)
			}
			_ = notes.Close()
			last := test.last
			for range 3 { // the log is opened, appended to and opened again
				log, err := openStore(dir, 1000, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				if is, _ := log.LastIndex(); is != last {
					t.Errorf("the last entry is %d, want %d", is, last)
				}
				if is, _ := log.FirstIndex(); is != test.min {
					t.Errorf("the first entry is %d, want %d", is, test.min)
				}
				for index := test.min; index <= last; index++ {
					var entry raft.Log
					if err := log.GetLog(index, &entry); err != nil || entry.Index != index {
						t.Errorf("entry %d: %+v %v", index, entry, err)
					}
				}
				if err := log.StoreLogs(entries(last+1, last+5, 2)); err != nil {
					t.Errorf("the log takes no entry: %v", err)
				}
				last += 5
				if err := log.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// tear removes the last eight bytes of a file that are not zero.
func tear(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(content, "\x00"))
	clear(content[end-8 : end])
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
