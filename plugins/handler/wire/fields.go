package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a protobuf message. Its methods ignore a field of another kind than they
// expect, as protobuf does.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64 // the value, by kind
	bytes  []byte
}

// fields calls f for each field of a message. It returns protowire's error or f's first one.
func fields(wire []byte, f func(field) error) error {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber {
			return errNumber
		}
		wire = wire[n:]
		v := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(wire)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(wire)
		default:
			n = protowire.ConsumeFieldValue(number, kind, wire)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(v); err != nil {
			return err
		}
		wire = wire[n:]
	}
	return nil
}

// set stores a number.
func set[T uint64 | uint32 | int64 | int32](to *T, f field) {
	if f.kind == protowire.VarintType {
		*to = T(f.varint)
	}
}

// What protobuf refuses besides broken encodings.
var (
	errUTF8   = errors.New("a string is not UTF-8")
	errNumber = errors.New("a field has too large a number")
	errDepth  = errors.New("items are nested too deeply")
)

// text stores a string. If there has the same content, its memory is used instead of a copy.
func (f field) text(to *string, there string) error {
	switch {
	case f.kind != protowire.BytesType:
	case string(f.bytes) == there:
		*to = there
	case !utf8.Valid(f.bytes):
		return errUTF8
	default:
		*to = string(f.bytes)
	}
	return nil
}

// json stores a copy of bytes.
func (f field) json(to *json.RawMessage) {
	if f.kind == protowire.BytesType {
		*to = bytes.Clone(f.bytes)
	}
}

// message calls each for the fields of an embedded message.
func (f field) message(each func(field) error) error {
	if f.kind != protowire.BytesType {
		return nil
	}
	return fields(f.bytes, each)
}

// addTo appends to a list of numbers: one number, or several that are packed.
func (f field) addTo(list *[]uint64) error {
	if f.kind == protowire.VarintType {
		*list = append(*list, f.varint)
	}
	for packed := f.bytes; len(packed) > 0; {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return protowire.ParseError(n)
		}
		*list, packed = append(*list, v), packed[n:]
	}
	return nil
}
