// The record of the store's format.

package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/informd/informd/engine/state/fields"
)

// FormatOf returns the record of a version of the store's format.
func FormatOf(version uint64) []byte { return binary.AppendUvarint([]byte(FormatMark), version) }

// ErrForeign means that a store has no format of informd's.
var ErrForeign = errors.New("informd did not write it")

// FormatError means that a store is of a version that this informd cannot read.
type FormatError struct{ Found, Reads uint64 }

func (e *FormatError) Error() string {
	return fmt.Sprintf("its format is version %d, and this informd reads version %d and earlier",
		e.Found, e.Reads)
}

// ReadFormat reads what FormatOf returned. The error is a *[FormatError] if this informd cannot
// read the version, and [ErrForeign] if it is no format at all.
func ReadFormat(b []byte) (version uint64, err error) {
	text, ok := bytes.CutPrefix(b, []byte(FormatMark))
	if !ok {
		return 0, ErrForeign
	}
	r := fields.Reader{Left: text}
	if version = r.Uvarint(); r.End() != nil {
		return 0, fields.ErrMalformed
	}
	if version < Logless || version > NewestFormat {
		return 0, &FormatError{Found: version, Reads: NewestFormat}
	}
	return version, nil
}
