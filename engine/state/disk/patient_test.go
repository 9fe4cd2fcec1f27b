package disk

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lyingFile loses unsynced writes when a sync fails, and reports that the next sync succeeded.
// Linux does the same.
type lyingFile struct {
	vfs.File
	good, now []byte
	fail      func() bool
}

func (f *lyingFile) WriteAt(p []byte, offset int64) (int, error) {
	if end := int(offset) + len(p); end > len(f.now) {
		f.now = append(f.now, make([]byte, end-len(f.now))...)
	}
	return copy(f.now[offset:], p), nil
}

func (f *lyingFile) Sync() error {
	if f.fail() {
		f.now = append(make([]byte, 0, len(f.now)), f.good...)
		return syscall.EIO
	}
	f.good = bytes.Clone(f.now)
	return nil
}

func TestFailedSyncsAreNotBelieved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long with the race detector; runs without it")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		files := &lyingFile{fail: func() bool { return r.IntN(2) == 0 }}
		f := &patientFile{File: files, fs: &Patient{}, name: "f"}
		var want []byte
		for range r.IntN(10) {
			for range r.IntN(4) {
				p := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(300<<10))
				want = append(want, p...)
				if n, err := f.Write(p); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(files.good, want) {
				t.Fatalf("the disk holds %d bytes, but %d were written", len(files.good), len(want))
			}
		}
	}
}
