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

// toInt cuts off what is behind the point.
func toInt(_ *run, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return v, nil
	case float64:
		if v >= math.MaxInt64 || v < math.MinInt64 || math.IsNaN(v) {
			return nil, errOverflow
		}
		return int64(v), nil
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

// each calls visit with every argument, and every element of arguments that are lists, but nils.
func (r *run) each(args []any, visit func(v any) error) error {
	for _, arg := range args {
		list, ok := arg.([]any)
		if !ok {
			list = []any{arg}
		}
		for _, v := range list {
			if err := r.step(); err != nil {
				return err
			}
			if v == nil {
				continue
			}
			if err := visit(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// extreme is min, with sign -1, or max: of anything that can be ordered.
func extreme(name string, sign int) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		var best any
		err := r.each(args, func(v any) error {
			if best == nil {
				best = v
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
