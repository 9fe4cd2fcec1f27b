// The record of an informer.

package records

import (
	"github.com/informd/informd/engine/state/fields"
)

// Informer is the record of an informer, without its objects: its id, the paths that its objects
// were kept with, and the resourceVersion to go on from. That is empty during the informer's first
// list, and Withdrawn during a later one.
type Informer struct{ ID, Kept, ResourceVersion string }

// Withdrawn is the resourceVersion of an informer that had one, and cannot go on from it. It is none
// that a server knows, so an informd that does not know it lists, too.
const Withdrawn = "-"

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
