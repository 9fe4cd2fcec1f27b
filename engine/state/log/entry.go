// A log of which several processes have the same copy.

package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/informd/informd/engine/state/fields"
)

// Entry is a frame with its place, as the processes that share a log agree on it.
type Entry struct {
	At    Position
	Frame []byte // with its header
}

// Encode appends the entry to b.
func (e Entry) Encode(b []byte) []byte {
	b = binary.AppendUvarint(b, e.At.File)
	b = binary.AppendUvarint(b, uint64(e.At.Offset))
	return append(b, e.Frame...)
}

// ReadEntry reads an entry that Encode has written. It verifies the frame's checksum. The entry
// refers to b.
func ReadEntry(b []byte) (Entry, error) {
	r := fields.Reader{Left: b}
	e := Entry{At: Position{File: r.Uvarint(), Offset: int64(r.Uvarint())}, Frame: r.Left}
	if r.Failed() || len(e.Frame) <= header || e.At.File == 0 || e.At.Offset < 0 {
		return Entry{}, ErrMalformed
	}
	payload := e.Frame[header:]
	if int64(binary.BigEndian.Uint32(e.Frame)&^moreFrames) != int64(len(payload)) ||
		binary.BigEndian.Uint32(e.Frame[4:]) != crc32.Checksum(payload, castagnoli) {
		return Entry{}, ErrMalformed
	}
	return e, nil
}

// Only returns the value that an entry sets a key to, if it does nothing else.
func (e Entry) Only(key []byte) (value []byte, ok bool) {
	r := fields.Reader{Left: e.Frame[header:]}
	if r.Byte() != Set || !bytes.Equal(r.Bytes(), key) {
		return nil, false
	}
	length, part := r.Uvarint(), r.Uvarint()
	value = r.Take(int(part >> 1))
	return value, part == length<<1 && r.End() == nil
}

// GapError means that an entry does not go on where the log ends.
type GapError struct{ End, At Position }

func (e *GapError) Error() string {
	return fmt.Sprintf("an entry belongs at %d of file %d, but the log ends at %d of file %d",
		e.At.Offset, e.At.File, e.End.Offset, e.End.File)
}

// Resume goes on with the log in a directory that an earlier process left, or with an empty one. The
// caller has the content of all files before next. The log ends after the last whole frame that goes
// on where the one before it ends. What lies beyond gets overwritten. lost says what that is, up to
// the first file that is lost as a whole. Every frame of the Log goes through agree, which returns nil
// after some goroutine has called Write with the entry, and an error if that will not happen. agree
// does not keep the entry's frame.
func Resume(
	files Files, dir string, next uint64, agree func(Entry) error,
) (l *Log, lost []Lost, err error) {
	l = &Log{files: files, dir: dir, agree: agree, before: next - 1}
	numbers, err := Numbers(files, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		if n+1 < next {
			continue // only the end of the last file that the caller has matters
		}
		ends, err := measure(files, dir, n)
		if err != nil {
			return nil, nil, errors.Join(err, l.Close())
		}
		last := l.current.Load()
		if ends.length == 0 || last == nil && n > next ||
			last != nil && (n != last.number+1 || n > next && ends.previous != last.whole.Load()) {
			lost = append(lost, Lost{n, 0, ends.ofFile})
			break // the frames before it are to be written once more, and then this file
		}
		if ends.length < ends.ofFile {
			lost = append(lost, Lost{n, ends.length, ends.ofFile})
		}
		f := &file{number: n, id: made.Add(1), dir: dir, path: l.Path(n)}
		f.length.Store(ends.length)
		f.whole.Store(ends.whole)
		l.row = append(l.row, f)
		l.current.Store(f)
	}
	if err := l.reopen(); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, lost, nil
}

// reopen opens the files of the row to write and to sync them.
func (l *Log) reopen() (err error) {
	for _, f := range l.row {
		if f.out, err = l.files.Continue(f.path, f.length.Load()); err != nil {
			return err
		}
	}
	return nil
}

// Write writes an entry on which the processes have agreed. It ignores one that the log has. Only
// one goroutine at a time calls Write. The error is a *[GapError] if an earlier entry is missing.
func (l *Log) Write(e Entry) error {
	end := l.End()
	switch {
	case e.At.IsBefore(end):
		return nil
	case e.At != end && e.At != (Position{File: end.File + 1}):
		return &GapError{End: end, At: e.At}
	}
	if current := l.current.Load(); e.At.Offset == 0 && current != nil && current.number > l.before {
		number, previous, err := readFirst(e.Frame[header:])
		if err != nil {
			return err
		}
		if number != e.At.File || previous != current.whole.Load() {
			return &GapError{End: end, At: e.At} // the end of the file before is missing
		}
	}
	return l.write(e)
}

// Full returns the numbers of the files that nobody writes any more, in order.
func (l *Log) Full() (numbers []uint64) {
	newest := l.End().File
	for _, f := range l.present() {
		if f.number < newest {
			numbers = append(numbers, f.number)
		}
	}
	return numbers
}
