// A cut as bytes.

package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/informd/informd/engine/state/fields"
)

// Kind says what a change does to a key.
type Kind = byte

// These are the kinds of changes. Delete and Drop have no value.
const (
	Set    Kind = iota + 1
	Add         // sets a key that no earlier file has, nor whoever has the content of those
	Delete      // of one key
	Drop        // of all keys with a prefix
)

const (
	header = 8 // bytes before the payload of a frame
	// maxFrame bounds the payload of a frame, and so a value.
	maxFrame = math.MaxInt32
	// moreFrames is a bit of a frame's length: the next frame belongs to the same cut.
	moreFrames = 1 << 31
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MaxPart is the length at which a frame should end, and the next change begin another one: see
// [Frame.SpillAt]. So the memory that a cut takes on its way is bounded.
const MaxPart = 64 << 20

// Position is a place in a log: an offset in the file with a number.
type Position struct {
	File   uint64
	Offset int64
}

// IsBefore reports whether a position comes before another one.
func (p Position) IsBefore(other Position) bool {
	return p.File < other.File || p.File == other.File && p.Offset < other.Offset
}

// Frame is a cut on its way into a log, or a part of it. Reset comes first. A Frame can be used
// again and again, and then keeps its memory.
type Frame struct {
	b     []byte   // the header and the payload
	at    Position // where the frame begins
	small int      // consecutive cuts that used little of a large buffer

	spill func() error
	max   int   // the length beyond which a change calls spill
	err   error // of spill
}

// Reset begins a frame that is to be appended at a position, which is the log's [Log.End].
func (f *Frame) Reset(at Position) {
	f.b, f.at = append(f.b[:0], make([]byte, header)...), at
}

// SpillAt makes Change call spill first if the frame has become longer than max bytes. spill
// appends the frame as a part of its cut, and resets it. It is not called after an error: see Err.
// A nil spill bounds nothing.
func (f *Frame) SpillAt(max int, spill func() error) { f.max, f.spill, f.err = max, spill, nil }

// Err returns the error of spill, or nil. The cut is then incomplete, and must not be appended.
func (f *Frame) Err() error { return f.err }

// seal returns the frame as it stands in a file. hasMore says that its cut has another frame after
// it. The bytes belong to the Frame.
func (f *Frame) seal(hasMore bool) ([]byte, error) {
	payload := f.b[header:]
	if len(payload) > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is too large", len(f.b))
	}
	length := uint32(len(payload))
	if hasMore {
		length |= moreFrames
	}
	binary.BigEndian.PutUint32(f.b, length)
	binary.BigEndian.PutUint32(f.b[4:], crc32.Checksum(payload, castagnoli))
	return f.b, nil
}

// hasMore reports whether the cut of a sealed frame has another frame after it.
func hasMore(frame []byte) bool { return binary.BigEndian.Uint32(frame)&moreFrames != 0 }

// IsEmpty reports whether the frame has no change.
func (f *Frame) IsEmpty() bool { return len(f.b) == header }

// Change appends a change of a key. After Set and Add, call Value.
func (f *Frame) Change(kind Kind, key []byte) {
	if f.spill != nil && f.err == nil && len(f.b) > f.max {
		f.err = f.spill()
	}
	f.b = fields.AppendBytes(append(f.b, kind), key)
}

// Insert stands for bytes of the file in a value.
type Insert struct {
	At     int   // position in the text where they are left out
	Offset int64 // in the file in which the frame will be
	Length int64
}

// Value appends a value: text, with bytes of the file inserted, in the order of their positions. It
// returns the offset in the file at which the last part of text begins.
func (f *Frame) Value(text []byte, inserts []Insert) (last int64) {
	length := len(text)
	for _, i := range inserts {
		length += int(i.Length)
	}
	f.b = binary.AppendUvarint(f.b, uint64(length))
	from := 0
	for _, i := range inserts {
		f.plain(text[from:i.At])
		f.b = binary.AppendUvarint(f.b, uint64(i.Length)<<1|1)
		f.b = binary.AppendUvarint(f.b, uint64(i.Offset))
		from = i.At
	}
	return f.plain(text[from:])
}

func (f *Frame) plain(part []byte) (offset int64) {
	if len(part) > 0 {
		f.b = append(binary.AppendUvarint(f.b, uint64(len(part))<<1), part...)
	}
	return f.at.Offset + int64(len(f.b)) - int64(len(part))
}

// shrink drops the frame's buffer if it exceeds 8 MiB. It also drops one of more than 1 MiB after 16
// cuts in a row that used less than a sixteenth of it. An informd without changes makes no cuts, so
// it keeps that. At full speed, a new buffer for each cut would be a third of all garbage.
func (f *Frame) shrink() {
	const always, never, share, many = 1 << 20, 8 << 20, 16, 16
	length, capacity := len(f.b), cap(f.b)
	if capacity <= always || capacity <= share*length {
		f.small = 0
	} else {
		f.small++
	}
	if capacity > never || f.small == many {
		f.b, f.small = nil, 0
	}
}
