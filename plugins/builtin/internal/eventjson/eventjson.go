// Package eventjson encodes a handler.Event as JSON, as docs/builtins.md shows it. The encoding is that of
// encoding/json without HTML escaping, on one line; objects are copied as they are instead of being scanned again,
// which is most of the cost of an event. It does not check that they are valid JSON: informd made them.
package eventjson

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/informd/informd/plugins/handler"
)

// Append appends ev as JSON to dst, without a newline anywhere in it. It fails only where a raw member holds a newline
// and is no JSON that could be compacted; dst is then returned as it was.
func Append(dst []byte, ev handler.Event) ([]byte, error) {
	// The raw members are the last ones of an Event, so they can be cut off, and appended again.
	raw := []struct {
		name  string
		value json.RawMessage
	}{{"object", ev.Object}, {"old", ev.Old}, {"payload", ev.Payload}}
	ev.Object, ev.Old, ev.Payload = nil, nil, nil

	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
		return dst, fmt.Errorf("encode event: %w", err)
	}
	out.Truncate(out.Len() - len("}\n"))
	for _, member := range raw {
		if len(member.value) == 0 {
			continue
		}
		out.WriteString(`,"` + member.name + `":`)
		if !bytes.ContainsAny(member.value, "\n\r") {
			out.Write(member.value)
			continue
		}
		if err := json.Compact(out, member.value); err != nil {
			// The error names a character of the object: leave it out.
			return dst, fmt.Errorf("encode event: %s is not valid JSON", member.name)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
