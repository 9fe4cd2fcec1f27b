// The record of a change that informd made in the cluster.

package records

import (
	"encoding/binary"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/fields"
)

// Write is the value of the note about one change that informd made in the cluster. Package action
// says what the fields mean. It has no content of the object.
type Write struct {
	N               uint64        // counts the writes; at most MaxWrite
	At              time.Duration // for how long informd had run then, in all; a whole second
	Group, Resource string
	Key             delta.Key
	From, To        string
	Depth           int
	Chain           []string // names of rules; the first one made the change
}

// MaxWrite is the highest N that a Write can have. It leaves room for those of later writes.
const MaxWrite = 1 << 62

// writeVersion is the version of the record of a write.
const writeVersion = 1

// Bounds of what is read.
const (
	maxRan   = 1 << 32 // seconds
	maxDepth = 1 << 30
)

// AppendWrite appends the record of a write.
func AppendWrite(b []byte, w *Write) []byte {
	b = binary.AppendUvarint(append(b, writeVersion), w.N)
	b = binary.AppendUvarint(b, uint64(max(w.At, 0)/time.Second))
	for _, text := range []string{
		w.Group, w.Resource, w.Key.Namespace, w.Key.Name, w.From, w.To,
	} {
		b = fields.AppendText(b, text)
	}
	return fields.AppendTexts(binary.AppendUvarint(b, uint64(max(w.Depth, 0))), w.Chain)
}

// ReadWrite reads what AppendWrite wrote.
func ReadWrite(b []byte) (w Write, err error) {
	r := fields.Reader{Left: b}
	if r.Byte() != writeVersion {
		r.Fail()
	}
	w.N = r.Uvarint()
	seconds := r.Uvarint()
	w.Group, w.Resource = r.Text(), r.Text()
	w.Key = delta.Key{Namespace: r.Text(), Name: r.Text()}
	w.From, w.To = r.Text(), r.Text()
	depth := r.Uvarint()
	w.Chain = r.Texts()
	if w.N > MaxWrite || seconds > maxRan || depth > maxDepth || len(w.Chain) == 0 || w.To == "" {
		r.Fail()
	}
	w.At, w.Depth = time.Duration(seconds)*time.Second, int(depth)
	return w, r.End()
}
