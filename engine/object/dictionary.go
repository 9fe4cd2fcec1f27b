package object

import (
	"errors"

	"github.com/klauspost/compress/s2"
)

// maxUnpacked bounds what FromPacked unpacks, in bytes. No API server returns an object of that
// size.
const maxUnpacked = 64 << 20

// Dictionary is text that packed texts refer to instead of repeating it. The zero Dictionary has no
// text: packed texts then refer only to themselves. It is immutable.
type Dictionary struct{ s2 *s2.Dict }

// newDictionary makes a dictionary of text. Texts that begin like beginning pack best. encoder is
// the same dictionary for packing: that builds a table of 32 KiB in it, which unpacking does not
// need.
func newDictionary(text, beginning []byte) (d *Dictionary, encoder *s2.Dict) {
	return &Dictionary{s2.MakeDict(text, beginning)}, s2.MakeDict(text, beginning)
}

// NewDictionary reads what Bytes returned. It does not keep b.
func NewDictionary(b []byte) (*Dictionary, error) {
	if len(b) == 0 {
		return new(Dictionary), nil
	}
	// s2 copies the text unless its capacity has 16 more bytes
	d := s2.NewDict(append(make([]byte, 0, len(b)+16), b...))
	if d == nil {
		return nil, errors.New("object: not a dictionary")
	}
	return &Dictionary{d}, nil
}

// Bytes returns the dictionary for NewDictionary: at most 64 KiB and a few bytes. The zero
// Dictionary has none.
func (d *Dictionary) Bytes() []byte {
	if d.s2 == nil {
		return nil
	}
	return d.s2.Bytes()
}

// unpack returns the text, in buf if that is large enough.
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
