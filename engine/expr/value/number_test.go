package value_test

import (
	"math"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func TestNumbers(t *testing.T) {
	none := func(name string) value.Error { return value.Error(`"` + name + `" cannot parse its argument`) }
	wrong := func(name, kind string) value.Error { return value.Error(`"` + name + `" cannot take ` + kind) }
	check(t, []test{
		{"int cuts off", each(call("int", 3.7), call("int", -3.7), call("int", 2), call("int", -0.5)), list{3, -3, 2, 0}},
		{"int reads", each(call("int", "12"), call("int", "-1"), call("int", "+1"), call("int", "007"), call("int", "-9223372036854775808")), list{12, -1, 1, 7, math.MinInt64}},
		{"the bounds of int", each(call("int", -9223372036854775808.0), call("int", 9223372036854774784.0)), list{math.MinInt64, 9223372036854774784}},
		{"overflow of int", each(call("int", 3e30), call("int", 9223372036854775808.0), call("int", -9223372036854777856.0), call("int", math.Inf(1))), list{value.ErrOverflow, value.ErrOverflow, value.ErrOverflow, value.ErrOverflow}},
		{"an int that is none", each(call("int", "Pod"), call("int", ""), call("int", "1.5"), call("int", "0x10"), call("int", "1_000"), call("int", " 1"), call("int", "9223372036854775808")), list{none("int"), none("int"), none("int"), none("int"), none("int"), none("int"), none("int")}},
		{"strings of 64 bytes are read, longer ones are not", each(call("int", strings.Repeat("0", 63)+"7"), call("int", strings.Repeat("0", 64)+"7"), call("float", strings.Repeat("0", 63)+"7"), call("float", strings.Repeat("0", 64)+"7")), list{7, none("int"), 7.0, none("float")}},
		{"int of the wrong kind", each(call("int", true), call("int", hour)), list{wrong("int", "a bool"), wrong("int", "a duration")}},
		{"float", each(call("float", "1.5"), call("float", 2), call("float", "1e3"), call("float", "-.5"), call("float", 0.5)), list{1.5, 2.0, 1000.0, -0.5, 0.5}},
		{"a float that is none", each(call("float", "Pod"), call("float", ""), call("float", "1,5"), call("float", "inf"), call("float", "-Inf"), call("float", "NaN"), call("float", "1e999")), list{none("float"), none("float"), none("float"), none("float"), none("float"), none("float"), none("float")}},
		{"float of the wrong kind", call("float", list{}), wrong("float", "a list")},
		{"abs", each(call("abs", -3), call("abs", 3), call("abs", -0.5), call("abs", 0.5), call("abs", 0)), list{3, 3, 0.5, 0.5, 0}},
		{"overflow of abs", call("abs", math.MinInt64), value.ErrOverflow},
		{"abs of the wrong kind", call("abs", -hour), wrong("abs", "a duration")},
		{"rounding gives floats", each(call("ceil", 1.5), call("ceil", -1.5), call("ceil", 2), call("floor", 1.5), call("floor", -1.5), call("floor", 2), call("round", 2.5), call("round", -2.5), call("round", 2.4), call("round", 2)),
			list{2.0, -1.0, 2.0, 1.0, -2.0, 2.0, 3.0, -3.0, 2.0, 2.0}},
		{"rounding of the wrong kind", each(call("ceil", "1"), call("floor", q("1")), call("round", true)), list{wrong("ceil", "a string"), wrong("floor", "a quantity"), wrong("round", "a bool")}},
	})
}

func TestAggregates(t *testing.T) {
	deep := list{1}
	for range 1001 {
		deep = list{deep}
	}
	check(t, []test{
		{"min and max", each(call("min", 3, 1, 2), call("max", list{1, 2.5}), call("max", 1, list{9, list{4, list{10}}}), call("min", 5)), list{1, 2.5, 10, 5}},
		{"mean and median", each(call("mean", list{1, 2}), call("mean", 1, list{2, list{6}}), call("median", list{3, 1, 2}), call("median", 4, 1, 3, 2), call("median", 9)), list{1.5, 3.0, 2.0, 2.5, 9.0}},
		{"min and max of whatever has an order", each(call("min", "b", "a"), call("max", hour, "2h"), call("max", list{q("1Gi"), q("1Mi")}), call("min", at("2026-01-02T00:00:00Z"), at("2026-01-01T00:00:00Z"))), list{"a", "2h", quantity("1Gi"), at("2026-01-01T00:00:00Z")}},
		{"the first of equal ones", each(call("max", 1, 1.0), call("max", 1.0, 1), call("min", 1, 1.0), call("min", 1.0, 1)), list{1, 1.0, 1, 1.0}},
		{"aggregates leave nils out", each(call("max", 1, nil, list{nil, 5}), call("min", list{nil}), call("mean", list{nil}), call("median", nil, 3, nil), call("mean", nil, 3)), list{5, nil, nil, 3.0, 3.0}},
		{"of nothing", each(call("min", list{}), call("max", nil), call("mean", list{}), call("median", list{})), list{nil, nil, nil, nil}},
		{"of what has no order", each(call("max", 1, "a"), call("min", true, false)), list{value.Error("cannot compare string with int"), value.Error("cannot compare bool with bool")}},
		{"of values that are not numbers", each(call("mean", 1, "a"), call("median", list{hour})), list{value.Error(`"mean" cannot take a string`), value.Error(`"median" cannot take a duration`)}},
		{"a mean that overflows", call("mean", math.MaxFloat64, math.MaxFloat64), value.ErrOverflow},
		{"a median does not", call("median", math.MaxFloat64, math.MaxFloat64), math.MaxFloat64},
		{"lists that nest too deep", each(call("max", deep), call("mean", deep)), list{value.ErrDepth, value.ErrDepth}},
	})
}

func TestCanSum(t *testing.T) {
	for _, test := range []struct {
		v    any
		want bool
	}{
		{int64(1), true}, {0.5, true}, {hour, true}, {q("1"), true},
		{nil, false}, {true, false}, {"1", false}, {at("2026-01-02T03:04:05Z"), false}, {list{}, false}, {dict{}, false},
	} {
		if got := value.CanSum(test.v); got != test.want {
			t.Errorf("CanSum of %s is %v", value.Some(test.v), got)
		}
		// what sum takes can be added to its own kind
		if _, failed := binary(test.v, "+", test.v).value.(error); test.want && failed {
			t.Errorf("%s and another cannot be added", value.Some(test.v))
		}
	}
}
