package value_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/expr/value"
)

type list = []any
type dict = map[string]any

// quantity is how these tests write a quantity that a function gives.
type quantity string

// meter returns a Meter with the budgets of one evaluation.
func meter() *value.Meter { return &value.Meter{Steps: value.MaxSteps, Bytes: value.MaxMemory} }

// outcome is what a call gave: a value, or its error in place of one.
type outcome struct {
	text  string // the call
	value any
}

func result(text string, args list, apply func(args list) (any, error)) outcome {
	if slices.ContainsFunc(args, func(v any) bool { _, ok := v.(shared); return ok }) {
		return hostile(text, args, apply)
	}
	args = proper(args).(list)
	text, before := text+written(args), written(args)
	v, err := apply(args)
	if err != nil {
		v = err
	}
	if after := written(args); after != before {
		panic(fmt.Sprintf("%s changed its arguments to %s", text, after))
	}
	return outcome{text, v}
}

// shared wraps an argument that shares its parts, and so would take forever to write out.
type shared struct{ v any }

func hostile(text string, args list, apply func(args list) (any, error)) outcome {
	args = slices.Clone(args)
	for i, arg := range args {
		if s, ok := arg.(shared); ok {
			args[i] = s.v
		}
	}
	v, err := apply(args)
	if err != nil {
		v = err
	}
	return outcome{text, v}
}

// call calls a function.
func call(name string, args ...any) outcome {
	return result(name, args, func(args list) (any, error) {
		return value.Functions[name].Call(meter(), args)
	})
}

// unary and binary apply an operator.
func unary(operator string, v any) outcome {
	return result(operator, list{v}, func(args list) (any, error) {
		return value.Unary[operator](args[0])
	})
}

func binary(a any, operator string, b any) outcome {
	return result(operator, list{a, b}, func(args list) (any, error) {
		return value.Binary[operator](meter(), args[0], args[1])
	})
}

// method calls a method. It gives false if the value has no such method.
func method(v any, name string) outcome {
	return result("."+name, list{v}, func(args list) (any, error) {
		out, ok := value.Methods[name](args[0])
		if !ok {
			return false, nil
		}
		return out, nil
	})
}

// each puts the outcomes of several calls into one list.
func each(outcomes ...outcome) outcome {
	var texts []string
	values := list{}
	for _, o := range outcomes {
		texts = append(texts, o.text)
		values = append(values, o.value)
	}
	return outcome{strings.Join(texts, " "), values}
}

// read calls a function that must not fail, and returns its value as an argument for another call.
func read(name string, v any) any {
	o := call(name, v)
	if err, failed := o.value.(error); failed {
		panic(fmt.Sprintf("%s: %v", o.text, err))
	}
	return o.value
}

// at and q return times and quantities.
func at(text string) any { return read("time", text) }
func q(v any) any        { return read("quantity", v) }

// proper returns v with every int as an int64, which is the only integer among values.
func proper(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case list:
		out := make(list, len(v))
		for i := range v {
			out[i] = proper(v[i])
		}
		return out
	case dict:
		out := make(dict, len(v))
		for key := range v {
			out[key] = proper(v[key])
		}
		return out
	}
	return v
}

// seen returns v as tests compare it: proper, with quantities as such.
func seen(v any) any {
	switch v := v.(type) {
	case list:
		out := make(list, len(v))
		for i := range v {
			out[i] = seen(v[i])
		}
		return out
	case dict:
		out := make(dict, len(v))
		for key := range v {
			out[key] = seen(v[key])
		}
		return out
	}
	if value.Some(v) == "a quantity" {
		return quantity(fmt.Sprint(v))
	}
	return proper(v)
}

// written returns values as text.
func written(v any) string {
	switch v := v.(type) {
	case list:
		var out []string
		for _, e := range v {
			out = append(out, written(e))
		}
		return "(" + strings.Join(out, ", ") + ")"
	case dict:
		var out []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, key+": "+written(v[key]))
		}
		return "{" + strings.Join(out, ", ") + "}"
	case string:
		if len(v) > 1000 {
			return fmt.Sprintf("%q… of %d bytes", v[:20], len(v))
		}
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// test expects a value, or a value.Error.
type test struct {
	why  string
	got  outcome
	want any
}

func check(t *testing.T, tests []test) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			if diff := cmp.Diff(seen(test.want), seen(test.got.value)); diff != "" {
				t.Errorf("%.200s: (-want +got)\n%s", test.got.text, diff)
			}
		})
	}
}

const hour = time.Hour
