// The row of files that is being written.

package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Log is a log that this process writes.
type Log struct {
	files Files
	dir   string
	agree func(Entry) error // returns nil once the entry is written
	// before is the number of the last file whose content the caller has, if there is no file.
	before uint64

	current atomic.Pointer[file] // the newest one; nil before the first one

	mu  sync.Mutex // guards row; a leaf
	row []*file    // those that were not removed yet, the oldest first
}

// Start begins a log in a directory with the file of a number, which goes on from none. Then it
// removes the files with the numbers old, which must be lower: the caller has their content, or
// does without. After an error some of them may be gone, and the new file may be there.
func Start(files Files, dir string, number uint64, old []uint64) (*Log, error) {
	l := &Log{files: files, dir: dir}
	l.agree = l.write
	if err := l.begin(number, 0); err != nil {
		return nil, err
	}
	for _, n := range old {
		err := files.Remove(files.Join(dir, Name(n)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// End returns where the next frame goes. If there is no file, that is the next file.
func (l *Log) End() Position {
	current := l.current.Load()
	if current == nil {
		return Position{l.before, math.MaxInt64}
	}
	return current.end()
}

// Whole returns where the last whole cut ends. That is End, unless frames of a cut are still to
// come, or never came. It is zero if there is no file.
func (l *Log) Whole() Position {
	current := l.current.Load()
	if current == nil {
		return Position{}
	}
	return Position{current.number, current.whole.Load()}
}

// ID identifies the newest file among all that this process makes, in any log. It is never 0. There
// must be a file.
func (l *Log) ID() uint64 { return l.current.Load().id }

// Path returns the path of the file with a number, whether it is there or not.
func (l *Log) Path(number uint64) string { return l.files.Join(l.dir, Name(number)) }

// Append writes a frame that ends a cut. It returns the new end of the log: the operating system
// has everything before. Append keeps nothing of the frame, and drops the frame's memory if that is
// much larger than recent frames.
func (l *Log) Append(f *Frame) (end Position, err error) {
	if err := l.append(f, false); err != nil {
		return Position{}, err
	}
	f.shrink()
	return l.End(), nil
}

// AppendPart writes a frame whose cut goes on with the next frame. Nothing counts until Append has
// written the last one.
func (l *Log) AppendPart(f *Frame) (end Position, err error) {
	if err := l.append(f, true); err != nil {
		return Position{}, err
	}
	return l.End(), nil
}

func (l *Log) append(f *Frame, hasMore bool) error {
	if end := l.End(); f.at != end {
		return fmt.Errorf("a frame for %v cannot be appended at %v", f.at, end)
	}
	frame, err := f.seal(hasMore)
	if err != nil {
		return err
	}
	return l.agree(Entry{At: f.at, Frame: frame})
}

// Roll begins the next file. It returns the end of the one before it, to which nobody appends any
// more.
func (l *Log) Roll() (last Position, err error) {
	last, previous := l.End(), int64(0)
	if current := l.current.Load(); current != nil {
		previous = current.whole.Load()
	} else if l.before > 0 {
		return last, fmt.Errorf("the file %s of the log is missing", Name(l.before))
	}
	return last, l.begin(last.File+1, previous)
}

// begin begins the file with a number.
func (l *Log) begin(number uint64, previous int64) error {
	f := firstFrame(number, previous)
	frame, err := f.seal(false)
	if err != nil {
		return err
	}
	return l.agree(Entry{At: f.at, Frame: frame})
}

// write writes an entry at the end of the log, or as the beginning of its next file.
func (l *Log) write(e Entry) error {
	if e.At.Offset > 0 {
		return l.current.Load().write(e.Frame)
	}
	next, err := create(l.files, l.dir, e.At.File, e.Frame)
	if err != nil {
		return err
	}
	noteNewest(l.files, l.dir, next.number) // before others go: it never names one that went here
	l.mu.Lock()
	l.row = append(l.row, next)
	l.mu.Unlock()
	l.current.Store(next)
	return nil
}

// Sync returns when the disk has everything that was appended before the call, and where that ends.
// It takes as long as the disk does. Append does not wait for it.
func (l *Log) Sync() (end Position, err error) {
	end = l.End()
	for _, f := range l.present() {
		if err := f.sync(l.files); err != nil {
			return Position{}, err
		}
	}
	return end, nil
}

// Size returns how many bytes the files have that were not removed.
func (l *Log) Size() (sum int64) {
	for _, f := range l.present() {
		sum += f.length.Load()
	}
	return sum
}

// ReadBack syncs a file and reads what it holds. The file must not have been removed, and nobody
// must append to it meanwhile. The error is [ErrShort] if the disk has less than was written. The
// caller closes the Contents. pause, which may be nil, is called between frames.
func (l *Log) ReadBack(number uint64, pause func()) (*Contents, error) {
	f := l.find(number)
	if f == nil {
		return nil, fs.ErrNotExist
	}
	if err := f.sync(l.files); err != nil {
		return nil, err
	}
	c, _, err := read(l.files, l.dir, number, pause)
	if err != nil {
		return nil, err
	}
	if c.length != f.whole.Load() {
		return nil, errors.Join(ErrShort, c.Close())
	}
	return c, nil
}

// Remove closes a file and removes it: its content is elsewhere. The newest file may be removed
// only if nobody appends any more.
func (l *Log) Remove(number uint64) error {
	if f := l.find(number); f != nil {
		l.mu.Lock()
		l.row = slices.DeleteFunc(l.row, func(other *file) bool { return other == f })
		l.mu.Unlock()
		_ = f.close() // nobody needs it any more
	}
	return l.files.Remove(l.Path(number))
}

// Close closes all files. Nothing may be appended after that.
func (l *Log) Close() (err error) {
	for _, f := range l.present() {
		err = errors.Join(err, f.close())
	}
	return err
}

// present returns the files that were not removed, the oldest first.
func (l *Log) present() []*file {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.row)
}

// find returns the file with a number, or nil.
func (l *Log) find(number uint64) *file {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.row {
		if f.number == number {
			return f
		}
	}
	return nil
}
