package object

import "github.com/klauspost/compress/s2"

// dictionary is text that packed texts refer to instead of repeating it. The zero dictionary has none: texts are packed by
// what they repeat of themselves.
type dictionary struct{ s2 *s2.Dict }

// newDictionary makes a dictionary of text; what begins like beginning is packed best. encoder is the same again, for
// packing: that builds a table of 32 KiB in it, which unpacking does not need.
func newDictionary(text, beginning []byte) (d *dictionary, encoder *s2.Dict) {
	return &dictionary{s2.MakeDict(text, beginning)}, s2.MakeDict(text, beginning)
}

// unpack gives the text, in buf if that is large enough.
func (d *dictionary) unpack(buf, packed []byte) []byte {
	var err error
	if d.s2 == nil {
		buf, err = s2.Decode(buf, packed)
	} else {
		buf, err = d.s2.Decode(buf, packed)
	}
	if err != nil {
		panic("object: not packed with this dictionary: " + err.Error()) // memory is broken
	}
	return buf
}
