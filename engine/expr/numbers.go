package expr

import (
	"math"
	"slices"
	"strconv"
)

var numberFunctions = map[string]function{
	"int":    {min: 1, max: 1, call: toInt},
	"float":  {min: 1, max: 1, call: toFloatFunction},
	"abs":    {min: 1, max: 1, call: abs},
	"ceil":   {min: 1, max: 1, call: rounding("ceil", math.Ceil)},
	"floor":  {min: 1, max: 1, call: rounding("floor", math.Floor)},
	"round":  {min: 1, max: 1, call: rounding("round", math.Round)},
	"min":    {min: 1, max: many, takesNil: true, call: extreme("min", -1)},
	"max":    {min: 1, max: many, takesNil: true, call: extreme("max", 1)},
	"mean":   {min: 1, max: many, takesNil: true, call: mean},
	"median": {min: 1, max: many, takesNil: true, call: median},
}

// whole is a number without what is behind its point. Indexes, bounds and counts may be floats, because division gives
// floats.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v >= math.MinInt64 && v < math.MaxInt64 { // that is, 2^63
			return int64(v), true
		}
	}
	return 0, false
}

// toInt cuts off what is behind the point.
func toInt(_ *run, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64, float64:
		i, ok := whole(v)
		if !ok {
			return nil, errOverflow
		}
		return i, nil
	case string:
		if len(v) <= maxReadable {
			if i, err := strconv.ParseInt(v, 10, 64); err == nil {
				return i, nil
			}
		}
		return nil, failf(`"int" cannot parse its argument`)
	}
	return nil, wrongArgument("int", args[0])
}

func toFloatFunction(_ *run, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		if len(s) <= maxReadable {
			if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
				return f, nil
			}
		}
		return nil, failf(`"float" cannot parse its argument`)
	}
	f, ok := toFloat(args[0])
	if !ok {
		return nil, wrongArgument("float", args[0])
	}
	return f, nil
}

func abs(_ *run, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		if v < 0 {
			return negate(v)
		}
		return v, nil
	case float64:
		return math.Abs(v), nil
	}
	return nil, wrongArgument("abs", args[0])
}

// rounding gives floats, as expr-lang does.
func rounding(name string, apply func(float64) float64) func(*run, []any) (any, error) {
	return func(_ *run, args []any) (any, error) {
		f, ok := toFloat(args[0])
		if !ok {
			return nil, wrongArgument(name, args[0])
		}
		return apply(f), nil
	}
}

// each calls visit with every argument but nils, and with the elements of lists, and of lists in lists.
func (r *run) each(args []any, visit func(v any) error) error {
	var visitAll func(values []any, depth int) error
	visitAll = func(values []any, depth int) error {
		if depth > maxDepth {
			return errDepth
		}
		for _, v := range values {
			if err := r.step(); err != nil {
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

// extreme is min, with sign -1, or max: of anything that can be ordered.
func extreme(name string, sign int) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		var best any
		err := r.each(args, func(v any) error {
			if best == nil {
				best = v
				return nil
			}
			c, err := r.compare(v, best)
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

func (r *run) floats(name string, args []any) (out []float64, err error) {
	err = r.each(args, func(v any) error {
		f, ok := toFloat(v)
		if !ok {
			return wrongArgument(name, v)
		}
		out = append(out, f)
		return r.alloc(2 * sizeBoxed)
	})
	return out, err
}

func mean(r *run, args []any) (any, error) {
	values, err := r.floats("mean", args)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return finite(sum / float64(len(values)))
}

func median(r *run, args []any) (any, error) {
	values, err := r.floats("median", args)
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
