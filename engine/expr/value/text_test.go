package value_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/expr/value"
)

func wrong(name, kind string) value.Error { return value.Error(`"` + name + `" cannot take ` + kind) }

func TestText(t *testing.T) {
	check(t, []test{
		{"upper and lower", each(call("upper", "aé"), call("lower", "AÉ"), call("upper", "äß"), call("lower", "")), list{"AÉ", "aé", "Äß", ""}},
		{"trim", each(call("trim", "  x "), call("trim", "\t\nx"), call("trim", "xxaxx", "x"), call("trim", "abcba", "ab"), call("trim", " a ", "")), list{"x", "x", "a", "c", " a "}},
		{"trimPrefix and trimSuffix", each(call("trimPrefix", "v1", "v"), call("trimSuffix", "a.yaml", ".yaml"), call("trimPrefix", "v1", "1"), call("trimPrefix", "  a"), call("trimSuffix", "a  ")), list{"1", "a", "v1", " a", "a "}},
		{"repeat", each(call("repeat", "ab", 3), call("repeat", "ab", 0), call("repeat", "a", 2.9), call("repeat", "", math.MaxInt64)), list{"ababab", "", "aa", ""}},
		{"replace", each(call("replace", "a-b-c", "-", "+", 1), call("replace", "a-b-c", "-", "+"), call("replace", "aaa", "a", "b", -1), call("replace", "abc", "", "-"), call("replace", "aaa", "a", "", 2), call("replace", "a", "a", "b", 0)),
			list{"a+b-c", "a+b+c", "bbb", "-a-b-c-", "a", "a"}},
		{"len counts characters", each(call("len", "aéß"), call("len", ""), call("len", "a\xff")), list{3, 0, 2}},
		{"indexOf and lastIndexOf count characters", each(call("indexOf", "aéß", "ß"), call("lastIndexOf", "äbäb", "äb"), call("indexOf", "a", "b"), call("lastIndexOf", "a", "b"), call("indexOf", "a", ""), call("lastIndexOf", "aé", "")), list{2, 2, -1, -1, 0, 2}},
		{"split", each(call("split", "a,b,c", ","), call("split", "a,b,c", ",", 2), call("split", "a,b,c", ",", -1), call("split", "", ","), call("split", "äb", ""), call("split", "a,b", ",", 2.5)),
			list{list{"a", "b", "c"}, list{"a", "b,c"}, list{"a", "b", "c"}, list{""}, list{"ä", "b"}, list{"a", "b"}}},
		{"split into none is an empty list, not nil", call("split", "a,b", ",", 0), list{}},
		{"splitAfter", each(call("splitAfter", "a,b", ","), call("splitAfter", "a,b,c", ",", 2)), list{list{"a,", "b"}, list{"a,", "b,c"}}},
		{"join", each(call("join", list{"a", "b"}), call("join", list{"a", "b"}, "/"), call("join", list{}, ","), call("join", list{"a", nil, "b"}, "-"), call("join", list{nil})), list{"ab", "a/b", "", "a-b", ""}},
		{"string renders scalars", each(call("string", 1), call("string", 1.5), call("string", true), call("string", at("2026-01-02T05:00:00Z")), call("string", 90*time.Minute), call("string", q("1024Mi")), call("string", "a")),
			list{"1", "1.5", "true", "2026-01-02T05:00:00Z", "1h30m0s", "1Gi", "a"}},
		{"numbers at their bounds", each(call("string", math.MinInt64), call("string", 1e21), call("string", 0.00001), call("string", 1e20)), list{"-9223372036854775808", "1e+21", "1e-05", "1e+20"}},
		{"times in UTC, to the nanosecond", call("string", at("2026-01-02T03:04:05.123456789+02:00")), "2026-01-02T01:04:05.123456789Z"},

		{"a function of the wrong kind", each(call("upper", 3), call("lower", true), call("trim", list{}), call("trim", "a", 1), call("trimPrefix", dict{}), call("trimSuffix", 1, "a")),
			list{wrong("upper", "an int"), wrong("lower", "a bool"), wrong("trim", "a list"), wrong("trim", "an int"), wrong("trimPrefix", "a map"), wrong("trimSuffix", "an int")}},
		{"searching", each(call("indexOf", 1, "a"), call("lastIndexOf", "a", 1)), list{wrong("indexOf", "an int"), wrong("lastIndexOf", "an int")}},
		{"splitting", each(call("split", 1, ","), call("splitAfter", "a", 1), call("split", "a", ",", "2"), call("split", "a", ",", 1e300)), list{wrong("split", "an int"), wrong("splitAfter", "an int"), wrong("split", "a string"), wrong("split", "a float")}},
		{"replacing", each(call("replace", "a", 1, "b"), call("replace", "a", "b", "c", "d")), list{wrong("replace", "an int"), wrong("replace", "a string")}},
		{"repeating", each(call("repeat", 1, 2), call("repeat", "a", "b"), call("repeat", "a", -1)), list{wrong("repeat", "an int"), wrong("repeat", "a string"), value.Error(`"repeat" cannot take a negative number`)}},
		{"joining", each(call("join", "a"), call("join", list{"a"}, 1), call("join", list{"a", 1}), call("join", list{list{}})),
			list{wrong("join", "a string"), wrong("join", "an int"), value.Error(`"join" cannot take a list with an int in it`), value.Error(`"join" cannot take a list with a list in it`)}},
		{"string of what has parts", each(call("string", list{}), call("string", dict{})), list{wrong("string", "a list"), wrong("string", "a map")}},
		{"a time that JSON cannot hold", each(call("string", binary(at("9999-12-31T00:00:00Z"), "+", 3000*hour).value), call("string", at("0000-01-01T00:00:00+01:00"))), list{value.Error("a time is out of range"), value.Error("a time is out of range")}},
		{"the first and the last time that it can", each(call("string", at("0000-01-01T00:00:00Z")), call("string", at("9999-12-31T23:59:59.999999999Z"))), list{"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"}},
	})
}

// Whoever asks for a text says in whose name.
func TestTextOfAnIndex(t *testing.T) {
	if got, err := meter().Text("groupBy", int64(3)); got != "3" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := meter().Text("groupBy", list{}); err != wrong("groupBy", "a list") {
		t.Errorf("got %v", err)
	}
}

func TestBase64(t *testing.T) {
	none := value.Error(`"fromBase64" cannot parse its argument`)
	check(t, []test{
		{"base64", each(call("toBase64", "hi"), call("fromBase64", "aGk="), call("toBase64", ""), call("fromBase64", "")), list{"aGk=", "hi", "", ""}},
		{"bytes that are not text", each(call("toBase64", "\xff\x00"), call("fromBase64", "/wA=")), list{"/wA=", "\xff\x00"}},
		{"what is none", each(call("fromBase64", "aGk"), call("fromBase64", "_wA="), call("fromBase64", "a b=")), list{none, none, none}},
		{"of the wrong kind", each(call("toBase64", 1), call("fromBase64", list{})), list{wrong("toBase64", "an int"), wrong("fromBase64", "a list")}},
	})
	// A Secret's data is read as Kubernetes reads it.
	for _, text := range []string{"aGk=", "aGk", "/+8=", "_-8=", "aG\nk=", "aGk=\r\n", "aGk= ", "=", "====", "YQ==", "YR==", "YQ=="} {
		var secret struct {
			Data map[string][]byte
		}
		quoted, _ := json.Marshal(text)
		err := json.Unmarshal([]byte(`{"data":{"x":`+string(quoted)+`}}`), &secret)
		got := call("fromBase64", text).value
		if _, failed := got.(error); failed != (err != nil) || err == nil && got != string(secret.Data["x"]) {
			t.Errorf("%q gives %v, but in a Secret %q, %v", text, got, secret.Data["x"], err)
		}
	}
}

func TestHostileStrings(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	huge := strings.Repeat("a", 32<<20)
	check(t, []test{
		{"repeated", call("repeat", "a", 1000000000), value.ErrMemory},
		{"repeated so often that the length overflows", call("repeat", long, math.MaxInt64), value.ErrMemory},
		{"as long as memory lasts", call("len", call("repeat", "a", value.MaxMemory).value), value.MaxMemory},
		{"and one more", call("repeat", "a", value.MaxMemory+1), value.ErrMemory},
		{"joined to itself", binary(huge, "+", ""), value.ErrMemory},
		{"split into letters", call("split", long, ""), value.ErrMemory},
		{"split into few of them", call("split", long, "", 2), list{"a", long[1:]}},
		{"replaced by more", call("replace", long, "a", long), value.ErrMemory},
		{"nothing replaced by something", call("replace", long, "", "bbbbbbbbbbbbbbbb"), value.ErrMemory},
		{"upper case of what is too long", each(call("upper", huge), call("lower", huge)), list{value.ErrMemory, value.ErrMemory}},
		{"base64 of what is too long", each(call("toBase64", huge), call("fromBase64", huge)), list{value.ErrMemory, value.ErrMemory}},
		{"measured", call("len", huge), value.ErrSteps},
		{"searched", each(call("indexOf", huge, "b"), call("lastIndexOf", huge, "b"), binary(huge, "contains", "b"), call("split", huge, "b"), call("replace", huge, "b", "")), list{value.ErrSteps, value.ErrSteps, value.ErrSteps, value.ErrSteps, value.ErrSteps}},
		{"trimmed by a large set", call("trim", long, "bcdefghijklmnopqrstuvwxyza"), value.ErrSteps},
		{"trimmed", call("trimPrefix", huge, "b"), value.ErrSteps},
		{"compared", each(binary(huge, "<", huge), binary(huge, "==", huge)), list{value.ErrSteps, value.ErrSteps}},
		{"joined", call("join", list{long, long, long, long, long, long, long, long}), value.ErrMemory},
		{"joined by a long separator", call("join", list{"", "", "", "", "", "", "", "", ""}, long), value.ErrMemory},
	})
}
