// The bytes of a file that are not synced yet.

package disk

import (
	"slices"
	"sync"
)

// unsynced holds the bytes of a file that were written and not synced yet. All blocks but the last
// are full.
type unsynced struct {
	blocks []*block
	start  int64 // bytes of the first block that are synced
	length int64
}

const blockSize = 256 << 10

type block struct {
	bytes [blockSize]byte
	used  int
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// add keeps a copy of p.
func (u *unsynced) add(p []byte) {
	for len(p) > 0 {
		if n := len(u.blocks); n == 0 || u.blocks[n-1].used == blockSize {
			u.blocks = append(u.blocks, blocks.Get().(*block))
		}
		last := u.blocks[len(u.blocks)-1]
		n := copy(last.bytes[last.used:], p)
		last.used, u.length, p = last.used+n, u.length+int64(n), p[n:]
	}
}

// write passes on everything after from, in order, until write fails. It returns how far it came.
func (u *unsynced) write(
	from int64, write func(p []byte, offset int64) (int, error),
) (int64, error) {
	for from < u.length {
		at := u.start + from
		b := u.blocks[at/blockSize]
		n, err := write(b.bytes[at%blockSize:b.used], from)
		from += int64(n)
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

// drop forgets the first n bytes.
func (u *unsynced) drop(n int64) {
	if n == u.length {
		u.forget()
		return
	}
	u.start, u.length = u.start+n, u.length-n
	synced := int(u.start / blockSize)
	for _, b := range u.blocks[:synced] {
		b.used = 0
		blocks.Put(b)
	}
	u.blocks, u.start = slices.Delete(u.blocks, 0, synced), u.start%blockSize
}

func (u *unsynced) forget() {
	for _, b := range u.blocks {
		b.used = 0
		blocks.Put(b)
	}
	clear(u.blocks)
	u.blocks, u.start, u.length = u.blocks[:0], 0, 0
}
