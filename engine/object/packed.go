package object

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/informd/informd/engine/object/scan"
)

// Packed returns the text as a [Packer] packed it, and the dictionary that unpacks it. The caller
// must not change the text. ok is false if the object holds only plain text.
func (o *Object) Packed() (packed []byte, with *Dictionary, ok bool) {
	c := o.content.Load().shortest()
	return c.bytes, c.packed, c.packed != nil
}

// FromPacked makes an Object of bytes that Packed returned, and leaves it packed. It keeps packed.
// A nil Dictionary is the zero one. Like FromJSON it checks its input: it returns an error if the
// bytes were not packed with the dictionary, or are not an object.
func FromPacked(packed []byte, with *Dictionary) (*Object, error) {
	if with == nil {
		with = new(Dictionary)
	}
	if n, err := s2.DecodedLen(packed); err != nil || n > maxUnpacked {
		return nil, errors.New("object: not a packed text")
	}
	buf := buffers.Get().(*[]byte)
	defer giveBack(buf)
	text, err := with.decode(*buf, packed)
	if err != nil {
		return nil, fmt.Errorf("object: not packed with this dictionary: %w", err)
	}
	*buf = text
	s := scan.New(text)
	id, err := readIdentity(&s)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	o := id.object()
	o.content.Store(&content{bytes: packed, packed: with})
	return o, nil
}

// readIdentity reads an object's text to its end, and returns the identity.
func readIdentity(s *scan.Scanner) (id identity, err error) {
	kind, err := s.Kind()
	if err != nil {
		return id, err
	}
	if kind != '{' {
		return id, errors.New("not a JSON object")
	}
	w := walker{s: s}
	if _, err := w.value(nil, nil, atRoot); err != nil {
		return id, err
	}
	if err := s.End(); err != nil {
		return id, err
	}
	if unfit := w.id.unfit(); unfit != "" {
		return id, errors.New(unfit)
	}
	return w.id, nil
}

// FromIdentity makes an Object with an identity and nothing else. It leaves out parts that are
// empty.
func FromIdentity(namespace, name, uid, resourceVersion string) *Object {
	parts := [len(identityFields)]string{namespace, name, uid, resourceVersion}
	o := new(Object)
	all := namespace
	o.ID.ends[0] = uint32(len(all))
	if namespace != "" {
		all += "/"
	}
	all += name
	o.ID.ends[1] = uint32(len(all))
	all += uid
	o.ID.ends[2] = uint32(len(all))
	o.ID.text = all + resourceVersion

	fields := make(map[string]string, len(parts))
	for n, value := range parts {
		if value != "" {
			fields[identityFields[n]] = value
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		panic(err) // strings have no errors
	}
	o.content.Store(&content{bytes: text})
	return o
}
