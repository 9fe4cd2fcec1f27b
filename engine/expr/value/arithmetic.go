package value

import (
	"math"
	"time"
)

// Arithmetic with nil is nil. Integers stay integers and do not wrap. A result that int64 cannot
// hold is an error, and so is a float that is not finite.

const ErrOverflow = Error("the result of the calculation is too large")

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func finite(f float64) (any, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, ErrOverflow
	}
	return f, nil
}

func mismatch(operator string, a, b any) error {
	return Errorf("operator %q cannot take %s and %s%s", operator, Some(a), Some(b),
		hintForMismatch(operator, a, b))
}

// hintForMismatch returns what follows the message about kinds that do not go together, or "".
func hintForMismatch(operator string, a, b any) string {
	is := func(kind string) bool { return kindOf(a) == kind || kindOf(b) == kind }
	switch {
	case operator != "+" && operator != "-":
	case !is("string") || kindOf(a) == kindOf(b):
	case is("time"), is("duration"):
		return "; read the string with time(…) or duration(…)"
	case is("quantity"):
		return "; read the string with quantity(…)"
	case operator == "+" && (is("int") || is("float") || is("bool")):
		return "; write string(…) around what is no string"
	}
	return ""
}

// floats calculates with two numbers, at least one of which is a float.
func floats(operator string, a, b any, apply func(x, y float64) float64) (any, error) {
	x, ok1 := toFloat(a)
	y, ok2 := toFloat(b)
	if !ok1 || !ok2 {
		return nil, mismatch(operator, a, b)
	}
	return finite(apply(x, y))
}

func addInts(a, b int64) (int64, error) {
	sum := a + b
	if (sum > a) != (b > 0) {
		return 0, ErrOverflow
	}
	return sum, nil
}

func subtractInts(a, b int64) (int64, error) {
	difference := a - b
	if (difference < a) != (b > 0) {
		return 0, ErrOverflow
	}
	return difference, nil
}

func multiplyInts(a, b int64) (int64, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	product := a * b
	if product/b != a || a == -1 && b == minInt || b == -1 && a == minInt {
		return 0, ErrOverflow
	}
	return product, nil
}

// Add returns a + b.
func (m *Meter) Add(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			sum, err := addInts(x, y)
			return sum, err
		}
	case string:
		if y, ok := b.(string); ok {
			if err := m.Alloc(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		}
	case time.Time:
		if y, ok := b.(time.Duration); ok {
			return x.Add(y), nil
		}
	case time.Duration:
		switch y := b.(type) {
		case time.Duration:
			sum, err := addInts(int64(x), int64(y))
			return time.Duration(sum), err
		case time.Time:
			return y.Add(x), nil
		}
	case *quantity:
		if y, ok := b.(*quantity); ok {
			return x.plus(y), nil
		}
	}
	return floats("+", a, b, func(x, y float64) float64 { return x + y })
}

func (m *Meter) subtract(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			difference, err := subtractInts(x, y)
			return difference, err
		}
	case time.Time:
		switch y := b.(type) {
		case time.Time:
			return x.Sub(y), nil
		case time.Duration:
			// by halves, because the shortest duration has no opposite
			return x.Add(-(y / 2)).Add(-(y - y/2)), nil
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			difference, err := subtractInts(int64(x), int64(y))
			return time.Duration(difference), err
		}
	case *quantity:
		if y, ok := b.(*quantity); ok {
			return x.minus(y), nil
		}
	}
	return floats("-", a, b, func(x, y float64) float64 { return x - y })
}

func (m *Meter) multiply(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if d, ok := b.(time.Duration); ok {
		if _, ok := a.(int64); ok {
			a, b = d, a
		}
	}
	if y, ok := b.(int64); ok {
		switch x := a.(type) {
		case int64:
			product, err := multiplyInts(x, y)
			return product, err
		case time.Duration:
			product, err := multiplyInts(int64(x), y)
			return time.Duration(product), err
		}
	}
	return floats("*", a, b, func(x, y float64) float64 { return x * y })
}

// divide always gives a float, as expr-lang does.
func (m *Meter) divide(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if y, ok := toFloat(b); ok && y == 0 && isNumber(a) {
		return nil, Errorf("division by zero")
	}
	return floats("/", a, b, func(x, y float64) float64 { return x / y })
}

func (m *Meter) modulo(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	x, ok1 := a.(int64)
	y, ok2 := b.(int64)
	if !ok1 || !ok2 {
		return nil, mismatch("%", a, b)
	}
	if y == 0 {
		return nil, Errorf("division by zero")
	}
	return x % y, nil
}

// power always gives a float, as expr-lang does.
func (m *Meter) power(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	return floats("**", a, b, math.Pow)
}

func negate(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		negated, err := subtractInts(0, v)
		return negated, err
	case float64:
		return -v, nil
	case time.Duration:
		negated, err := subtractInts(0, int64(v))
		return time.Duration(negated), err
	}
	return nil, Errorf("operator \"-\" needs a number, not %s", Some(v))
}

// span gives the integers from a to b, both included.
func (m *Meter) span(a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	from, ok1 := whole(a)
	to, ok2 := whole(b)
	if !ok1 || !ok2 {
		return nil, mismatch("..", a, b)
	}
	if from > to {
		return []any{}, nil
	}
	last, err := subtractInts(to, from)
	if err != nil || last >= MaxMemory {
		return nil, ErrMemory
	}
	n := int(last) + 1
	if err := m.Alloc(n * (SizeValue + sizeBoxed)); err != nil {
		return nil, err
	}
	out := make([]any, n)
	for i := range out {
		out[i] = from + int64(i)
	}
	return out, nil
}
