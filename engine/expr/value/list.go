package value

import (
	"maps"
	"slices"
	"unicode/utf8"
)

var listFunctions = map[string]Function{
	"len":     {Min: 1, Max: 1, Call: length},
	"first":   {Min: 1, Max: 1, Call: onList("first", element(0))},
	"last":    {Min: 1, Max: 1, Call: onList("last", element(-1))},
	"take":    {Min: 2, Max: 2, Call: take},
	"reverse": {Min: 1, Max: 1, Call: onList("reverse", (*Meter).reversed)},
	"concat":  {Min: 1, Max: Many, takesNil: true, Call: concat},
	"flatten": {Min: 1, Max: 1, Call: onList("flatten", (*Meter).flatten)},
	"uniq":    {Min: 1, Max: 1, Call: onList("uniq", (*Meter).unique)},
	"sort":    {Min: 1, Max: 2, Call: sortList},
}

var mapFunctions = map[string]Function{
	"get":       {Min: 2, Max: 2, Call: get},
	"keys":      {Min: 1, Max: 1, Call: onMap("keys", func(key string, _ any) any { return key })},
	"values":    {Min: 1, Max: 1, Call: onMap("values", func(_ string, v any) any { return v })},
	"toPairs":   {Min: 1, Max: 1, Call: onMap("toPairs", pair)},
	"fromPairs": {Min: 1, Max: 1, Call: onList("fromPairs", (*Meter).fromPairs)},
}

func get(m *Meter, args []any) (any, error) {
	if err := m.ScanKey(args[1]); err != nil {
		return nil, err
	}
	return Fetch(args[0], args[1])
}

func pair(key string, v any) any { return []any{key, v} }

func element(i int64) func(*Meter, []any) (any, error) {
	return func(_ *Meter, list []any) (any, error) { return Fetch(list, i) }
}

func onList(
	name string, apply func(m *Meter, list []any) (any, error),
) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		list, ok := args[0].([]any)
		if !ok {
			return nil, WrongArgument(name, args[0])
		}
		return apply(m, list)
	}
}

// onMap makes a list in the order of the keys.
func onMap(name string, entry func(key string, v any) any) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		x, ok := args[0].(map[string]any)
		if !ok {
			return nil, WrongArgument(name, args[0])
		}
		size := 64 * len(x)
		for key := range x {
			size += len(key)
		}
		if err := m.Scan(size); err != nil {
			return nil, err
		}
		if err := m.Alloc(len(x) * 6 * SizeValue); err != nil {
			return nil, err
		}
		out := make([]any, 0, len(x))
		for _, key := range slices.Sorted(maps.Keys(x)) {
			out = append(out, entry(key, x[key]))
		}
		return out, nil
	}
}

func length(m *Meter, args []any) (any, error) {
	switch v := args[0].(type) {
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	case string:
		return int64(utf8.RuneCountInString(v)), m.Scan(len(v))
	}
	return nil, WrongArgument("len", args[0])
}

func take(m *Meter, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, WrongArgument("take", args[0])
	}
	n, err := intArg("take", args[1])
	if err != nil {
		return nil, err
	}
	n = min(max(n, 0), len(list))
	return list[:n:n], nil
}

// copied returns a copy of a list, and takes its memory.
func (m *Meter) copied(list []any) ([]any, error) {
	if err := m.Scan(16 * len(list)); err != nil {
		return nil, err
	}
	if err := m.AllocList(len(list)); err != nil {
		return nil, err
	}
	return slices.Clone(list), nil
}

func (m *Meter) reversed(list []any) (any, error) {
	out, err := m.copied(list)
	slices.Reverse(out)
	return out, err
}

// concat treats nil as an empty list. It gives nil if all its arguments are nil.
func concat(m *Meter, args []any) (any, error) {
	n, allNil := 0, true
	for _, arg := range args {
		switch list := arg.(type) {
		case nil:
		case []any:
			n, allNil = n+len(list), false
		default:
			return nil, WrongArgument("concat", arg)
		}
	}
	if allNil {
		return nil, nil
	}
	if err := m.Scan(16 * n); err != nil {
		return nil, err
	}
	if err := m.AllocList(n); err != nil {
		return nil, err
	}
	out := make([]any, 0, n)
	for _, arg := range args {
		list, _ := arg.([]any)
		out = append(out, list...)
	}
	return out, nil
}

// flatten makes one list of lists in lists, however deep. It leaves out nils.
func (m *Meter) flatten(list []any) (any, error) {
	out := []any{}
	var add func(list []any, depth int) error
	add = func(list []any, depth int) error {
		if depth > maxDepth {
			return ErrDepth
		}
		for _, v := range list {
			if err := m.Step(); err != nil {
				return err
			}
			switch v := v.(type) {
			case nil:
			case []any:
				if err := add(v, depth+1); err != nil {
					return err
				}
			default:
				if err := m.Alloc(2 * SizeValue); err != nil {
					return err
				}
				out = append(out, v)
			}
		}
		return nil
	}
	return out, add(list, 0)
}

// unique keeps the first of equal values.
func (m *Meter) unique(list []any) (any, error) {
	out := []any{}
	seen := make(map[string]bool) // lists mostly hold strings; the rest is compared one by one
	var others []any
	for _, v := range list {
		if err := m.Step(); err != nil {
			return nil, err
		}
		if err := m.Alloc(2*SizeValue + SizeEntry); err != nil {
			return nil, err
		}
		if s, ok := v.(string); ok {
			if err := m.Scan(len(s)); err != nil {
				return nil, err
			}
			if !seen[s] {
				seen[s] = true
				out = append(out, v)
			}
			continue
		}
		known, err := m.holds(others, v)
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

func (m *Meter) holds(list []any, v any) (bool, error) {
	for _, other := range list {
		if err := m.Step(); err != nil {
			return false, err
		}
		if same, err := m.equal(v, other); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func sortList(m *Meter, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, WrongArgument("sort", args[0])
	}
	order := any("asc")
	if len(args) == 2 {
		order = args[1]
	}
	return m.Sorted("sort", list, list, order)
}

// Sorted returns list in the order of keys. It is stable. Nils come first, or last if the order is
// "desc".
func (m *Meter) Sorted(name string, list, keys []any, order any) (any, error) {
	sign := 1
	switch order {
	case "asc":
	case "desc":
		sign = -1
	default:
		return nil, Errorf(`the order of %q must be "asc" or "desc"`, name)
	}
	if err := m.Alloc(len(list) * 4 * SizeValue); err != nil {
		return nil, err
	}
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	var failed error // once set, the order does not matter
	slices.SortStableFunc(places, func(i, j int) int {
		if failed != nil {
			return 0
		}
		var c int
		if c, failed = m.compareNils(keys[i], keys[j]); failed == nil {
			failed = m.Step()
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

func (m *Meter) compareNils(a, b any) (int, error) {
	switch {
	case a == nil && b == nil:
		return 0, nil
	case a == nil:
		return -1, nil
	case b == nil:
		return 1, nil
	}
	return m.compare(a, b)
}

func (m *Meter) fromPairs(list []any) (any, error) {
	if err := m.Scan(32 * len(list)); err != nil {
		return nil, err
	}
	if err := m.AllocMap(len(list)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(list))
	for _, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			return nil, Errorf(`"fromPairs" needs a list of lists of a key and a value`)
		}
		key, ok := pair[0].(string)
		if !ok {
			return nil, Errorf("a key must be a string, not %s", Some(pair[0]))
		}
		if err := m.Scan(len(key)); err != nil {
			return nil, err
		}
		out[key] = pair[1]
	}
	return out, nil
}
