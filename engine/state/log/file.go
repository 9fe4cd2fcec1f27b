// One file that is being written.

package log

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
)

const (
	mark   = markOf + "1"
	markOf = "informd cuts " // begins the first frame of a file; the version of its format follows
)

// file is a file that this process writes, or has written. One goroutine appends; others may sync
// meanwhile.
type file struct {
	number uint64
	id     uint64 // distinguishes the files of this process
	dir    string
	path   string
	out    Writer
	length atomic.Int64
	whole  atomic.Int64 // where the last whole cut ends

	mu       sync.Mutex // guards the fields below
	synced   int64      // how much of it is on disk
	isListed bool       // its entry in the directory is on disk
	isClosed bool
}

// made counts the files that this process has made.
var made atomic.Uint64

// create makes a file with a number, which begins with a frame.
func create(files Files, dir string, number uint64, first []byte) (*file, error) {
	path := files.Join(dir, Name(number))
	out, err := files.Create(path)
	if err != nil {
		return nil, err
	}
	f := &file{number: number, id: made.Add(1), dir: dir, path: path, out: out}
	if err := f.write(first); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return f, nil
}

// firstFrame returns the frame that begins the file with a number. It says that whole cuts end in
// the file before after previous bytes.
func firstFrame(number uint64, previous int64) *Frame {
	f := new(Frame)
	f.Reset(Position{File: number})
	f.b = append(f.b, mark...)
	f.b = binary.AppendUvarint(binary.AppendUvarint(f.b, number), uint64(previous))
	return f
}

func (f *file) end() Position { return Position{f.number, f.length.Load()} }

// write writes a sealed frame at the file's end.
func (f *file) write(frame []byte) error {
	if _, err := f.out.Write(frame); err != nil {
		return err
	}
	if end := f.length.Add(int64(len(frame))); !hasMore(frame) {
		f.whole.Store(end)
	}
	return nil
}

// sync returns when everything that was appended before is on disk.
func (f *file) sync(files Files) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	length := f.length.Load()
	if f.isClosed || f.synced == length {
		return nil
	}
	if err := f.out.Sync(); err != nil {
		return err
	}
	if !f.isListed {
		if err := files.SyncDir(f.dir); err != nil {
			return err
		}
	}
	f.synced, f.isListed = length, true
	return nil
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isClosed {
		return nil
	}
	f.isClosed = true
	return f.out.Close()
}
