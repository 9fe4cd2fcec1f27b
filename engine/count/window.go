package count

import (
	"encoding/binary"
	"errors"
	"slices"
)

// remembered is how many events a window remembers that do not count any more.
const remembered = 100

// window has the events of one value of by. Times are Unix times in milliseconds.
type window struct {
	of      Value
	touched int64   // when an event was last added
	stamps  []stamp // in the order in which they came
	counts  int     // how many of them count
}

// stamp is one event.
type stamp struct {
	id    uint64
	at    int64
	state state
}

type state uint8

const (
	counting state = iota
	spent          // it counted before the window was last emptied
	went           // so did it, and it went on
)

// add adds an event, and reports whether it goes on. isNew says that the window has changed.
func (w *window) add(id uint64, at, now int64, times int, within int64) (goesOn, isNew bool) {
	at = min(at, now)
	latest := at
	for i := range w.stamps {
		s := &w.stamps[i]
		if s.at > now {
			s.at, w.touched, isNew = now, now, true
		}
		latest = max(latest, s.at)
	}
	begin := latest - within
	for _, s := range w.stamps {
		if s.id == id && s.at >= begin {
			return s.state == went, isNew
		}
	}
	if at < begin {
		return false, isNew
	}
	w.touched = now
	w.stamps = slices.DeleteFunc(w.stamps, func(s stamp) bool { return s.at < begin })
	w.stamps = append(w.stamps, stamp{id: id, at: at})
	w.count()
	if w.counts < times {
		return false, true
	}
	w.empty()
	return true, true
}

// count counts the events that count.
func (w *window) count() {
	w.counts = 0
	for _, s := range w.stamps {
		if s.state == counting {
			w.counts++
		}
	}
}

// empty makes all events count no more, because the last of them goes on.
func (w *window) empty() {
	for i := range w.stamps {
		if w.stamps[i].state == counting {
			w.stamps[i].state = spent
		}
	}
	w.stamps[len(w.stamps)-1].state = went
	w.counts = 0
	if many := len(w.stamps) - remembered; many > 0 {
		w.stamps = slices.Delete(w.stamps, 0, many)
	}
}

// version is the first byte of a window's record.
const version = 1

var errDamaged = errors.New("the record of a count is damaged")

// record returns what read reads.
func (w *window) record() []byte {
	b := []byte{version}
	b = binary.AppendVarint(b, w.touched)
	before := w.touched
	for _, s := range w.stamps {
		b = append(b, byte(s.state))
		b = binary.BigEndian.AppendUint64(b, s.id)
		b = binary.AppendVarint(b, s.at-before)
		before = s.at
	}
	return b
}

// read reads a record.
func read(of Value, b []byte) (*window, error) {
	if len(b) == 0 || b[0] != version {
		return nil, errDamaged
	}
	w := &window{of: of}
	touched, n := binary.Varint(b[1:])
	if n <= 0 {
		return nil, errDamaged
	}
	w.touched = touched
	before := touched
	for b = b[1+n:]; len(b) > 0; {
		if len(b) < 1+8 || state(b[0]) > went {
			return nil, errDamaged
		}
		s := stamp{state: state(b[0]), id: binary.BigEndian.Uint64(b[1:])}
		since, n := binary.Varint(b[1+8:])
		if n <= 0 {
			return nil, errDamaged
		}
		s.at = before + since
		before, b = s.at, b[1+8+n:]
		w.stamps = append(w.stamps, s)
	}
	w.count()
	return w, nil
}
