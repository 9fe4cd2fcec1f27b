package expr

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

// maxDepth is how deep a value that leaves an expression may nest, or text that it reads.
const maxDepth = 1000

// encodable makes v what encoding/json can encode and counts about as many bytes as it then has, however often parts of it
// are shared. It tells whether it had to change anything; parts that it had not are not copied.
func (r *run) encodable(v any, depth int) (out any, changed bool, err error) {
	if depth > maxDepth {
		return nil, false, errDepth
	}
	switch x := v.(type) {
	case nil, bool, int64:
		return v, false, r.alloc(sizeBoxed)
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, false, failf("a number is too large for JSON")
		}
		return v, false, r.alloc(sizeBoxed)
	case string:
		return v, false, r.alloc(sizeBoxed + len(x))
	case []any:
		return r.encodableList(x, depth)
	case map[string]any:
		return r.encodableMap(x, depth)
	case time.Time, time.Duration, *quantity:
		s, err := r.text("string", v)
		return s, true, err
	}
	return nil, false, failf("%s cannot be encoded as JSON", some(v))
}

func (r *run) encodableList(list []any, depth int) (any, bool, error) {
	if err := r.alloc(sizeBoxed); err != nil {
		return nil, false, err
	}
	var out []any // made when something changes
	for i, v := range list {
		e, changed, err := r.encodable(v, depth+1)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if out == nil {
			if err := r.allocList(len(list)); err != nil {
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

func (r *run) encodableMap(m map[string]any, depth int) (any, bool, error) {
	if err := r.alloc(sizeBoxed); err != nil {
		return nil, false, err
	}
	var out map[string]any // made when something changes
	for key, v := range m {
		if err := r.alloc(len(key) + sizeBoxed); err != nil {
			return nil, false, err
		}
		e, changed, err := r.encodable(v, depth+1)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if out == nil {
			if err := r.allocMap(len(m)); err != nil {
				return nil, false, err
			}
			out = maps.Clone(m)
		}
		out[key] = e
	}
	if out == nil {
		return m, false, nil
	}
	return out, true, nil
}

// toJSON gives compact JSON with sorted keys.
func toJSON(r *run, args []any) (any, error) {
	before := r.bytes
	v, _, err := r.encodable(args[0], 0)
	if err != nil {
		return nil, err
	}
	if err := r.alloc(6 * (before - r.bytes)); err != nil { // escapes, the buffer and the string
		return nil, err
	}
	if err := r.scan(8 * (before - r.bytes)); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, failf(`"toJSON" cannot encode its argument`)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

// fromJSON keeps integers that fit as such.
func fromJSON(r *run, args []any) (any, error) {
	s, err := stringArgs("fromJSON", args, 1)
	if err != nil {
		return nil, err
	}
	if err := r.scan(4 * len(s[0])); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(s[0]))
	dec.UseNumber()
	v, err := r.decodeJSON(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNotJSON
	}
	return v, nil
}

const errNotJSON = failure(`"fromJSON" cannot parse its argument`)

func (r *run) decodeJSON(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if err := r.step(); err != nil {
		return nil, err
	}
	token, err := dec.Token()
	if err != nil {
		return nil, errNotJSON
	}
	switch token := token.(type) {
	case json.Number:
		return decodeNumber(token.String()), r.alloc(sizeValue)
	case string:
		return token, r.alloc(sizeValue + len(token))
	case json.Delim:
		switch token {
		case '[':
			return r.decodeJSONList(dec, depth)
		case '{':
			return r.decodeJSONMap(dec, depth)
		}
		return nil, errNotJSON
	}
	return token, nil // nil or a bool
}

func (r *run) decodeJSONList(dec *json.Decoder, depth int) (any, error) {
	out := []any{}
	for dec.More() {
		if err := r.alloc(2 * sizeValue); err != nil {
			return nil, err
		}
		v, err := r.decodeJSON(dec, depth+1)
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

func (r *run) decodeJSONMap(dec *json.Decoder, depth int) (any, error) {
	if err := r.allocMap(0); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotJSON
		}
		if err := r.alloc(2*sizeEntry + len(key)); err != nil {
			return nil, err
		}
		if out[key], err = r.decodeJSON(dec, depth+1); err != nil {
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
