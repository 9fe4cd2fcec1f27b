// Package fields encodes the parts of records, keys and frames: numbers, bytes, strings and times.
// Lengths and counts come first, as uvarints. It is pure, and knows no record.
package fields

import (
	"encoding/binary"
	"errors"
	"time"
)

// ErrMalformed means that a record is malformed.
var ErrMalformed = errors.New("a record is damaged")

// Reader reads what the append functions wrote. It accepts any bytes: past the end, or at malformed
// bytes, it returns zeros, and End returns an error. Its results are never larger than its input.
// Make one with the input in Left. One goroutine at a time uses it.
type Reader struct {
	Left []byte // the input that is not read yet
	bad  bool
}

// Fail makes the reader fail, because what it has read makes no sense.
func (r *Reader) Fail() { r.bad, r.Left = true, nil }

// Failed reports whether a read has met the end of the input, or malformed bytes.
func (r *Reader) Failed() bool { return r.bad }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Left) == 0 {
		r.Fail()
		return 0
	}
	b := r.Left[0]
	r.Left = r.Left[1:]
	return b
}

// Uvarint reads a number without a sign.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Left)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Varint reads a number with a sign.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Left)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// count reads a number of items that take at least one byte each.
func (r *Reader) count() int {
	v := r.Uvarint()
	if v > uint64(len(r.Left)) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes reads what AppendBytes wrote. The result is a part of the input.
func (r *Reader) Bytes() []byte { return r.Take(r.count()) }

// Take returns the next n bytes of the input.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Left) {
		r.Fail()
		return nil
	}
	b := r.Left[:n:n]
	r.Left = r.Left[n:]
	return b
}

// Text reads what AppendText wrote.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Texts reads what AppendTexts wrote.
func (r *Reader) Texts() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 16))
	for range n {
		if r.bad {
			return nil
		}
		list = append(list, r.Text())
	}
	return list
}

// SkipTexts returns the part of the input from which Texts would read.
func (r *Reader) SkipTexts() []byte {
	from := r.Left
	for range r.count() {
		if r.bad {
			return nil
		}
		r.Bytes()
	}
	return from[:len(from)-len(r.Left)]
}

// Time reads what AppendTime wrote, in the local time zone.
func (r *Reader) Time() time.Time {
	if r.Byte() == 0 {
		return time.Time{}
	}
	seconds, nanoseconds := r.Varint(), r.Uvarint()
	if nanoseconds >= uint64(time.Second) {
		r.Fail()
	}
	if r.bad {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds))
}

// End returns an error unless the whole input was read and well-formed.
func (r *Reader) End() error {
	if r.bad || len(r.Left) > 0 {
		return ErrMalformed
	}
	return nil
}

// AppendBytes appends a value after its length.
func AppendBytes(b, value []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// AppendText appends a string after its length.
func AppendText(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// AppendTexts appends strings after their number.
func AppendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendText(b, s)
	}
	return b
}

// AppendTime appends a time, to the nanosecond. Its zone is lost, and the zero time remains zero.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = binary.AppendVarint(append(b, 1), t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}
