// The record of a value that a rule remembers under a name.

package records

import (
	"bytes"

	"github.com/informd/informd/engine/state/fields"
)

// Note is what a rule remembers under a name, besides its objects and its deliveries: when it was
// last resynced, for instance. The value is the engine's; it holds no text of a Secret.
type Note struct {
	Rule, Name string
	Value      []byte
}

// NoteID identifies a Note.
type NoteID struct{ Rule, Name string }

// NoteKey returns the key of a note.
func NoteKey(id NoteID) []byte {
	owner := NewOwner(NotePrefix, id.Rule)
	return append(owner[:], id.Name...)
}

// AppendNote appends the record of a note.
func AppendNote(b []byte, id NoteID, value []byte) []byte {
	b = fields.AppendText(fields.AppendText(append(b, Version), id.Rule), id.Name)
	return fields.AppendBytes(b, value)
}

// ReadNote reads what AppendNote wrote. The value is a copy.
func ReadNote(b []byte) (n Note, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	n.Rule, n.Name = r.Text(), r.Text()
	n.Value = bytes.Clone(r.Bytes())
	return n, r.End()
}
