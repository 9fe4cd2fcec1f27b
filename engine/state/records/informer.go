// The record of an informer.

package records

import (
	"github.com/informd/informd/engine/state/fields"
)

// Informer is the record of an informer, without its objects: its id, the paths that its objects
// were kept with, and the resourceVersion to go on from.
type Informer struct{ ID, Kept, ResourceVersion string }

// AppendInformer appends the record of an informer.
func AppendInformer(b []byte, i Informer) []byte {
	return fields.AppendTexts(append(b, Version), []string{i.ID, i.Kept, i.ResourceVersion})
}

// ReadInformer reads what AppendInformer wrote.
func ReadInformer(b []byte) (i Informer, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	if fields := r.Texts(); len(fields) == 3 {
		return Informer{fields[0], fields[1], fields[2]}, r.End()
	}
	return i, fields.ErrMalformed
}
