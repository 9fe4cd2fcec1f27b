// Where the log holds the record of an object, in 64 bits.

package state

import "github.com/informd/informd/engine/object"

// A place says in 64 bits where a log holds the record of an object: the id of its file, the offset
// and the length. Objects beyond these limits have no place, and each delivery repeats them.
const (
	idBits, offsetBits, lengthBits = 22, 26, 16
)

// place notes where the log with an id holds the record of o.
func place(o *object.Object, id uint64, offset int64, length int) {
	if id < 1<<idBits && offset < 1<<offsetBits && length < 1<<lengthBits {
		o.SetPlace(id<<(offsetBits+lengthBits) | uint64(offset)<<lengthBits | uint64(length))
	}
}

// placeOf returns where the log with an id holds the record of o. ok is false if it does not.
func placeOf(o *object.Object, id uint64) (offset, length int64, ok bool) {
	p := o.Place()
	offset = int64(p >> lengthBits & (1<<offsetBits - 1))
	return offset, int64(p & (1<<lengthBits - 1)), p != 0 && p>>(offsetBits+lengthBits) == id
}
