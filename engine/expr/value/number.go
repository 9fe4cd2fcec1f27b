package value

import (
	"math"
	"slices"
	"strconv"
	"time"
)

var numberFunctions = map[string]Function{
	"int":    {Min: 1, Max: 1, Call: toInt},
	"float":  {Min: 1, Max: 1, Call: toFloatFunction},
	"abs":    {Min: 1, Max: 1, Call: abs},
	"ceil":   {Min: 1, Max: 1, Call: rounding("ceil", math.Ceil)},
	"floor":  {Min: 1, Max: 1, Call: rounding("floor", math.Floor)},
	"round":  {Min: 1, Max: 1, Call: rounding("round", math.Round)},
	"min":    {Min: 1, Max: Many, takesNil: true, Call: extreme("min", -1)},
	"max":    {Min: 1, Max: Many, takesNil: true, Call: extreme("max", 1)},
	"mean":   {Min: 1, Max: Many, takesNil: true, Call: mean},
	"median": {Min: 1, Max: Many, takesNil: true, Call: median},
}

// whole returns a number without its fraction. Indexes, bounds and counts may be floats, because
// division gives floats.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v >= math.MinInt64 && v < math.MaxInt64 { // that is 2^63
			return int64(v), true
		}
	}
	return 0, false
}

// toInt cuts off the fraction.
func toInt(_ *Meter, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64, float64:
		i, ok := whole(v)
		if !ok {
			return nil, ErrOverflow
		}
		return i, nil
	case string:
		if len(v) <= maxReadable {
			if i, err := strconv.ParseInt(v, 10, 64); err == nil {
				return i, nil
			}
		}
		return nil, Errorf(`"int" cannot parse its argument`)
	}
	return nil, WrongArgument("int", args[0])
}

func toFloatFunction(_ *Meter, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		if len(s) <= maxReadable {
			f, err := strconv.ParseFloat(s, 64)
			if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
				return f, nil
			}
		}
		return nil, Errorf(`"float" cannot parse its argument`)
	}
	f, ok := toFloat(args[0])
	if !ok {
		return nil, WrongArgument("float", args[0])
	}
	return f, nil
}

func abs(_ *Meter, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		if v < 0 {
			return negate(v)
		}
		return v, nil
	case float64:
		return math.Abs(v), nil
	}
	return nil, WrongArgument("abs", args[0])
}

// rounding gives floats, as expr-lang does.
func rounding(name string, apply func(float64) float64) func(*Meter, []any) (any, error) {
	return func(_ *Meter, args []any) (any, error) {
		f, ok := toFloat(args[0])
		if !ok {
			return nil, WrongArgument(name, args[0])
		}
		return apply(f), nil
	}
}

// each calls visit with every argument that is not nil, and with the elements of lists at any
// depth.
func (m *Meter) each(args []any, visit func(v any) error) error {
	var visitAll func(values []any, depth int) error
	visitAll = func(values []any, depth int) error {
		if depth > maxDepth {
			return ErrDepth
		}
		for _, v := range values {
			if err := m.Step(); err != nil {
				return err
			}
			var err error
			switch v := v.(type) {
			case nil:
			case []any:
				err = visitAll(v, depth+1)
			default:
				err = visit(v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return visitAll(args, 0)
}

// extreme is min if sign is -1, and max if it is 1, of anything that can be ordered.
func extreme(name string, sign int) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		var best any
		err := m.each(args, func(v any) error {
			if best == nil {
				best = v
				return nil
			}
			c, err := m.compare(v, best)
			if err != nil {
				return err
			}
			if c*sign > 0 {
				best = v
			}
			return nil
		})
		return best, err
	}
}

func (m *Meter) floats(name string, args []any) (out []float64, err error) {
	err = m.each(args, func(v any) error {
		f, ok := toFloat(v)
		if !ok {
			return WrongArgument(name, v)
		}
		out = append(out, f)
		return m.Alloc(2 * sizeBoxed)
	})
	return out, err
}

func mean(m *Meter, args []any) (any, error) {
	values, err := m.floats("mean", args)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return finite(sum / float64(len(values)))
}

func median(m *Meter, args []any) (any, error) {
	values, err := m.floats("median", args)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle], nil
	}
	return finite(values[middle-1]/2 + values[middle]/2)
}

// CanSum reports whether sum takes v.
func CanSum(v any) bool {
	return isNumber(v) || isKind[time.Duration](v) || isKind[*quantity](v)
}
