// The forms of an object on disk, and of a delta.

package records

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/s2"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/fields"
)

// Version is the first byte of each record. A new meaning of the bytes needs a new version.
const Version = 1

// maxText bounds an unpacked text, in bytes. No API server accepts an object of that size.
const maxText = 64 << 20

// These are the forms of an object on disk.
const (
	noObject   = iota
	byIdentity // namespace, name, uid, resourceVersion; used for Secrets
	packed     // with s2
	packedWith // with s2 and the dictionary whose id comes first
)

// References are what the records of one owner refer to. The caller of an append function
// implements them: it knows which dictionaries are on disk, and what the log has already.
type References interface {
	// Dictionary returns the id of a dictionary and notes that a record uses it. It returns the
	// zero id for a dictionary without text.
	Dictionary(*object.Dictionary) DictionaryID
	// Repeat reports whether the log has the record of an object already. Then the record that is
	// being made leaves it out at a position, and Repeat notes that.
	Repeat(o *object.Object, at int) bool
	// Wrote notes where the record that is being made holds the record of an object.
	Wrote(o *object.Object, from, to int)
}

// AppendObject appends the record of an object and of the rules that have it inside. Of a Secret it
// writes only the identity.
func AppendObject(
	b []byte, o *object.Object, inside []string, secret bool, refer References,
) []byte {
	return appendForm(fields.AppendTexts(append(b, Version), inside), o, secret, refer)
}

// ReadObject reads what AppendObject wrote, and leaves the object packed. inside is a part of b,
// for [ReadInside]. id names the dictionary that packs the object, or is zero.
func ReadObject(
	b []byte, get DictionaryOf,
) (o *object.Object, inside []byte, id DictionaryID, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	inside = r.SkipTexts()
	if o, id, err = readForm(&r, get); err != nil {
		return nil, nil, id, err
	}
	if err = r.End(); err == nil && o == nil {
		err = fields.ErrMalformed
	}
	return o, inside, id, err
}

// ReadInside reads the names of rules that ReadObject returned.
func ReadInside(b []byte) []string { return (&fields.Reader{Left: b}).Texts() }

func appendForm(b []byte, o *object.Object, secret bool, refer References) []byte {
	if o == nil {
		return append(b, noObject)
	}
	if secret {
		b = append(b, byIdentity)
		for _, s := range [...]string{o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()} {
			b = fields.AppendText(b, s)
		}
		return b
	}
	if refer.Repeat(o, len(b)) {
		return b
	}
	from := len(b)
	b = appendPacked(b, o, refer)
	refer.Wrote(o, from, len(b))
	return b
}

func appendPacked(b []byte, o *object.Object, refer References) []byte {
	text, with, ok := o.Packed()
	if !ok {
		text, with = s2.Encode(nil, text), nil
	}
	if with != nil {
		if id := refer.Dictionary(with); id != (DictionaryID{}) {
			return fields.AppendBytes(append(append(b, packedWith), id[:]...), text)
		}
	}
	return fields.AppendBytes(append(b, packed), text)
}

// DictionaryOf returns the dictionary with an id. An error ends the reading of a record.
type DictionaryOf func(DictionaryID) (*object.Dictionary, error)

// readForm reads an object in any form, and leaves it packed. id names the dictionary that packs
// it, or is zero.
func readForm(r *fields.Reader, get DictionaryOf) (o *object.Object, id DictionaryID, err error) {
	var with *object.Dictionary
	switch r.Byte() {
	case noObject:
		return nil, id, nil
	case byIdentity:
		return object.FromIdentity(r.Text(), r.Text(), r.Text(), r.Text()), id, nil
	case packedWith:
		if copy(id[:], r.Take(len(id))); len(r.Left) == 0 {
			return nil, id, fields.ErrMalformed
		}
		if with, err = get(id); err != nil {
			return nil, id, err
		}
	case packed:
	default:
		return nil, id, fields.ErrMalformed
	}
	text := r.Bytes()
	if r.Failed() {
		return nil, id, fields.ErrMalformed
	}
	o, err = object.FromPacked(bytes.Clone(text), with)
	return o, id, err
}

// readVersion reads the version that begins a record.
func readVersion(r *fields.Reader) {
	if r.Byte() != Version {
		r.Fail()
	}
}

// hasOccasion is set in the byte of a delta's type if the delta has an occasion. An earlier informd
// wrote none.
const hasOccasion = 0x80

func appendDelta(b []byte, d delta.Delta, secret bool, refer References) []byte {
	kind := byte(d.Type)
	if d.Occasion != 0 {
		kind |= hasOccasion
	}
	b = binary.AppendVarint(append(b, kind), d.Round)
	if d.Occasion != 0 {
		b = binary.AppendUvarint(b, uint64(d.Occasion))
	}
	return appendForm(appendForm(b, d.Object, secret, refer), d.Old, secret, refer)
}

func readDelta(r *fields.Reader, get DictionaryOf) (d delta.Delta, err error) {
	kind := r.Byte()
	d.Type, d.Round = delta.Type(kind&^hasOccasion), r.Varint()
	if kind&hasOccasion != 0 {
		d.Occasion = uint32(r.Uvarint())
	}
	if !delta.All.Has(d.Type) || d.Type > delta.Synced {
		return d, fields.ErrMalformed
	}
	if d.Object, _, err = readForm(r, get); err != nil {
		return d, err
	}
	if d.Old, _, err = readForm(r, get); err != nil {
		return d, err
	}
	if d.Object == nil {
		return d, fields.ErrMalformed
	}
	return d, nil
}
