// The forms of a payload on disk.

package records

import (
	"encoding/json"

	"github.com/klauspost/compress/s2"

	"github.com/informd/informd/engine/state/fields"
)

// These are the forms of a payload on disk.
const (
	noPayload = iota
	plainPayload
	packedPayload // with s2
)

// smallPayload is the size in bytes below which packing does not pay.
const smallPayload = 256

func appendPayload(b []byte, payload json.RawMessage) []byte {
	switch {
	case payload == nil:
		return append(b, noPayload)
	case len(payload) < smallPayload:
		return fields.AppendBytes(append(b, plainPayload), payload)
	}
	return fields.AppendBytes(append(b, packedPayload), s2.Encode(nil, payload))
}

func readPayload(r *fields.Reader) (json.RawMessage, error) {
	form := r.Byte()
	if form == noPayload {
		return nil, nil
	}
	text := r.Bytes()
	switch {
	case r.Failed():
	case form == plainPayload:
		return append(json.RawMessage{}, text...), nil
	case form == packedPayload:
		if n, err := s2.DecodedLen(text); err == nil && n <= maxText {
			return s2.Decode(nil, text)
		}
	}
	return nil, fields.ErrMalformed
}
