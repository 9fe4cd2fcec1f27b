package value_test

import (
	"math"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func fetch(v, key any) outcome {
	return result("fetch", list{v, key}, func(args list) (any, error) { return value.Fetch(args[0], args[1]) })
}

func slice(v, from, to any) outcome {
	return result("slice", list{v, from, to}, func(args list) (any, error) {
		return meter().Slice(args[0], args[1], args[2])
	})
}

func TestFetch(t *testing.T) {
	three := list{"a", "b", "c"}
	fails := func(text string) value.Error { return value.Error(text) }
	check(t, []test{
		{"a key", each(fetch(dict{"a": 1}, "a"), fetch(dict{"a": 1}, "b")), list{1, nil}},
		{"an element", each(fetch(three, 0), fetch(three, 2), fetch(three, 3)), list{"a", "c", nil}},
		{"from the end", each(fetch(three, -1), fetch(three, -3), fetch(three, -4)), list{"c", "a", nil}},
		{"a float as an index", each(fetch(three, 1.9), fetch(three, -1.9), fetch(three, -0.5)), list{"b", "c", "a"}},
		{"far outside", each(fetch(three, math.MaxInt64), fetch(three, math.MinInt64)), list{nil, nil}},
		{"of nil, and nil as a key", each(fetch(nil, "a"), fetch(three, nil), fetch(dict{}, nil), fetch("a", nil)), list{nil, nil, nil, nil}},
		{"a string as an index", fetch(three, "Pod"), fails("a list cannot be indexed with a string")},
		{"an index that no int can hold", fetch(three, 1e300), fails("a list cannot be indexed with a float")},
		{"a number as a key", fetch(dict{"0": 1}, 0), fails("a map cannot be indexed with an int")},
		{"a letter of a string", fetch("Pod", 0), fails("a string cannot be indexed with an int")},
		{"get", each(call("get", dict{"a": 1}, "a"), call("get", three, -1), call("get", three, 9), call("get", nil, "x")), list{1, "c", nil, nil}},
		{"get from a number", call("get", 3, 0), fails("an int cannot be indexed with an int")},
	})
}

func TestSlice(t *testing.T) {
	three := list{1, 2, 3}
	fails := func(text string) value.Error { return value.Error(text) }
	check(t, []test{
		{"of a list", each(slice(three, 1, 3), slice(three, 0, -1), slice(three, -2, 9), slice(three, 2, 1), slice(three, 9, 10), slice(three, -9, 9)), list{list{2, 3}, list{1, 2}, list{2, 3}, list{}, list{}, three}},
		{"of a string, in characters", each(slice("aéßx", 1, 3), slice("aéß", -1, 9), slice("ab", 5, math.MaxInt64), slice("aéß", 0, -1), slice("aéß", 2, 1)), list{"éß", "ß", "", "aé", ""}},
		{"bytes that are not UTF-8 count one each", slice("a\xffé", 1, 3), "\xffé"},
		{"floats as bounds", slice(three, 0.9, 2.9), list{1, 2}},
		{"the extremes", each(slice(three, math.MinInt64, math.MaxInt64), slice("ab", math.MaxInt64, math.MinInt64)), list{three, ""}},
		{"nil", each(slice(nil, 1, 2), slice(three, nil, 2), slice(three, 1, nil)), list{nil, nil, nil}},
		{"bounds that are none", each(slice(three, "a", 2), slice(three, 0, 1e300)), list{fails("the bounds of a slice must be numbers"), fails("the bounds of a slice must be numbers")}},
		{"what has no parts", each(slice(5, 0, 1), slice(dict{}, 0, 1)), list{fails("an int cannot be sliced"), fails("a map cannot be sliced")}},
		{"a string longer than the steps last", slice(strings.Repeat("a", 16<<20), 0, 1), value.ErrSteps},
	})
	part := slice(list{1, 2, 3}, 0, 2).value.(list)
	if cap(part) != 2 {
		t.Errorf("appending to a slice would change the list: capacity %d, want 2", cap(part))
	}
}

func TestRuneOffset(t *testing.T) {
	for _, test := range []struct {
		text    string
		n, want int
	}{
		{"aéß", 0, 0}, {"aéß", 1, 1}, {"aéß", 2, 3}, {"aéß", 3, 5}, {"aéß", 4, 5}, {"aéß", -1, 0}, {"", 0, 0}, {"", 1, 0}, {"\xff\xffa", 2, 2},
	} {
		if got := value.RuneOffset(test.text, test.n); got != test.want {
			t.Errorf("character %d of %q starts at %d, want %d", test.n, test.text, got, test.want)
		}
	}
}
