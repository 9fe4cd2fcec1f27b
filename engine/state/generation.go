// The generation of a state that was shared by a group of replicas.

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

// Generation orders the processes that write a state which replicas share or have shared. The zero
// Generation is that of a state which replicas never had.
type Generation struct {
	Cluster string // the id of the group of replicas
	// Number counts from 1. It grows when an informd without replicas continues with the state of the
	// group, and when replicas do so again. Terms are counted from the beginning in each.
	Number uint64
}

// keptGeneration is what the note holds.
type keptGeneration struct {
	Generation
	isAlone bool // an informd without replicas has begun it
}

// next returns the generation in which a process continues. cluster is the id of its group, or "" if
// it has no replicas.
func (k keptGeneration) next(cluster string) keptGeneration {
	isAlone := cluster == ""
	switch {
	case isAlone && k.Cluster == "": // replicas never had the state
		return k
	case !isAlone && k.Cluster != cluster:
		return keptGeneration{Generation: Generation{cluster, 1}}
	case isAlone == k.isAlone:
		return k
	}
	return keptGeneration{Generation{k.Cluster, k.Number + 1}, isAlone}
}

// EnterGeneration returns the generation in which this process writes the state, and records it if
// it is a new one. cluster is the id of the group that the process leads, or "" if it has no
// replicas. Call it before recording anything else. So no event leaves before the log has the
// record. A process that starts again after the record was lost records the same. If the state is
// set aside afterwards, the one in its place gets the generation, too.
func (s *Store) EnterGeneration(cluster string) (Generation, error) {
	was, err := s.readGeneration()
	if err != nil {
		return Generation{}, err
	}
	now := was.next(cluster)
	if now == (keptGeneration{}) {
		return Generation{}, nil
	}
	note := now.encode()
	s.mu.Lock()
	s.entered = note
	s.mu.Unlock()
	if now != was {
		s.Begin()
		s.setNote(generationNote, note)
		s.End()
	}
	return now.Generation, nil
}

// readGeneration reads the note. It returns the zero value if there is none.
func (s *Store) readGeneration() (kept keptGeneration, err error) {
	d := s.db.Load()
	if d == nil {
		return keptGeneration{}, nil
	}
	if kept, err = generationOf(d); err != nil {
		return keptGeneration{}, s.unreadable(d, fmt.Errorf("read the state's generation: %w", err))
	}
	return kept, nil
}

// generationOf reads the note. It returns the zero value if there is none.
func generationOf(d *database) (kept keptGeneration, err error) {
	var value []byte
	err = d.read(d.limits.read, func(db pebble.Reader) error {
		text, ok, err := get(db, records.NoteKey(generationNote))
		if err != nil || !ok {
			return err
		}
		n, err := records.ReadNote(text)
		value = n.Value
		return err
	})
	if err == nil && value != nil {
		kept, err = decodeGeneration(value)
	}
	return kept, err
}

func (k keptGeneration) encode() []byte {
	b := binary.AppendUvarint(fields.AppendText(nil, k.Cluster), k.Number)
	if k.isAlone {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeGeneration(b []byte) (k keptGeneration, err error) {
	r := fields.Reader{Left: b}
	k.Cluster, k.Number, k.isAlone = r.Text(), r.Uvarint(), r.Byte() == 1
	return k, r.End()
}
