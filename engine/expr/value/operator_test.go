package value_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func TestLogic(t *testing.T) {
	check(t, []test{
		{"not", each(unary("!", true), unary("not", false), unary("not", true)), list{false, true, false}},
		{"not nil", each(unary("!", nil), unary("not", nil)), list{true, true}},
		{"not of what is not a bool", unary("!", "Pod"), value.Error(`operator "!" needs true or false, not a string`)},
		{"spelled out", unary("not", 1), value.Error(`operator "not" needs true or false, not an int`)},
	})
	for _, test := range []struct {
		v    any
		want bool
		err  string
	}{
		{nil, false, ""},
		{false, false, ""},
		{true, true, ""},
		{"true", false, "a string is not true or false"},
		{int64(1), false, "an int is not true or false"},
		{hour, false, "a duration is not true or false"},
	} {
		got, err := value.Truth(test.v)
		if got != test.want || (err != nil) != (test.err != "") || err != nil && err.Error() != test.err {
			t.Errorf("%v is %v, %v; want %v, %s", test.v, got, err, test.want, test.err)
		}
	}
}

func TestIn(t *testing.T) {
	check(t, []test{
		{"an element of a list", each(binary("b", "in", list{"a", "b"}), binary("c", "in", list{"a", "b"}), binary("a", "in", list{})), list{true, false, false}},
		{"as == compares", each(binary(1, "in", list{1.0}), binary("1", "in", list{1}), binary(list{1}, "in", list{list{1}}), binary(q("1Gi"), "in", list{q("1024Mi")})), list{true, false, true, true}},
		{"a key of a map", each(binary("a", "in", dict{"a": nil}), binary("b", "in", dict{"a": nil})), list{true, false}},
		{"nil and in", each(binary(nil, "in", list{1, nil}), binary(1, "in", nil), binary(nil, "in", dict{"a": 1}), binary(nil, "in", nil), binary(nil, "in", list{"x"})), list{false, false, false, false, false}},
		{"in on a string", binary("a", "in", "Pod"), value.Error(`operator "in" needs a list or a map, not a string; use contains`)},
		{"in on a number", binary("a", "in", 5), value.Error(`operator "in" needs a list or a map, not an int`)},
		{"a key that cannot be one", binary(1, "in", dict{"1": 1}), value.Error("a map has no keys of kind int")},
		{"an element that cannot be compared", binary(q("1"), "in", list{"2", "Pod"}), value.Error("cannot compare string with quantity: the string cannot be parsed")},
	})
}

func TestStringOperators(t *testing.T) {
	fails := func(text string) value.Error { return value.Error("operator " + text) }
	check(t, []test{
		{"contains", each(binary("abc", "contains", "b"), binary("abc", "contains", "x"), binary("abc", "contains", "")), list{true, false, true}},
		{"startsWith", each(binary("abc", "startsWith", "ab"), binary("abc", "startsWith", "b"), binary("a", "startsWith", "ab")), list{true, false, false}},
		{"endsWith", each(binary("abc", "endsWith", "bc"), binary("abc", "endsWith", "b"), binary("a", "endsWith", "ba")), list{true, false, false}},
		{"matches", each(binary("x:1", "matches", "^x:[0-9]+$"), binary("y:2", "matches", "^x:[0-9]+$"), binary("Failed", "matches", "ail"), binary("x\ny", "matches", "x.y"), binary("x\ny", "matches", "(?s)x.y")), list{true, false, true, false, true}},
		{"string operators with nil", each(binary(nil, "contains", "x"), binary("x", "startsWith", nil), binary(nil, "endsWith", nil), binary(nil, "matches", "^$"), binary("x", "matches", nil)), list{false, false, false, false, false}},
		{"the functions of the same meaning", each(call("hasPrefix", "abc", "ab"), call("hasSuffix", "abc", "bc"), call("hasPrefix", "a", "ab"), call("hasSuffix", "abc", "b")), list{true, true, false, false}},
		{"hasPrefix of nil is as startsWith", each(call("hasPrefix", nil, "a"), call("hasSuffix", "a", nil)), list{false, false}},
		{"a string operator on a number", binary(3, "contains", "3"), fails(`"contains" needs two strings, not an int and a string`)},
		{"with a number", binary("3", "startsWith", 3), fails(`"startsWith" needs two strings, not a string and an int`)},
		{"on nil with a number", binary(nil, "endsWith", 3), fails(`"endsWith" needs two strings, not nil and an int`)},
		{"as a function", each(call("hasPrefix", list{}, "a"), call("hasSuffix", "a", dict{})), list{fails(`"startsWith" needs two strings, not a list and a string`), fails(`"endsWith" needs two strings, not a string and a map`)}},
		{"matches on a list", binary(list{"a"}, "matches", "a"), fails(`"matches" needs two strings, not a list and a string`)},
		{"a pattern from the object that is none", binary("a", "matches", "(Pod"), value.Error(`"matches" cannot use its pattern, which is wrong: missing closing )`)},
		{"a pattern too large when written out, made at run time", binary("a", "matches", "(?:x{1000}){1000}"), value.Error(`"matches" cannot use its pattern, which is wrong: invalid repeat count`)},
		{"a pattern too long, made at run time", binary("a", "matches", strings.Repeat("a", 1<<20)), value.Error(`"matches" cannot use its pattern, which is longer than 1024 bytes`)},
	})
}

func TestPattern(t *testing.T) {
	large := "the pattern is too large once its repetitions are written out"
	for _, test := range []struct{ why, text, want string }{
		{"none", "", ""},
		{"as long as it may be", strings.Repeat("a", 1024), ""},
		{"longer", strings.Repeat("a", 1025), "the pattern is longer than 1024 bytes"},
		{"a bracket that is open", "(a", `the pattern is wrong: missing closing ): "(a"`},
		{"a part that is long and of several lines", "(?i)\n" + strings.Repeat("(", 500), `the pattern is wrong: missing closing ): "(?i) ` + strings.Repeat("(", 59) + `…"`},
		{"a repetition that Go refuses", "a{1001}", `the pattern is wrong: invalid repeat count: "{1001}"`},
		{"what Perl has and Go has not", `(?=a)`, "the pattern is wrong: invalid or unsupported Perl syntax: \"(?=\""},
		{"a repetition written out", "(?:ab){900}", ""},
		{"one that is too large", "(?:abcde){999}", large},
		{"large classes, repeated", strings.Repeat(`[\pL]{900}`, 50), large},
		{"optional parts", "(?:(a?b?c){30}){30}", large},
		{"repetitions without an end", "(?:(?:a*b+c){30,}){30}", large},
	} {
		re, err := value.CompilePattern(test.text)
		if (err != nil) != (test.want != "") || err != nil && err.Error() != test.want || (re == nil) != (err != nil) {
			t.Errorf("%s: %v, want %q", test.why, err, test.want)
		}
	}
}

func TestMatch(t *testing.T) {
	re, err := value.CompilePattern("^a+$")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ v, want any }{
		{"aa", true},
		{"ab", false},
		{nil, false},
		{int64(1), value.Error(`operator "matches" needs two strings, not an int and a string`)},
		{list{"a"}, value.Error(`operator "matches" needs two strings, not a list and a string`)},
		{strings.Repeat("a", 8<<20), value.ErrSteps},
	} {
		got, err := meter().Match(test.v, re)
		if err != nil {
			got = err
		}
		if got != test.want {
			t.Errorf("%.20v: %v, want %v", test.v, got, test.want)
		}
	}
}
