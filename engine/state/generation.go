// The generation of a group of replicas.

package state

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/informd/informd/engine/state/fields"
	"github.com/informd/informd/engine/state/records"
)

// generationNote names the note with the generation. It belongs to no rule.
var generationNote = records.NoteID{Name: "generation"}

// firstGeneration is that of a state without a note.
const firstGeneration = 1

// Generation returns how often a group of replicas has begun with this state, from 1. Terms are
// counted anew in each. Call it before recording anything.
func (s *Store) Generation() (uint64, error) {
	d := s.db.Load()
	if d == nil {
		return firstGeneration, nil
	}
	generation := uint64(firstGeneration)
	err := d.read(s.opts.limits.read, func(db pebble.Reader) error {
		text, ok, err := get(db, records.NoteKey(generationNote))
		if err != nil || !ok {
			return err
		}
		n, err := records.ReadNote(text)
		if err != nil {
			return err
		}
		r := fields.Reader{Left: n.Value}
		generation = r.Uvarint()
		return r.End()
	})
	if err != nil {
		return 0, s.unreadable(d, fmt.Errorf("read the state's generation: %w", err))
	}
	return generation, nil
}

// PutGeneration records the generation, when a group begins anew with this state. Call it between
// Begin and End.
func (s *Store) PutGeneration(generation uint64) {
	s.setNote(generationNote, binary.AppendUvarint(nil, generation))
}
