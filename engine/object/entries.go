package object

import (
	"github.com/informd/informd/engine/object/scan"
)

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
