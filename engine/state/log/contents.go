// Reading one file.

package log

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/engine/state/fields"
)

// Contents is what a file holds: for each key that it changes, what it makes of it in the end. The
// zero Contents holds nothing. Values stay on disk until Value reads them.
type Contents struct {
	file    Reader
	number  uint64
	dropped [][]byte
	finals  map[string]final
	length  int64         // of the whole frames
	ofFile  int64         // the length of the file
	in      *bufio.Reader // Value uses it again and again
}

// final is what a file makes of a key in the end.
type final struct {
	kind   Kind   // Set, Add or Delete
	length uint32 // of the value
	value  int64  // offset of the value in the file
}

// Number returns the number of the file.
func (c *Contents) Number() uint64 { return c.number }

// Length returns where the last whole cut ends.
func (c *Contents) Length() int64 { return c.length }

// Size returns about how many bytes the keys and values have.
func (c *Contents) Size() (sum uint64) {
	for key, f := range c.finals {
		sum += uint64(len(key)) + uint64(f.length)
	}
	return sum
}

// Dropped returns the prefixes that the file drops. All their keys go before the others are set.
func (c *Contents) Dropped() [][]byte { return c.dropped }

// Keys returns the keys that the file sets or deletes, in order.
func (c *Contents) Keys() []string { return slices.Sorted(maps.Keys(c.finals)) }

// Changes reports whether the file sets or deletes a key. c may be nil.
func (c *Contents) Changes(key string) bool {
	if c == nil {
		return false
	}
	_, ok := c.finals[key]
	return ok
}

// Sync returns when the disk has the file as it is read.
func (c *Contents) Sync() error { return c.file.Sync() }

// Close closes the file. An error says nothing about what was read.
func (c *Contents) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// Value reads the value of one of the Keys into the memory of buf. isSet is false if the file
// deletes the key.
func (c *Contents) Value(buf []byte, key string) (value []byte, isSet bool, err error) {
	f, ok := c.finals[key]
	if !ok || f.kind == Delete {
		return buf, false, nil
	}
	value, err = c.value(buf, f.value)
	return value, err == nil, err
}

// read reads the file with a number. Its changes end at the first frame that is not whole. The
// length of the contents is 0 if not even the first frame is, or if it belongs to another file.
// previous is the length of the file before it. The caller closes the contents. pause, which may be
// nil, is called between frames.
func read(
	files Files, dir string, number uint64, pause func(),
) (c *Contents, previous int64, err error) {
	file, length, err := files.Open(files.Join(dir, Name(number)))
	if err != nil {
		return nil, 0, err
	}
	c = &Contents{file: file, number: number, finals: make(map[string]final), ofFile: length}
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, c.ofFile), 256<<10)
	var payload []byte
	var more bool
	whole := int64(0) // where the cut of several frames ends that is being read
	for {
		if pause != nil {
			pause()
		}
		if payload, more, err = readFrame(in, payload, c.ofFile-c.length); err != nil {
			return nil, 0, errors.Join(err, file.Close())
		}
		if payload == nil {
			return c, previous, nil
		}
		if more && c.length >= whole {
			whole, err = c.endOfCut(c.length+header+int64(len(payload)), pause)
			if err != nil {
				return nil, 0, errors.Join(err, file.Close())
			}
			if whole == 0 {
				return c, previous, nil
			}
		}
		if c.length == 0 {
			var of uint64
			if of, previous, err = readFirst(payload); err != nil {
				return nil, 0, errors.Join(err, file.Close())
			}
			if of != number {
				return c, 0, nil
			}
		} else if !c.add(payload) {
			return nil, 0, errors.Join(ErrMalformed, file.Close())
		}
		c.length += header + int64(len(payload))
	}
}

// newerFormat reports whether a mark begins a file of a newer format, and of which version.
func newerFormat(mark []byte) (version uint64, ok bool) {
	text, ok := bytes.CutPrefix(mark, []byte(markOf))
	if !ok {
		return 0, false
	}
	version, err := strconv.ParseUint(string(text), 10, 64)
	return version, err == nil && version > 1
}

// endOfCut returns where the cut ends whose next frame begins at an offset, or 0 if one of its
// frames is not whole.
func (c *Contents) endOfCut(at int64, pause func()) (end int64, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(c.file, at, c.ofFile-at), 256<<10)
	var payload []byte
	for more := true; more; at += header + int64(len(payload)) {
		if pause != nil {
			pause()
		}
		if payload, more, err = readFrame(in, payload, c.ofFile-at); payload == nil {
			return 0, err
		}
	}
	return at, nil
}

// readFrame returns the payload of the next frame, or nil if it is not whole. more says that the
// next frame belongs to the same cut. It uses the memory of buf. left is how long the rest of the
// file is.
func readFrame(in io.Reader, buf []byte, left int64) (payload []byte, more bool, err error) {
	var head [header]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, false, unlessEnd(err)
	}
	length := int64(binary.BigEndian.Uint32(head[:]))
	more = length&moreFrames != 0
	if length &^= moreFrames; length > left-header || length == 0 {
		return nil, false, nil
	}
	buf = slices.Grow(buf[:0], int(length))[:length]
	if _, err := io.ReadFull(in, buf); err != nil {
		return nil, false, unlessEnd(err)
	}
	if crc32.Checksum(buf, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return nil, false, nil
	}
	return buf, more, nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// add adds the changes of the next frame. It reports whether they are well-formed.
func (c *Contents) add(payload []byte) bool {
	r := fields.Reader{Left: payload}
	for len(r.Left) > 0 {
		kind, key := r.Byte(), r.Bytes()
		at := c.length + header + int64(len(payload)-len(r.Left))
		switch kind {
		case Set, Add:
			length := skipValue(&r)
			if kind == Set && c.finals[string(key)].kind == Add {
				kind = Add
			}
			c.finals[string(key)] = final{kind, length, at}
		case Delete:
			if c.finals[string(key)].kind == Add {
				delete(c.finals, string(key))
			} else {
				c.finals[string(key)] = final{kind: kind}
			}
		case Drop:
			c.dropped = append(c.dropped, bytes.Clone(key))
			for k := range c.finals {
				if strings.HasPrefix(k, string(key)) {
					delete(c.finals, k)
				}
			}
		default:
			return false
		}
		if r.Failed() {
			return false
		}
	}
	return true
}

// skipValue reads past a value, and returns its length.
func skipValue(r *fields.Reader) uint32 {
	length := r.Uvarint()
	if length > maxFrame {
		r.Fail()
	}
	for left := length; left > 0 && !r.Failed(); {
		n := r.Uvarint()
		part := n >> 1
		if part == 0 || part > left {
			r.Fail()
			return 0
		}
		left -= part
		if n&1 == 1 {
			r.Uvarint()
		} else {
			r.Take(int(part))
		}
	}
	return uint32(length)
}

// maxRepeats bounds a value by the length of its file: it holds the bytes of a text twice at most.
const maxRepeats = 3

// value reads the value at an offset into buf, and returns it.
func (c *Contents) value(buf []byte, at int64) ([]byte, error) {
	if c.in == nil {
		c.in = bufio.NewReaderSize(nil, 4<<10)
	}
	in := c.in
	in.Reset(io.NewSectionReader(c.file, at, c.length-at))
	length, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if length > uint64(c.length)*maxRepeats {
		return nil, ErrMalformed
	}
	buf = slices.Grow(buf[:0], int(length))[:length]
	for at := 0; at < len(buf); {
		n, err := binary.ReadUvarint(in)
		if err != nil {
			return nil, err
		}
		if n>>1 == 0 || n>>1 > uint64(len(buf)-at) {
			return nil, ErrMalformed
		}
		part := buf[at : at+int(n>>1)]
		at += len(part)
		if n&1 == 0 {
			_, err = io.ReadFull(in, part)
		} else {
			var offset uint64
			if offset, err = binary.ReadUvarint(in); err == nil {
				_, err = c.file.ReadAt(part, int64(offset))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// extent says how far the frames of a file go.
type extent struct {
	length   int64 // of the whole frames; 0 if not even the first one is whole, or of another file
	whole    int64 // of the whole cuts
	ofFile   int64 // of the file
	previous int64 // of the whole cuts of the file before it
}

// measure reads the frames of a file, without their changes.
func measure(files Files, dir string, number uint64) (e extent, err error) {
	file, length, err := files.Open(files.Join(dir, Name(number)))
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	e.ofFile = length
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, length), 256<<10)
	var payload []byte
	var more bool
	for {
		if payload, more, err = readFrame(in, payload, length-e.length); err != nil || payload == nil {
			return e, err
		}
		if e.length == 0 {
			ofFile, previous, err := readFirst(payload)
			if err != nil || ofFile != number {
				return extent{ofFile: length}, err
			}
			e.previous = previous
		}
		e.length += header + int64(len(payload))
		if !more {
			e.whole = e.length
		}
	}
}

// readFirst reads the first frame of a file: the file's number, and how long the whole cuts of the
// file before it are. The number is 0 if that is no first frame.
func readFirst(payload []byte) (number uint64, previous int64, err error) {
	r := fields.Reader{Left: payload}
	begin := r.Take(len(mark))
	if version, ok := newerFormat(begin); ok {
		return 0, 0, &VersionError{Found: version, Reads: 1}
	}
	if string(begin) != mark {
		return 0, 0, nil
	}
	return r.Uvarint(), int64(r.Uvarint()), nil
}
