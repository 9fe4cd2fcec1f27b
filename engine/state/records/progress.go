// The record of which logs the database has.

package records

import (
	"encoding/binary"

	"github.com/informd/informd/engine/state/fields"
)

// Progress is the record of which logs the database has.
type Progress struct {
	Next uint64 // the first log that it does not have in whole
	// Begun is the length of that log, if the store may have parts of it; otherwise 0.
	Begun int64
}

// AppendProgress appends the record of which logs the database has.
func AppendProgress(b []byte, p Progress) []byte {
	b = binary.AppendUvarint(append(b, Version), p.Next)
	return binary.AppendUvarint(b, uint64(p.Begun))
}

// ReadProgress reads what AppendProgress wrote.
func ReadProgress(b []byte) (p Progress, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	p.Next, p.Begun = r.Uvarint(), int64(r.Uvarint())
	return p, r.End()
}
