// One file that is being written.

package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
)

const (
	mark   = markOf + "1"
	markOf = "informd cuts " // begins the first frame of a file; the version of its format follows
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// file is a file that this process writes, or has written. One goroutine appends; others may sync
// meanwhile.
type file struct {
	number uint64
	id     uint64 // distinguishes the files of this process
	dir    string
	path   string
	out    Writer
	length atomic.Int64

	mu       sync.Mutex // guards the fields below
	synced   int64      // how much of it is on disk
	isListed bool       // its entry in the directory is on disk
	isClosed bool
}

// made counts the files that this process has made.
var made atomic.Uint64

// create makes a file that goes on where the one before it ends, after previous bytes.
func create(files Files, dir string, number uint64, previous int64) (*file, error) {
	path := files.Join(dir, Name(number))
	out, err := files.Create(path)
	if err != nil {
		return nil, err
	}
	l := &file{number: number, id: made.Add(1), dir: dir, path: path, out: out}
	var f Frame
	f.Reset(l.end())
	f.b = append(f.b, mark...)
	f.b = binary.AppendUvarint(binary.AppendUvarint(f.b, number), uint64(previous))
	if err := l.append(&f, 0); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return l, nil
}

func (l *file) end() Position { return Position{l.number, l.length.Load()} }

// append writes a frame. more is moreFrames if the cut goes on with the next one, otherwise 0.
func (l *file) append(f *Frame, more uint32) error {
	switch {
	case len(f.b)-header > maxFrame:
		return fmt.Errorf("a frame of %d bytes is too large", len(f.b))
	case f.at != l.end():
		return fmt.Errorf("a frame for %v cannot be appended at %v", f.at, l.end())
	}
	payload := f.b[header:]
	binary.BigEndian.PutUint32(f.b, uint32(len(payload))|more)
	binary.BigEndian.PutUint32(f.b[4:], crc32.Checksum(payload, castagnoli))
	if _, err := l.out.Write(f.b); err != nil {
		return err
	}
	l.length.Add(int64(len(f.b)))
	return nil
}

// sync returns when everything that was appended before is on disk.
func (l *file) sync(files Files) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	length := l.length.Load()
	if l.isClosed || l.synced == length {
		return nil
	}
	if err := l.out.Sync(); err != nil {
		return err
	}
	if !l.isListed {
		if err := files.SyncDir(l.dir); err != nil {
			return err
		}
	}
	l.synced, l.isListed = length, true
	return nil
}

func (l *file) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return nil
	}
	l.isClosed = true
	return l.out.Close()
}
