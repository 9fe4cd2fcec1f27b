package object

import (
	"bytes"
	"github.com/informd/informd/engine/object/scan"
)

// place is where the walker is, if that place matters.
type place int

const (
	elsewhere place = iota
	atRoot
	atKind
	atAPIVersion
	atMetadata
	atManagedFields
	atNamespace // followed by the rest of the identity, in its order
	atName
	atUID
	atResourceVersion
)

var identityFields = [...]string{"namespace", "name", "uid", "resourceVersion"} // within metadata

// below returns the place that a key leads to.
func (p place) below(key []byte) place {
	switch p {
	case atRoot:
		switch string(key) {
		case "kind":
			return atKind
		case "apiVersion":
			return atAPIVersion
		case "metadata":
			return atMetadata
		}
	case atMetadata:
		switch string(key) {
		case "managedFields":
			return atManagedFields
		case "namespace":
			return atNamespace
		case "name":
			return atName
		case "uid":
			return atUID
		case "resourceVersion":
			return atResourceVersion
		}
	}
	return elsewhere
}

// identity is what the walker read of an object's identity. Of repeated members the last counts.
type identity struct {
	misplaced bool // metadata is not an object
	fields    [len(identityFields)]struct {
		raw   []byte // part of the text; nil if absent
		plain bool
	}
}

func (id *identity) set(at place, raw []byte, plain bool) {
	f := &id.fields[at-atNamespace]
	f.raw, f.plain = raw, plain
	if raw[0] == 'n' {
		f.raw = nil
	}
}

// unfit returns what is wrong with the identity, or "".
func (id *identity) unfit() string {
	if id.misplaced {
		return "metadata is not an object"
	}
	for n, f := range id.fields {
		if f.raw != nil && f.raw[0] != '"' {
			return "metadata." + identityFields[n] + " is not a string"
		}
	}
	return ""
}

// object returns an Object with that identity and no content. Mistaken parts are empty.
func (id *identity) object() *Object {
	var memory [256]byte
	all := memory[:0]
	o := new(Object)
	for n := range id.fields {
		f := &id.fields[n]
		switch {
		case f.raw == nil || f.raw[0] != '"':
		case f.plain:
			all = append(all, f.raw[1:len(f.raw)-1]...)
		default:
			all = append(all, scan.Unquote(f.raw)...)
		}
		if n < len(o.ID.ends) {
			o.ID.ends[n] = uint32(len(all))
		}
		if n == 0 && len(all) > 0 {
			all = append(all, '/')
		}
	}
	o.ID.text = string(all)
	return o
}

// alone returns an Object with that identity and nothing else, or nil if nothing of it is known.
func (id *identity) alone() *Object {
	o := id.object()
	if o.ID.text == "" {
		return nil
	}
	return FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
}

// IsIdentity reports whether the object holds nothing but its identity.
func (o *Object) IsIdentity() bool {
	alone := FromIdentity(o.Namespace(), o.Name(), o.UID(), o.ResourceVersion())
	return bytes.Equal(o.JSON(), alone.JSON())
}

// Identity returns a new set of the paths that identify objects and their states.
func Identity() *Paths {
	p := new(Paths)
	for _, name := range identityFields {
		p.Add("metadata", name)
	}
	return p
}
