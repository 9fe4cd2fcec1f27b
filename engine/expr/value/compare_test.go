package value_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func TestCompare(t *testing.T) {
	const big53 = 9007199254740992 // 2^53: a float cannot hold the next integer
	fails := func(text string) value.Error { return value.Error("cannot compare " + text) }
	check(t, []test{
		{"integers", each(binary(1, "<", 2), binary(2, "<=", 2), binary(1, ">", 2), binary(1, ">=", 2)), list{true, true, false, false}},
		{"strings", each(binary("B", "<", "a"), binary("a", "<=", "a"), binary("a", ">", "ab"), binary("b", ">=", "ab")), list{true, true, false, true}},
		{"integers are exact", each(binary(big53+1, "==", big53+1), binary(big53+1, "==", big53), binary(big53+1, ">", big53)), list{true, false, true}},
		{"an int and a float compare exactly", each(binary(big53+1, "==", float64(big53)), binary(big53+1, ">", float64(big53)), binary(3, "==", 3.0), binary(2.5, "<", 3), binary(3, "<", 2.5), binary(math.MaxInt64, "<", 9223372036854775808.0)),
			list{false, true, true, true, false, true}},
		{"an int and the least float that one can hold", each(binary(math.MinInt64, "==", -9223372036854775808.0), binary(math.MinInt64, ">", -9223372036854777856.0)), list{true, true}},
		{"orderings with nil are false", each(binary(nil, ">", 5), binary(nil, "<", 5), binary(nil, ">=", nil), binary(5, "<=", nil), binary(nil, ">", "x"), binary(at("2026-01-02T03:04:05Z"), ">", nil)),
			list{false, false, false, false, false, false}},
		{"nil is equal to nil alone", each(binary(nil, "==", nil), binary(nil, "==", 0), binary("", "==", nil), binary(list{}, "==", nil), binary(dict{}, "!=", nil), binary(false, "==", nil)), list{true, false, false, false, true, false}},
		{"different kinds are not equal", each(binary("1", "==", 1), binary(true, "==", 1), binary(list{1}, "==", dict{"a": 1}), binary(list{1, "a"}, "==", list{1.0, "a"}), binary(dict{"a": nil}, "==", dict{"b": nil}),
			binary(dict{"a": 1}, "==", list{1}), binary(hour, "==", 1), binary(q("1"), "==", list{})), list{false, false, false, true, false, false, false, false}},
		{"!= is the contrary", each(binary("1", "!=", 1), binary(1, "!=", 1.0)), list{true, false}},
		{"lists", each(binary(list{1, list{2}}, "==", list{1, list{2}}), binary(list{1, 2}, "==", list{2, 1}), binary(list{1}, "==", list{1, 2}), binary(list{}, "==", list{})), list{true, false, false, true}},
		{"maps", each(binary(dict{"a": 1}, "==", dict{"a": 1.0}), binary(dict{"a": 1}, "==", dict{"a": 2}), binary(dict{"a": 1}, "==", dict{"a": 1, "b": 2}), binary(dict{}, "==", dict{})), list{true, false, false, true}},
		{"quantities compare", each(binary(q("250m"), "<", q("1")), binary(q("1Gi"), "==", q("1024Mi")), binary(q("1"), ">", "999m"), binary("1Gi", "==", q("1024Mi")), binary(q("2"), ">", 1), binary(q(2), ">=", 2), binary(q("500m"), "==", 0.5)),
			list{true, true, true, true, true, true, true}},
		{"times", each(binary(at("2026-01-02T03:04:05Z"), ">", "2026-01-01T00:00:00Z"), binary(at("2026-01-02T03:04:05Z"), "==", "2026-01-02T04:04:05+01:00"), binary("2026-01-01T00:00:00Z", ">=", at("2026-01-02T03:04:05Z"))), list{true, true, false}},
		{"durations", each(binary(hour, "==", "60m"), binary("1h1s", ">", hour), binary(hour, "<", "1h"), binary(hour, "!=", 2*hour)), list{true, true, false, true}},

		{"orderings of different kinds", binary("n1", ">", 5), fails("string with int")},
		{"orderings of what has none", each(binary(true, "<", false), binary(list{}, "<", list{}), binary(dict{}, ">=", dict{})), list{fails("bool with bool"), fails("list with list"), fails("map with map")}},
		{"comparing a quantity with what is none", each(binary(q("1"), ">", "Pod"), binary("Pod", "==", q("1"))), list{fails("quantity with string: the string cannot be parsed"), fails("string with quantity: the string cannot be parsed")}},
		{"comparing a quantity with a list", binary(q("1"), ">", list{}), fails("quantity with list")},
		{"comparing a time with what is none", each(binary("now", "<", at("2026-01-02T03:04:05Z")), binary(at("2026-01-02T03:04:05Z"), "<", 5)), list{fails("string with time: the string cannot be parsed"), fails("time with int")}},
		{"comparing a duration with what is none", each(binary(hour, "<", "1 hour"), binary(5, "<", hour)), list{fails("duration with string: the string cannot be parsed"), fails("int with duration")}},
		{"units of two kinds", each(binary(hour, "<", q("1")), binary(at("2026-01-02T03:04:05Z"), ">", hour)), list{fails("duration with quantity"), fails("time with duration")}},
		{"an error within a list", binary(list{q("1")}, "==", list{"Pod"}), fails("quantity with string: the string cannot be parsed")},
	})
}

// Numbers of both kinds compare as math/big's do.
func TestNumbersCompareExactly(t *testing.T) {
	var numbers list
	for _, f := range []float64{0, 0.5, 1, 3, 1 << 53, 1<<53 + 2, 1 << 62, math.MaxInt64, 1e300, math.MaxFloat64, 5e-324} {
		numbers = append(numbers, f, -f)
	}
	for _, i := range []int64{0, 1, 2, 3, 1 << 53, 1<<53 + 1, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		numbers = append(numbers, i, -i)
	}
	numbers = append(numbers, int64(math.MinInt64))
	exact := func(v any) *big.Float {
		if i, ok := v.(int64); ok {
			return new(big.Float).SetInt64(i)
		}
		return big.NewFloat(v.(float64))
	}
	for _, a := range numbers {
		for _, b := range numbers {
			c := exact(a).Cmp(exact(b))
			for operator, want := range map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0, "==": c == 0, "!=": c != 0} {
				if got := binary(a, operator, b).value; got != want {
					t.Errorf("%v %s %v gives %v", a, operator, b, got)
				}
			}
		}
	}
}

// The orderings and == agree with each other, whichever side a value stands on.
func TestOrderingsAgree(t *testing.T) {
	values := list{1, 2, 2.5, "1", "2", "500m", q("1"), q("2500m"), hour, 2 * hour, "1h", "2h", at("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z"}
	compared := 0
	for _, a := range values {
		for _, b := range values {
			if _, failed := binary(a, "<", b).value.(error); failed {
				if _, fails := binary(b, ">", a).value.(error); !fails {
					t.Errorf("%v < %v fails, but not the other way round", a, b)
				}
				continue
			}
			compared++
			less, greater, same := binary(a, "<", b).value, binary(a, ">", b).value, binary(a, "==", b).value
			if n := count(less, greater, same); n != 1 {
				t.Errorf("of %v and %v, %d of <, > and == hold", a, b, n)
			}
			if less != binary(b, ">", a).value || same != binary(b, "==", a).value || less == binary(a, ">=", b).value || greater == binary(a, "<=", b).value {
				t.Errorf("the operators disagree about %v and %v", a, b)
			}
		}
	}
	if compared < 60 {
		t.Errorf("only %d pairs can be compared", compared)
	}
}

func count(claims ...any) (n int) {
	for _, claim := range claims {
		if claim == true {
			n++
		}
	}
	return n
}
