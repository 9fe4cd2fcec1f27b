// What is recorded of rules' notes.

package state

import "github.com/informd/informd/engine/state/records"

// Note is what a rule remembers under a name, besides its objects and its deliveries: when it was
// last resynced, for instance. The value is the engine's; it holds no text of a Secret.
type Note = records.Note

// PutNote records a note, or replaces it. The Store keeps the value. Call it between Begin and End.
func (s *Store) PutNote(n Note) { s.setNote(records.NoteID{Rule: n.Rule, Name: n.Name}, n.Value) }

// DeleteNote removes a note, if there is one. Call it between Begin and End.
func (s *Store) DeleteNote(rule, name string) {
	s.setNote(records.NoteID{Rule: rule, Name: name}, nil)
}

func (s *Store) setNote(id records.NoteID, value []byte) {
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
	err := s.all([]byte{records.NotePrefix}, func(value []byte, _ records.DictionaryOf) error {
		n, err := records.ReadNote(value)
		notes = append(notes, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return notes, nil
}
