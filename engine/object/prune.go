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

// entries goes through an object's entries, some of which may be left out of the recording.
type entries struct {
	s       *scan.Scanner
	n       int  // entries read
	kept    bool // one of them
	leaving bool // the current one is being left out
	mark    int  // where the current one begins in the recording
}

func (e *entries) next() (key []byte, more bool, err error) {
	if e.leaving {
		e.s.Resume("")
		e.leaving = false
	}
	e.mark = e.s.Mark()
	e.n++
	return e.s.NextKey(e.n == 1)
}

// keep tells whether the current entry, whose key is known, belongs to the recording.
func (e *entries) keep(it bool) {
	switch {
	case !it:
		e.s.Pause(e.mark)
		e.leaving = true
	case !e.kept && e.n > 1:
		e.s.Unrecord(e.mark) // the comma behind what was left out
		e.kept = true
	default:
		e.kept = true
	}
}
