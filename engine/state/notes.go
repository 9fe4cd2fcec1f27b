package state

import (
	"bytes"
)

// Note is what a rule remembers under a name, besides its objects and its deliveries: when it was
// last resynced, for instance. The value is the engine's; it holds no text of a Secret.
type Note struct {
	Rule, Name string
	Value      []byte
}

// noteID identifies a Note.
type noteID struct{ rule, name string }

// PutNote records a note, or replaces it. The Store keeps the value. Call it between Begin and End.
func (s *Store) PutNote(n Note) { s.setNote(noteID{n.Rule, n.Name}, n.Value) }

// DeleteNote removes a note, if there is one. Call it between Begin and End.
func (s *Store) DeleteNote(rule, name string) { s.setNote(noteID{rule, name}, nil) }

func (s *Store) setNote(id noteID, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	was, ok := s.notes[id]
	if !ok {
		s.unwritten.add(1, int64(len(value)))
	} else {
		s.unwritten.add(0, int64(len(value)-len(was)))
	}
	s.notes[id] = value
}

// Notes returns the notes on disk. Call it before recording anything.
func (s *Store) Notes() ([]Note, error) {
	var notes []Note
	err := s.all([]byte{notePrefix}, func(value []byte, _ dictionaryOf) error {
		n, err := readNote(value)
		notes = append(notes, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return notes, nil
}

func noteKey(id noteID) []byte {
	owner := newOwner(notePrefix, id.rule)
	return append(owner[:], id.name...)
}

func appendNote(b []byte, id noteID, value []byte) []byte {
	return appendBytes(appendName(appendName(append(b, recordVersion), id.rule), id.name), value)
}

func readNote(b []byte) (n Note, err error) {
	r := reader{left: b}
	r.version()
	n.Rule, n.Name = r.string(), r.string()
	n.Value = bytes.Clone(r.bytes())
	return n, r.end()
}
