package state

import "sync"

// unsynced holds the bytes of a file that were written and not synced yet. All blocks but the last
// are full.
type unsynced struct {
	blocks []*block
	length int64
}

type block struct {
	bytes [256 << 10]byte
	used  int
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// add keeps a copy of p.
func (u *unsynced) add(p []byte) {
	for len(p) > 0 {
		if n := len(u.blocks); n == 0 || u.blocks[n-1].used == len(block{}.bytes) {
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
		const size = int64(len(block{}.bytes))
		b := u.blocks[from/size]
		n, err := write(b.bytes[from%size:b.used], from)
		from += int64(n)
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

func (u *unsynced) forget() {
	for _, b := range u.blocks {
		b.used = 0
		blocks.Put(b)
	}
	clear(u.blocks)
	u.blocks, u.length = u.blocks[:0], 0
}
