package object

import (
	"github.com/informd/informd/engine/object/scan"
)

// entries reads an object's entries, and leaves some of them out of the recording.
type entries struct {
	s       *scan.Scanner
	n       int  // entries read so far
	kept    bool // at least one of them is in the recording
	leaving bool // the current one is left out
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

// keep says whether the current entry, whose key is known, belongs to the recording.
func (e *entries) keep(it bool) {
	switch {
	case !it:
		e.s.Pause(e.mark)
		e.leaving = true
	case !e.kept && e.n > 1:
		e.s.Unrecord(e.mark) // the comma after what is left out
		e.kept = true
	default:
		e.kept = true
	}
}
