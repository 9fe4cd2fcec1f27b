package value

import "unicode/utf8"

// ScanKey takes the steps that Fetch costs with a key: one, and more for a long string.
func (m *Meter) ScanKey(key any) error {
	s, _ := key.(string)
	return m.Scan(len(s))
}

// Fetch returns v[key], or nil if it is not there. A negative index counts from the end.
func Fetch(v, key any) (any, error) {
	if v == nil || key == nil {
		return nil, nil
	}
	switch v := v.(type) {
	case map[string]any:
		if key, ok := key.(string); ok {
			return v[key], nil
		}
	case []any:
		i, ok := whole(key)
		if !ok {
			break
		}
		if i < 0 {
			i += int64(len(v))
		}
		if i < 0 || i >= int64(len(v)) {
			return nil, nil
		}
		return v[i], nil
	}
	return nil, Errorf("%s cannot be indexed with %s", Some(v), Some(key))
}

// Slice returns v[from:to] of a list, or of the characters of a string.
func (m *Meter) Slice(v, from, to any) (any, error) {
	if v == nil || from == nil || to == nil {
		return nil, nil
	}
	i, ok1 := whole(from)
	j, ok2 := whole(to)
	if !ok1 || !ok2 {
		return nil, Errorf("the bounds of a slice must be numbers")
	}
	switch v := v.(type) {
	case []any:
		i, j := bounds(i, j, len(v))
		return v[i:j:j], nil
	case string:
		if err := m.Scan(2 * len(v)); err != nil {
			return nil, err
		}
		i, j := bounds(i, j, utf8.RuneCountInString(v))
		start := RuneOffset(v, i)
		return v[start : start+RuneOffset(v[start:], j-i)], nil
	}
	return nil, Errorf("%s cannot be sliced", Some(v))
}

// bounds returns from and to within 0 ≤ from ≤ to ≤ n. Negative ones count from the end.
func bounds(from, to int64, n int) (int, int) {
	within := func(i int64) int {
		if i < 0 {
			i += int64(n)
		}
		return int(min(max(i, 0), int64(n)))
	}
	j := within(to)
	return min(within(from), j), j
}

// RuneOffset returns the byte at which the n'th character of text starts, or text's length.
func RuneOffset(text string, n int) int {
	for i := range text {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(text)
}
