// The shared memory, and who uses it.

package steps

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// The memory begins with a head: format, and the path of the state directory. Then follow the
// records of slots, and those of suspects.
const (
	format      = "informd steps 1\n"
	headSize    = 4096
	maxSlots    = 64
	maxSuspects = 32
	size        = headSize + (maxSlots+maxSuspects)*recordSize
)

// Marks are the steps of one state directory that are under way, and those in which earlier
// processes have died. Its methods are safe for concurrent use. A nil *Marks notes nothing.
type Marks struct {
	memory []byte
	close  func(isOver bool) // isOver: the memory holds nothing of use

	mu       sync.Mutex // guards the fields below, and the records of suspects
	isUsed   [maxSlots]bool
	suspects []Suspect
}

// Open opens the marks of a state directory, which the caller has locked, and makes suspects of the
// steps that were under way. It returns nil and an error if nothing can be noted. Close ends it.
func Open(stateDir string, now time.Time) (*Marks, error) {
	memory, end, err := share(stateDir)
	if err != nil {
		return nil, err
	}
	m := &Marks{memory: memory, close: end}
	m.accuse(now)
	return m, nil
}

// record returns a record of the memory: first those of slots.
func (m *Marks) record(i int) record {
	at := headSize + i*recordSize
	return m.memory[at : at+recordSize : at+recordSize]
}

// accuse makes suspects of the steps that were under way.
func (m *Marks) accuse(now time.Time) {
	for i := range maxSuspects {
		s, ok := m.record(maxSlots + i).get()
		if ok && s.Deaths > 0 && now.Sub(s.At) <= Forgotten {
			m.suspects = append(m.suspects, s)
		}
	}
	for i := range maxSlots {
		slot := m.record(i)
		if s, ok := slot.get(); ok {
			m.died(s, now)
		}
		slot.word().Store(0)
	}
	slices.SortStableFunc(m.suspects, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.Deaths, a.Deaths), b.At.Compare(a.At))
	})
	m.suspects = m.suspects[:min(len(m.suspects), maxSuspects)]
	m.write()
}

// died counts a death in a step. Another version of the object is not suspect any more.
func (m *Marks) died(in Suspect, now time.Time) {
	in.Deaths, in.At = 1, now
	m.suspects = slices.DeleteFunc(m.suspects, func(s Suspect) bool {
		if s.Informer != in.Informer || s.Object != in.Object || s.Kind != in.Kind {
			return false
		}
		if s.isSame(in) {
			in.Deaths += s.Deaths
		}
		return true
	})
	m.suspects = append(m.suspects, in)
}

// write writes the suspects. The caller holds mu, or is alone.
func (m *Marks) write() {
	for i := range maxSuspects {
		r := m.record(maxSlots + i)
		r.word().Store(0)
		if i < len(m.suspects) {
			r.put(m.suspects[i])
		}
	}
}

// Suspects returns the changes in whose steps informd has died.
func (m *Marks) Suspects() []Suspect {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.suspects)
}

// Passed clears an object of an informer: informd has completed its step of a kind. Kind 0 stands
// for all kinds.
func (m *Marks) Passed(informer uint64, object string, kind Kind) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.suspects = slices.DeleteFunc(m.suspects, func(s Suspect) bool {
		return s.Informer == informer && s.Object == object && (kind == 0 || s.Kind == kind)
	})
	m.write()
}

// Close ends the marks in order: no step is under way. Slots must not be used any more.
func (m *Marks) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range maxSlots {
		m.record(i).word().Store(0)
	}
	m.close(len(m.suspects) == 0)
	m.close = func(bool) {}
}

// Slot is where one informer notes its steps, one at a time. It is not safe for concurrent use. A
// nil *Slot notes nothing.
type Slot struct {
	record record
	number int
	of     *Marks
}

// Slot returns a slot for an informer, or nil if none is free.
func (m *Marks) Slot(informer uint64, resource string) *Slot {
	if m == nil || len(resource) > maxResource {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.isUsed[:], false)
	if i < 0 {
		return nil
	}
	m.isUsed[i] = true
	s := &Slot{record: m.record(i), number: i, of: m}
	s.record.own(informer, resource)
	return s
}

// Begin notes that a step of an object begins. A longer name than Kubernetes allows is not noted.
func (s *Slot) Begin(kind Kind, object, version string) {
	if s != nil && len(object) <= maxObject && len(version) <= maxVersion {
		s.record.set(kind, object, version)
	}
}

// End notes that no step is under way.
func (s *Slot) End() {
	if s != nil {
		s.record.word().Store(0)
	}
}

// Release gives the slot back. It must not be used any more.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	s.End()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.isUsed[s.number] = false
}
