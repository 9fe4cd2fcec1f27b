package state

import (
	"encoding/binary"
	"errors"
	"time"
)

// errRecord means that a record is malformed.
var errRecord = errors.New("a record is damaged")

// reader reads what the append functions wrote. It accepts any bytes: past the end, or at malformed
// bytes, it returns zeros, and end returns an error. Its results are never larger than its input.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) fail() { r.bad, r.left = true, nil }

func (r *reader) byte() byte {
	if len(r.left) == 0 {
		r.fail()
		return 0
	}
	b := r.left[0]
	r.left = r.left[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return v
}

// count reads a number of items that take at least one byte each.
func (r *reader) count() int {
	v := r.uvarint()
	if v > uint64(len(r.left)) {
		r.fail()
		return 0
	}
	return int(v)
}

// bytes returns a part of the input.
func (r *reader) bytes() []byte { return r.take(r.count()) }

// take returns the next n bytes of the input.
func (r *reader) take(n int) []byte {
	if n > len(r.left) {
		r.fail()
		return nil
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) strings() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 16))
	for range n {
		if r.bad {
			return nil
		}
		list = append(list, r.string())
	}
	return list
}

// skipStrings returns the part of the input from which strings would read.
func (r *reader) skipStrings() []byte {
	from := r.left
	for range r.count() {
		if r.bad {
			return nil
		}
		r.bytes()
	}
	return from[:len(from)-len(r.left)]
}

func (r *reader) time() time.Time {
	if r.byte() == 0 {
		return time.Time{}
	}
	seconds, nanoseconds := r.varint(), r.uvarint()
	if nanoseconds >= uint64(time.Second) {
		r.fail()
	}
	if r.bad {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds))
}

// version reads the version that begins a record.
func (r *reader) version() {
	if r.byte() != recordVersion {
		r.fail()
	}
}

// end returns an error unless the whole input was read and well-formed.
func (r *reader) end() error {
	if r.bad || len(r.left) > 0 {
		return errRecord
	}
	return nil
}

func appendBytes(b, value []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendName(b, s)
	}
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = binary.AppendVarint(append(b, 1), t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}
