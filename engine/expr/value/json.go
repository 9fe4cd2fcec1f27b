package value

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Encodable returns v as something that encoding/json can encode. It may share memory with v.
func (m *Meter) Encodable(v any) (any, error) {
	out, _, err := m.encodable(v, 0)
	return out, err
}

// encodable turns v into what encoding/json can encode, and takes about the bytes that this has,
// counting shared parts each time. It reports whether it changed anything. It copies only what it
// changes.
func (m *Meter) encodable(v any, depth int) (out any, changed bool, err error) {
	if depth > maxDepth {
		return nil, false, ErrDepth
	}
	switch x := v.(type) {
	case nil, bool, int64:
		return v, false, m.Alloc(sizeBoxed)
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, false, Errorf("a number is too large for JSON")
		}
		return v, false, m.Alloc(sizeBoxed)
	case string:
		return v, false, m.Alloc(sizeBoxed + len(x))
	case []any:
		return m.encodableList(x, depth)
	case map[string]any:
		return m.encodableMap(x, depth)
	case time.Time, time.Duration, *quantity:
		s, err := m.Text("string", v)
		return s, true, err
	}
	return nil, false, Errorf("%s cannot be encoded as JSON", Some(v))
}

func (m *Meter) encodableList(list []any, depth int) (any, bool, error) {
	if err := m.Alloc(sizeBoxed); err != nil {
		return nil, false, err
	}
	var out []any // made at the first change
	for i, v := range list {
		e, changed, err := m.encodable(v, depth+1)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if out == nil {
			if err := m.AllocList(len(list)); err != nil {
				return nil, false, err
			}
			out = slices.Clone(list)
		}
		out[i] = e
	}
	if out == nil {
		return list, false, nil
	}
	return out, true, nil
}

func (m *Meter) encodableMap(x map[string]any, depth int) (any, bool, error) {
	if err := m.Alloc(sizeBoxed); err != nil {
		return nil, false, err
	}
	var out map[string]any // made at the first change
	for key, v := range x {
		if err := m.Alloc(len(key) + sizeBoxed); err != nil {
			return nil, false, err
		}
		e, changed, err := m.encodable(v, depth+1)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if out == nil {
			if err := m.AllocMap(len(x)); err != nil {
				return nil, false, err
			}
			out = maps.Clone(x)
		}
		out[key] = e
	}
	if out == nil {
		return x, false, nil
	}
	return out, true, nil
}

// toJSON gives compact JSON with sorted keys.
func toJSON(m *Meter, args []any) (any, error) {
	before := m.Bytes
	v, _, err := m.encodable(args[0], 0)
	if err != nil {
		return nil, err
	}
	if err := m.Alloc(6 * (before - m.Bytes)); err != nil {
		// for escapes, the buffer and the string
		return nil, err
	}
	if err := m.Scan(8 * (before - m.Bytes)); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, Errorf(`"toJSON" cannot encode its argument`)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

// fromJSON keeps integers that fit into int64.
func fromJSON(m *Meter, args []any) (any, error) {
	s, err := stringArgs("fromJSON", args, 1)
	if err != nil {
		return nil, err
	}
	if err := m.Scan(4 * len(s[0])); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(s[0]))
	dec.UseNumber()
	v, err := m.decodeJSON(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNotJSON
	}
	return v, nil
}

const errNotJSON = Error(`"fromJSON" cannot parse its argument`)

func (m *Meter) decodeJSON(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, ErrDepth
	}
	if err := m.Step(); err != nil {
		return nil, err
	}
	token, err := dec.Token()
	if err != nil {
		return nil, errNotJSON
	}
	switch token := token.(type) {
	case json.Number:
		return decodeNumber(token.String()), m.Alloc(SizeValue)
	case string:
		return token, m.Alloc(SizeValue + len(token))
	case json.Delim:
		switch token {
		case '[':
			return m.decodeJSONList(dec, depth)
		case '{':
			return m.decodeJSONMap(dec, depth)
		}
		return nil, errNotJSON
	}
	return token, nil // nil or a bool
}

func (m *Meter) decodeJSONList(dec *json.Decoder, depth int) (any, error) {
	out := []any{}
	for dec.More() {
		if err := m.Alloc(2 * SizeValue); err != nil {
			return nil, err
		}
		v, err := m.decodeJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNotJSON
	}
	return out, nil
}

func (m *Meter) decodeJSONMap(dec *json.Decoder, depth int) (any, error) {
	if err := m.AllocMap(0); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotJSON
		}
		if err := m.Alloc(2*SizeEntry + len(key)); err != nil {
			return nil, err
		}
		if out[key], err = m.decodeJSON(dec, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNotJSON
	}
	return out, nil
}

func decodeNumber(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range: ±Inf
	return f
}
