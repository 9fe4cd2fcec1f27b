package object

import (
	"errors"

	"github.com/klauspost/compress/s2"
)

// maxUnpacked bounds, in bytes, what FromPacked unpacks: no API server hands out an object of that size.
const maxUnpacked = 64 << 20

// Dictionary is text that packed texts refer to instead of repeating it. The zero Dictionary has none: texts are packed by
// what they repeat of themselves. It is immutable.
type Dictionary struct{ s2 *s2.Dict }

// newDictionary makes a dictionary of text; what begins like beginning is packed best. encoder is the same again, for
// packing: that builds a table of 32 KiB in it, which unpacking does not need.
func newDictionary(text, beginning []byte) (d *Dictionary, encoder *s2.Dict) {
	return &Dictionary{s2.MakeDict(text, beginning)}, s2.MakeDict(text, beginning)
}

// NewDictionary reads what Bytes wrote. It keeps nothing of b.
func NewDictionary(b []byte) (*Dictionary, error) {
	if len(b) == 0 {
		return new(Dictionary), nil
	}
	d := s2.NewDict(append(make([]byte, 0, len(b)+16), b...)) // s2 wants 16 bytes beyond the end, or copies the text
	if d == nil {
		return nil, errors.New("object: not a dictionary")
	}
	return &Dictionary{d}, nil
}

// Bytes is the dictionary for NewDictionary: at most 64 KiB and a few bytes. Of the zero Dictionary there are none.
func (d *Dictionary) Bytes() []byte {
	if d.s2 == nil {
		return nil
	}
	return d.s2.Bytes()
}

// unpack gives the text, in buf if that is large enough.
func (d *Dictionary) unpack(buf, packed []byte) []byte {
	buf, err := d.decode(buf, packed)
	if err != nil {
		panic("object: not packed with this dictionary: " + err.Error()) // memory is broken
	}
	return buf
}

func (d *Dictionary) decode(buf, packed []byte) ([]byte, error) {
	if d.s2 == nil {
		return s2.Decode(buf, packed)
	}
	return d.s2.Decode(buf, packed)
}
