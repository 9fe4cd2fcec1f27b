package value

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// ordered evaluates an ordering operator. It is false if a side is nil.
func (m *Meter) ordered(a, b any, holds func(c int) bool) (bool, error) {
	if a == nil || b == nil {
		return false, nil
	}
	c, err := m.compare(a, b)
	return err == nil && holds(c), err
}

// compare orders two values of one kind, neither of which is nil. It compares ints and floats
// exactly. It reads a string or number as a quantity, time or duration if the other side is one.
func (m *Meter) compare(a, b any) (int, error) {
	switch x := a.(type) {
	case int64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, y), nil
		case float64:
			return compareIntFloat(x, y), nil
		}
	case float64:
		switch y := b.(type) {
		case int64:
			return -compareIntFloat(y, x), nil
		case float64:
			return cmp.Compare(x, y), nil
		}
	case string:
		if y, ok := b.(string); ok {
			if err := m.Scan(min(len(x), len(y))); err != nil {
				return 0, err
			}
			return strings.Compare(x, y), nil
		}
	}
	return compareRead(a, b)
}

// compareRead compares two values, at least one of which is a quantity, time or duration.
func compareRead(a, b any) (int, error) {
	if _, ok := a.(*quantity); ok || isKind[*quantity](b) {
		return compareAs(a, b, toQuantity, func(x, y *quantity) int { return x.compare(y) })
	}
	if _, ok := a.(time.Time); ok || isKind[time.Time](b) {
		return compareAs(a, b, toTime, time.Time.Compare)
	}
	if _, ok := a.(time.Duration); ok || isKind[time.Duration](b) {
		return compareAs(a, b, toDuration, cmp.Compare[time.Duration])
	}
	return 0, Errorf("cannot compare %s with %s", kindOf(a), kindOf(b))
}

func isKind[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func compareAs[T any](
	a, b any, read func(any) (T, readResult), compare func(x, y T) int,
) (int, error) {
	x, okX := read(a)
	y, okY := read(b)
	switch {
	case okX == wrongKind || okY == wrongKind:
		return 0, Errorf("cannot compare %s with %s", kindOf(a), kindOf(b))
	case okX == unreadable || okY == unreadable:
		return 0, Errorf("cannot compare %s with %s: the string cannot be parsed",
			kindOf(a), kindOf(b))
	}
	return compare(x, y), nil
}

// compareIntFloat compares exactly: float64(i) would confuse 2^53 with 2^53+1.
func compareIntFloat(i int64, f float64) int {
	switch {
	case f >= math.MaxInt64: // that is 2^63
		return -1
	case f < math.MinInt64:
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(whole, f)
}

// equal reports whether two values are equal. Values of different kinds are not, except numbers and
// what compare reads.
func (m *Meter) equal(a, b any) (bool, error) {
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y, nil
	case string:
		if y, ok := b.(string); ok {
			if len(x) != len(y) {
				return false, nil
			}
			return x == y, m.Scan(len(x))
		}
	case []any:
		return m.equalLists(x, b)
	case map[string]any:
		return m.equalMaps(x, b)
	}
	if b == nil || !alike(a, b) {
		return false, nil
	}
	c, err := m.compare(a, b)
	return c == 0 && err == nil, err
}

// alike reports whether two values can be equal. Neither is nil, a bool, a list or a map.
func alike(a, b any) bool {
	if kindOf(a) == kindOf(b) || isNumber(a) && isNumber(b) {
		return true
	}
	for range 2 {
		switch a.(type) {
		case *quantity:
			return isNumber(b) || isKind[string](b)
		case time.Time, time.Duration:
			return isKind[string](b)
		}
		a, b = b, a
	}
	return false
}

func (m *Meter) equalLists(x []any, b any) (bool, error) {
	y, ok := b.([]any)
	if !ok || len(x) != len(y) {
		return false, nil
	}
	for i := range x {
		if err := m.Step(); err != nil {
			return false, err
		}
		if same, err := m.equal(x[i], y[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (m *Meter) equalMaps(x map[string]any, b any) (bool, error) {
	y, ok := b.(map[string]any)
	if !ok || len(x) != len(y) {
		return false, nil
	}
	for key, v := range x {
		if err := m.Step(); err != nil {
			return false, err
		}
		other, ok := y[key]
		if !ok {
			return false, nil
		}
		if same, err := m.equal(v, other); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}
