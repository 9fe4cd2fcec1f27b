package object

import "sync"

// content is an object's JSON: compact and valid, and possibly packed. It is immutable. An Object
// replaces its content only by another of the same JSON.
type content struct {
	bytes  []byte
	packed *Dictionary // unpacks bytes; nil if they are the text
	form   *content    // the packed form of plain bytes, once there is one; else nil
}

// shortest returns the packed form if there is one, and c otherwise.
func (c *content) shortest() *content {
	if c.form != nil {
		return c.form
	}
	return c
}

// unpack returns the text. If it is packed, unpack writes it to buf if buf is large enough.
func (c *content) unpack(buf []byte) []byte {
	if c.packed == nil {
		return c.bytes
	}
	return c.packed.unpack(buf, c.bytes)
}

// borrow returns the text until the caller calls giveBack.
func (c *content) borrow() (text []byte, giveBack *[]byte) {
	if c.packed == nil {
		return c.bytes, nil
	}
	buf := buffers.Get().(*[]byte)
	*buf = c.packed.unpack(*buf, c.bytes)
	return *buf, buf
}

// buffers hold one text each while somebody packs or reads it. None is larger than 1 MiB.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func giveBack(buf *[]byte) {
	if buf != nil && cap(*buf) <= 1<<20 {
		buffers.Put(buf)
	}
}
