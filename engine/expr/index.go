package expr

import "github.com/informd/informd/engine/expr/value"

import "slices"

// Up to few values of an index are compared one by one.
const few = 8

// indexValues returns the strings of a scalar or of a list of scalars, without nils and duplicates.
func (r *run) indexValues(v any) ([]string, error) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	if err := r.Scan(16 * len(list)); err != nil {
		return nil, err
	}
	var out []string
	var seen map[string]bool // used once there are many
	for _, v := range list {
		if v == nil {
			continue
		}
		switch v.(type) {
		case []any, map[string]any:
			if !isList {
				return nil, value.Errorf("an index needs a string or a list of strings, not %s",
					value.Some(v))
			}
			return nil, value.Errorf("an index needs a string or a list of strings, "+
				"not a list with %s in it", value.Some(v))
		}
		s, err := r.Text("index", v)
		if err != nil {
			return nil, err
		}
		if err := r.Alloc(2*value.SizeValue + 2*value.SizeEntry + len(s)); err != nil {
			return nil, err
		}
		switch {
		case seen[s] || seen == nil && slices.Contains(out, s):
			continue
		case seen != nil:
			seen[s] = true
		case len(out) == few:
			seen = make(map[string]bool)
			for _, s := range append(out, s) {
				seen[s] = true
			}
		}
		out = append(out, s)
	}
	return out, nil
}
