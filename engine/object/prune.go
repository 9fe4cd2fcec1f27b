package object

import (
	"bytes"

	"github.com/informd/informd/engine/object/scan"
)

// Prune makes an Object of what p covers and the identity. What is left out reads as absent; lists keep their length,
// with null for elements of which nothing is covered. A p that has the [Identity] saves the work of adding it.
func (o *Object) Prune(p *Paths) *Object {
	if !hasIdentity(p) {
		keep := Identity()
		keep.Union(p)
		p = keep
	}
	if p.whole {
		return o
	}
	text, borrowed := o.content.Load().borrow()
	defer giveBack(borrowed)
	s := scan.New(text)
	s.Record()
	w := walker{s: &s}
	_, _ = w.value(p, nil, elsewhere) // valid
	pruned := &Object{identity: o.identity, ends: o.ends}
	pruned.content.Store(&content{bytes: bytes.Clone(s.Recorded())})
	return pruned
}
