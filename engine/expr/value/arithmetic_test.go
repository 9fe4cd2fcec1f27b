package value_test

import (
	"math"
	"testing"
	"time"

	"github.com/informd/informd/engine/expr/value"
)

func TestArithmetic(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	check(t, []test{
		{"integers stay integers", binary(3, "+", 1), 4},
		{"so do they in the other operations", each(binary(3, "-", 5), binary(3, "*", -5)), list{-2, -15}},
		{"an int and a float make a float", each(binary(1, "+", 0.5), binary(0.5, "-", 1), binary(2, "*", 0.5)), list{1.5, -0.5, 1.0}},
		{"division gives a float", each(binary(7, "/", 2), binary(6, "/", 2), binary(7, "%", 2), binary(2, "**", 3)), list{3.5, 3.0, 1, 8.0}},
		{"^ is **", binary(2, "^", 0.5), math.Sqrt2},
		{"the remainder has the sign of the left side", each(binary(-7, "%", 3), binary(7, "%", -3)), list{-1, 1}},
		{"signs", each(unary("-", 3), unary("-", 0.5), unary("+", 3), unary("+", 0.5)), list{-3, -0.5, 3, 0.5}},
		{"+ joins strings", binary("a", "+", "b"), "ab"},
		{"arithmetic with nil", each(binary(nil, "+", 1), binary(1, "-", nil), binary(nil, "*", nil), binary(1, "/", nil), binary(nil, "%", 2), binary(nil, "**", 2),
			unary("-", nil), unary("+", nil), binary("x", "+", nil), binary(1, "..", nil)), list{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}},

		{"the bounds of integers", each(binary(most-1, "+", 1), binary(least+1, "-", 1), binary(least/2, "*", 2), unary("-", most)), list{most, least, least, -most}},
		{"the opposite by *", each(binary(-1, "*", 5), binary(5, "*", -1), binary(-1, "*", -1)), list{-5, -5, 1}},
		{"nothing times the least", each(binary(0, "*", least), binary(least, "*", 0)), list{0, 0}},
		{"overflow of +", binary(9223372036854775800, "+", 9), value.ErrOverflow},
		{"overflow of + below", binary(least, "+", -1), value.ErrOverflow},
		{"overflow of -", binary(-9223372036854775807, "-", 3), value.ErrOverflow},
		{"overflow of - above", binary(0, "-", least), value.ErrOverflow},
		{"overflow of *", binary(4611686018427387904, "*", 3), value.ErrOverflow},
		{"overflow of * by its sign", each(binary(-1, "*", least), binary(least, "*", -1)), list{value.ErrOverflow, value.ErrOverflow}},
		{"overflow of a sign", unary("-", least), value.ErrOverflow},
		{"overflow of a float", binary(1e308, "*", 3), value.ErrOverflow},
		{"overflow of a power", binary(3, "**", 2000), value.ErrOverflow},
		{"what is not a number", binary(-1, "**", 0.5), value.ErrOverflow},
		{"the remainder of the least by -1 does not overflow", binary(least, "%", -1), 0},
		{"division by zero", each(binary(3, "/", 0), binary(3, "/", 0.0)), list{value.Error("division by zero"), value.Error("division by zero")}},
		{"modulo zero", binary(3, "%", 0), value.Error("division by zero")},

		{"adding different kinds", binary("Pod", "+", 1), value.Error(`operator "+" cannot take a string and an int; write string(…) around what is no string`)},
		{"adding true to a string", binary("Pod", "+", true), value.Error(`operator "+" cannot take a string and a bool; write string(…) around what is no string`)},
		{"subtracting strings", binary("a", "-", "b"), value.Error(`operator "-" cannot take a string and a string`)},
		{"multiplying a list", binary(2, "*", list{1}), value.Error(`operator "*" cannot take an int and a list`)},
		{"dividing true", binary(true, "/", 0), value.Error(`operator "/" cannot take a bool and an int`)},
		{"the remainder of floats", binary(7.5, "%", 2), value.Error(`operator "%" cannot take a float and an int`)},
		{"a power of a map", binary(dict{}, "^", 2), value.Error(`operator "**" cannot take a map and an int`)},
		{"a sign of a string", each(unary("-", "a"), unary("+", "a")), list{value.Error(`operator "-" needs a number, not a string`), value.Error(`operator "+" needs a number, not a string`)}},
	})
}

func TestArithmeticOfUnits(t *testing.T) {
	const longest, shortest = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	newYear := at("2026-01-01T00:00:00Z")
	check(t, []test{
		{"quantities add", each(binary(q("250m"), "+", q("750m")), binary(q("1Gi"), "-", q("512Mi"))), list{quantity("1"), quantity("512Mi")}},
		{"a time and a duration", each(binary(newYear, "+", 36*hour), binary(36*hour, "+", newYear), binary(newYear, "-", hour)),
			list{at("2026-01-02T12:00:00Z"), at("2026-01-02T12:00:00Z"), at("2025-12-31T23:00:00Z")}},
		{"two times", binary(at("2026-01-02T12:00:00Z"), "-", newYear), 36 * hour},
		{"durations", each(binary(hour, "+", time.Minute), binary(hour, "-", time.Minute), binary(time.Minute, "*", 3), binary(3, "*", time.Minute), unary("-", time.Minute)),
			list{61 * time.Minute, 59 * time.Minute, 3 * time.Minute, 3 * time.Minute, -time.Minute}},
		{"times further apart than a duration can say", each(binary(at("9999-01-01T00:00:00Z"), "-", at("0001-01-01T00:00:00Z")), binary(at("0001-01-01T00:00:00Z"), "-", at("9999-01-01T00:00:00Z"))), list{longest, shortest}},
		{"the shortest duration subtracted goes forward", binary(newYear, "-", shortest), at("2318-04-12T23:47:16.854775808Z")},

		{"overflow of durations", each(binary(longest, "+", time.Nanosecond), binary(shortest, "-", time.Nanosecond), binary(longest, "*", 2), binary(2, "*", longest), unary("-", shortest)),
			list{value.ErrOverflow, value.ErrOverflow, value.ErrOverflow, value.ErrOverflow, value.ErrOverflow}},
		{"a time less a string", binary(newYear, "-", "2026"), value.Error(`operator "-" cannot take a time and a string; read the string with time(…) or duration(…)`)},
		{"two times have no sum", binary(newYear, "+", newYear), value.Error(`operator "+" cannot take a time and a time`)},
		{"a time less a number", binary(newYear, "-", 1), value.Error(`operator "-" cannot take a time and an int`)},
		{"a duration less a time", binary(hour, "-", newYear), value.Error(`operator "-" cannot take a duration and a time`)},
		{"a duration and a number", binary(hour, "+", 1), value.Error(`operator "+" cannot take a duration and an int`)},
		{"a fraction of a duration", binary(hour, "*", 0.5), value.Error(`operator "*" cannot take a duration and a float`)},
		{"a square of a duration", binary(hour, "*", hour), value.Error(`operator "*" cannot take a duration and a duration`)},
		{"a quantity and a number", each(binary(q("1"), "+", 1), binary(q("1"), "-", "1")), list{value.Error(`operator "+" cannot take a quantity and an int`), value.Error(`operator "-" cannot take a quantity and a string; read the string with quantity(…)`)}},
		{"the sign of a quantity", unary("-", q("1")), value.Error(`operator "-" needs a number, not a quantity`)},
	})
}

func TestRanges(t *testing.T) {
	check(t, []test{
		{"ranges", each(binary(1, "..", 3), binary(3, "..", 1), binary(0, "..", 0), binary(-1, "..", 1)), list{list{1, 2, 3}, list{}, list{0}, list{-1, 0, 1}}},
		{"a fraction is cut off", binary(-1.9, "..", 1.9), list{-1, 0, 1}},
		{"the largest", binary(math.MaxInt64-1, "..", math.MaxInt64), list{math.MaxInt64 - 1, math.MaxInt64}},
		{"a bound that is none", binary("a", "..", 2), value.Error(`operator ".." cannot take a string and an int`)},
		{"a bound that no int can hold", binary(1, "..", 1e300), value.Error(`operator ".." cannot take an int and a float`)},
		{"a huge range", binary(1, "..", 1000000000), value.ErrMemory},
		{"one that the budget just does not hold", binary(1, "..", value.MaxMemory/24+1), value.ErrMemory},
		{"the hugest range", binary(math.MinInt64, "..", math.MaxInt64), value.ErrMemory},
	})
	if got := binary(1, "..", value.MaxMemory/24).value.(list); len(got) != value.MaxMemory/24 {
		t.Errorf("the largest range that the budget holds has %d elements", len(got))
	}
}
