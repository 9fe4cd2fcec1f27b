package object

import "sync"

// content is what an object says: compact and valid JSON, which may be packed. It is immutable; an Object changes from one
// to another that says the same.
type content struct {
	bytes  []byte
	packed *Dictionary // what unpacks them; nil if they are the text
}

// unpack is the text; where it is packed, in buf if that is large enough.
func (c *content) unpack(buf []byte) []byte {
	if c.packed == nil {
		return c.bytes
	}
	return c.packed.unpack(buf, c.bytes)
}

// borrow is the text for a moment: until giveBack.
func (c *content) borrow() (text []byte, giveBack *[]byte) {
	if c.packed == nil {
		return c.bytes, nil
	}
	buf := buffers.Get().(*[]byte)
	*buf = c.packed.unpack(*buf, c.bytes)
	return *buf, buf
}

// buffers hold a text each, for as long as it takes to pack or to read it. None is larger than 1 MiB.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func giveBack(buf *[]byte) {
	if buf != nil && cap(*buf) <= 1<<20 {
		buffers.Put(buf)
	}
}
