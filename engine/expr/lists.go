package expr

import (
	"maps"
	"slices"
	"unicode/utf8"
)

var listFunctions = map[string]function{
	"len":     {min: 1, max: 1, reads: size, call: length},
	"first":   {min: 1, max: 1, reads: element, call: onList("first", func(r *run, l []any) (any, error) { return fetch(l, int64(0)) })},
	"last":    {min: 1, max: 1, reads: element, call: onList("last", func(r *run, l []any) (any, error) { return fetch(l, int64(-1)) })},
	"take":    {min: 2, max: 2, reads: takeReads, call: take},
	"reverse": {min: 1, max: 1, reads: elements, call: onList("reverse", (*run).reversed)},
	"concat":  {min: 1, max: many, takesNil: true, reads: elements, call: concat},
	"flatten": {min: 1, max: 1, reads: flattenReads, call: onList("flatten", (*run).flatten)},
	"uniq":    {min: 1, max: 1, call: onList("uniq", (*run).unique)},
	"sort":    {min: 1, max: 2, call: sortList},
}

var mapFunctions = map[string]function{
	"get":       {min: 2, max: 2, reads: dynamicKey, call: func(_ *run, args []any) (any, error) { return fetch(args[0], args[1]) }},
	"keys":      {min: 1, max: 1, call: onMap("keys", func(key string, _ any) any { return key })},
	"values":    {min: 1, max: 1, call: onMap("values", func(_ string, v any) any { return v })},
	"toPairs":   {min: 1, max: 1, call: onMap("toPairs", func(key string, v any) any { return []any{key, v} })},
	"fromPairs": {min: 1, max: 1, call: onList("fromPairs", (*run).fromPairs)},
}

func onList(name string, apply func(r *run, list []any) (any, error)) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		list, ok := args[0].([]any)
		if !ok {
			return nil, wrongArgument(name, args[0])
		}
		return apply(r, list)
	}
}

// onMap makes a list, in the order of the keys.
func onMap(name string, entry func(key string, v any) any) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		m, ok := args[0].(map[string]any)
		if !ok {
			return nil, wrongArgument(name, args[0])
		}
		if err := r.scan(64 * len(m)); err != nil {
			return nil, err
		}
		if err := r.alloc(len(m) * 6 * sizeValue); err != nil {
			return nil, err
		}
		out := make([]any, 0, len(m))
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out = append(out, entry(key, m[key]))
		}
		return out, nil
	}
}

func length(r *run, args []any) (any, error) {
	switch v := args[0].(type) {
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	case string:
		return int64(utf8.RuneCountInString(v)), r.scan(len(v))
	}
	return nil, wrongArgument("len", args[0])
}

func take(r *run, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, wrongArgument("take", args[0])
	}
	n, err := intArg("take", args[1])
	if err != nil {
		return nil, err
	}
	n = min(max(n, 0), len(list))
	return list[:n:n], nil
}

func takeReads(r *reach, args []shape) shape {
	r.use(args[1])
	return elements(r, args[:1])
}

// copied counts and makes a copy of a list.
func (r *run) copied(list []any) ([]any, error) {
	if err := r.scan(16 * len(list)); err != nil {
		return nil, err
	}
	if err := r.allocList(len(list)); err != nil {
		return nil, err
	}
	return slices.Clone(list), nil
}

func (r *run) reversed(list []any) (any, error) {
	out, err := r.copied(list)
	slices.Reverse(out)
	return out, err
}

// concat takes nil for an empty list. Nothing but nils gives nil.
func concat(r *run, args []any) (any, error) {
	n, allNil := 0, true
	for _, arg := range args {
		switch list := arg.(type) {
		case nil:
		case []any:
			n, allNil = n+len(list), false
		default:
			return nil, wrongArgument("concat", arg)
		}
	}
	if allNil {
		return nil, nil
	}
	if err := r.scan(16 * n); err != nil {
		return nil, err
	}
	if err := r.allocList(n); err != nil {
		return nil, err
	}
	out := make([]any, 0, n)
	for _, arg := range args {
		list, _ := arg.([]any)
		out = append(out, list...)
	}
	return out, nil
}

// flatten puts the elements of lists in lists, however deep, into one. It leaves nils out.
func (r *run) flatten(list []any) (any, error) {
	out := []any{}
	var add func(list []any, depth int) error
	add = func(list []any, depth int) error {
		if depth > maxDepth {
			return errDepth
		}
		for _, v := range list {
			if err := r.step(); err != nil {
				return err
			}
			switch v := v.(type) {
			case nil:
			case []any:
				if err := add(v, depth+1); err != nil {
					return err
				}
			default:
				if err := r.alloc(2 * sizeValue); err != nil {
					return err
				}
				out = append(out, v)
			}
		}
		return nil
	}
	return out, add(list, 0)
}

// flattenReads knows of whole objects that they are maps and stay as they are. What lies further down may be a list.
func flattenReads(r *reach, args []shape) shape {
	r.touch(args[0])
	var add func(s shape) shape
	add = func(s shape) (out shape) {
		r.touch(s) // nils are left out
		for _, at := range s.places {
			if len(at.path) == 0 {
				out.places = append(out.places, at)
			} else {
				r.use(shape{places: []spot{at}})
			}
		}
		if s.keyed {
			out.elem, out.keyed = s.elem, true
		}
		if s.elem != nil { // of a list, which is taken apart
			out = r.union(out, add(*s.elem))
		}
		return out
	}
	return made(add(r.elem(args[0])))
}

// unique keeps the first of values that are equal.
func (r *run) unique(list []any) (any, error) {
	out := []any{}
	seen := make(map[string]bool) // strings are what lists usually hold; the rest is compared one by one
	var others []any
	for _, v := range list {
		if err := r.step(); err != nil {
			return nil, err
		}
		if err := r.alloc(2*sizeValue + sizeEntry); err != nil {
			return nil, err
		}
		if s, ok := v.(string); ok {
			if err := r.scan(len(s)); err != nil {
				return nil, err
			}
			if !seen[s] {
				seen[s] = true
				out = append(out, v)
			}
			continue
		}
		known, err := r.holds(others, v)
		if err != nil {
			return nil, err
		}
		if !known {
			others = append(others, v)
			out = append(out, v)
		}
	}
	return out, nil
}

func (r *run) holds(list []any, v any) (bool, error) {
	for _, other := range list {
		if err := r.step(); err != nil {
			return false, err
		}
		if same, err := r.equal(v, other); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func sortList(r *run, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, wrongArgument("sort", args[0])
	}
	order := any("asc")
	if len(args) == 2 {
		order = args[1]
	}
	return r.sorted("sort", list, list, order)
}

// sorted is list in the order of keys, stable, nils first.
func (r *run) sorted(name string, list, keys []any, order any) (any, error) {
	sign := 1
	switch order {
	case "asc":
	case "desc":
		sign = -1
	default:
		return nil, failf(`the order of %q must be "asc" or "desc"`, name)
	}
	if err := r.alloc(len(list) * 4 * sizeValue); err != nil {
		return nil, err
	}
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	var failed error // from then on the order does not matter
	slices.SortStableFunc(places, func(i, j int) int {
		if failed != nil {
			return 0
		}
		var c int
		if c, failed = r.compareNils(keys[i], keys[j]); failed == nil {
			failed = r.step()
		}
		return sign * c
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]any, len(list))
	for i, place := range places {
		out[i] = list[place]
	}
	return out, nil
}

func (r *run) compareNils(a, b any) (int, error) {
	switch {
	case a == nil && b == nil:
		return 0, nil
	case a == nil:
		return -1, nil
	case b == nil:
		return 1, nil
	}
	return r.compare(a, b)
}

func (r *run) fromPairs(list []any) (any, error) {
	if err := r.scan(32 * len(list)); err != nil {
		return nil, err
	}
	if err := r.allocMap(len(list)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(list))
	for _, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			return nil, failf(`"fromPairs" needs a list of lists of a key and a value`)
		}
		key, ok := pair[0].(string)
		if !ok {
			return nil, failf("a key must be a string, not %s", some(pair[0]))
		}
		out[key] = pair[1]
	}
	return out, nil
}
