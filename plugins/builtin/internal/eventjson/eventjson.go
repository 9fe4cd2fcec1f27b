// Package eventjson encodes a handler.Event as JSON, as docs/reference/events.md shows it: on one
// line, as encoding/json does without HTML escaping. It copies objects as they are. Scanning them
// again would be most of the cost of an event, and informd has made sure that they are valid JSON.
package eventjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/plugins/handler"
)

// Append appends ev as JSON to dst, without any newline. It fails, and returns dst as it was, only
// if a raw member contains a newline and cannot be compacted because it is not JSON.
func Append(dst []byte, ev handler.Event) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := writeEvent(out, enc, ev); err != nil {
		return dst, fmt.Errorf("encode event: %w", err)
	}
	return out.Bytes(), nil
}

func writeEvent(out *bytes.Buffer, enc *json.Encoder, ev handler.Event) error {
	// The raw members are the last ones of an Event, so they can be cut off, and appended again.
	raw := []struct {
		name  string
		value json.RawMessage
	}{{"object", ev.Object}, {"old", ev.Old}, {"payload", ev.Payload}}
	attached, items := ev.Attached, ev.Items
	ev.Object, ev.Old, ev.Payload, ev.Attached, ev.Items = nil, nil, nil, nil, nil
	if err := enc.Encode(ev); err != nil {
		return err
	}
	out.Truncate(out.Len() - len("}\n"))
	for _, member := range raw {
		if len(member.value) == 0 {
			continue
		}
		out.WriteString(`,"` + member.name + `":`)
		if err := write(out, member.value); err != nil {
			return fmt.Errorf("%s is not valid JSON", member.name)
		}
	}
	if len(attached) > 0 {
		if err := writeAttached(out, enc, attached); err != nil {
			return errors.New("what is attached is not valid JSON")
		}
	}
	separator := `,"items":[`
	for i, item := range items {
		out.WriteString(separator)
		if err := writeEvent(out, enc, item); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
		separator = ","
	}
	if len(items) > 0 {
		out.WriteByte(']')
	}
	out.WriteByte('}')
	return nil
}

// write writes JSON on one line. The error leaves out json's own text, which quotes a character of
// an object.
func write(out *bytes.Buffer, value json.RawMessage) error {
	if bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 {
		return json.Compact(out, value)
	}
	out.Write(value)
	return nil
}

func writeAttached(
	out *bytes.Buffer, enc *json.Encoder, attached map[string][]json.RawMessage,
) error {
	separator := `,"attached":{`
	for _, name := range slices.Sorted(maps.Keys(attached)) {
		out.WriteString(separator)
		if err := enc.Encode(name); err != nil {
			return err
		}
		out.Truncate(out.Len() - 1) // a newline
		out.WriteString(":[")
		for i, o := range attached[name] {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := write(out, o); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		separator = ","
	}
	out.WriteByte('}')
	return nil
}
