package value_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubernetes "k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/engine/expr/value"
)

func TestJSON(t *testing.T) {
	notJSON := none("fromJSON")
	check(t, []test{
		{"toJSON is compact, and sorted", call("toJSON", dict{"b": list{1, "<"}, "a": at("2026-01-02T05:00:00Z")}), `{"a":"2026-01-02T05:00:00Z","b":[1,"<"]}`},
		{"every kind", call("toJSON", list{nil, true, 1, 1.5, "é\n", list{}, dict{}, hour, q("1024Mi")}), `[null,true,1,1.5,"é\n",[],{},"1h0m0s","1Gi"]`},
		{"fromJSON keeps integers", each(call("fromJSON", "9007199254740993"), call("fromJSON", "1.0"), call("fromJSON", "1e3"), call("fromJSON", "9223372036854775808"), call("fromJSON", "-0")), list{9007199254740993, 1.0, 1000.0, 9223372036854775808.0, 0}},
		{"every kind back", call("fromJSON", ` {"a": [null, true, 1, 1.5, "\u00e9", [], {}]} `), dict{"a": list{nil, true, 1, 1.5, "é", list{}, dict{}}}},
		{"the last of several entries", call("fromJSON", `{"a":1,"a":2}`), dict{"a": 2}},
		{"JSON that is none", each(call("fromJSON", "Pod"), call("fromJSON", ""), call("fromJSON", "1 2"), call("fromJSON", "[1,]"), call("fromJSON", `{"a"}`), call("fromJSON", `{1:2}`), call("fromJSON", "[1"), call("fromJSON", `{"a":1`), call("fromJSON", "]"), call("fromJSON", "[}")),
			list{notJSON, notJSON, notJSON, notJSON, notJSON, notJSON, notJSON, notJSON, notJSON, notJSON}},
		{"of the wrong kind", call("fromJSON", list{}), wrong("fromJSON", "a list")},
		{"a number that is too large", call("toJSON", list{call("fromJSON", "1e999").value}), value.Error("a number is too large for JSON")},
		{"calculating with it", each(binary(call("fromJSON", "1e999").value, "-", 1), call("mean", call("fromJSON", "-1e999").value)), list{value.ErrOverflow, value.ErrOverflow}},
		{"comparing it", each(binary(call("fromJSON", "1e999").value, ">", 1), binary(call("fromJSON", "1e999").value, "==", call("fromJSON", "1e999").value)), list{true, true}},
		{"a time out of range, deep within", call("toJSON", dict{"a": list{at("0000-01-01T00:00:00+01:00")}}), value.Error("a time is out of range")},
		{"an invalid value", call("toJSON", list{struct{}{}}), value.Error("an unknown cannot be encoded as JSON")},
	})
}

func TestHostileJSON(t *testing.T) {
	check(t, []test{
		{"deep JSON", each(call("fromJSON", strings.Repeat("[", 5000)), call("fromJSON", strings.Repeat(`{"a":`, 5000))), list{value.ErrDepth, value.ErrDepth}},
		{"JSON of many values", call("fromJSON", "["+strings.Repeat("0,", 1000000)+"0]"), value.ErrSteps},
		{"JSON of many large values", call("fromJSON", "["+strings.Repeat(`"`+strings.Repeat("a", 100)+`",`, 70000)+"0]"), value.ErrSteps},
		{"JSON of many maps", call("fromJSON", "["+strings.Repeat("{},", 90000)+"0]"), value.ErrMemory},
		{"a long text", call("fromJSON", `"`+strings.Repeat("a", 32<<20)+`"`), value.ErrSteps},
		{"a text that is longer when it is written", call("toJSON", strings.Repeat("\x00", 2<<20)), value.ErrMemory},
		{"a value that is small but huge when it is written out", call("toJSON", shared{doubled(60)}), value.ErrMemory},
		{"one that nests deep", call("toJSON", deep(1001)), value.ErrDepth},
	})
	for n, want := range map[int]error{1000: nil, 1001: value.ErrDepth} {
		text := strings.Repeat("[", n) + "1" + strings.Repeat("]", n)
		v := call("fromJSON", text).value
		if err, _ := v.(error); err != want {
			t.Errorf("JSON that nests %d deep: %v, want %v", n, err, want)
		}
		if back := call("toJSON", deep(n)).value; want == nil && back != text {
			t.Errorf("a value that nests %d deep becomes %.100v", n, back)
		}
	}
}

// deep returns a list that nests n deep. doubled returns one that is 2^n times as large as its
// parts.
func deep(n int) any {
	v := any(int64(1))
	for range n {
		v = list{v}
	}
	return v
}

func doubled(n int) any {
	v := any("a")
	for range n {
		v = list{v, v}
	}
	return v
}

// Encodable copies only what it changes, and charges the memory of the copies.
func TestEncodable(t *testing.T) {
	plain := dict{"a": list{int64(1), "x"}}
	mixed := dict{"plain": plain, "list": list{plain, hour}, "age": hour}
	m := meter()
	v, err := m.Encodable(mixed)
	if diff := cmp.Diff(dict{"plain": plain, "list": list{plain, "1h0m0s"}, "age": "1h0m0s"}, v); err != nil || diff != "" {
		t.Fatalf("%v, (-want +got)\n%s", err, diff)
	}
	plain["seen"] = true
	out := v.(dict)
	if out["plain"].(dict)["seen"] != true || out["list"].(list)[0].(dict)["seen"] != true {
		t.Error("Encodable copied a map that has nothing to change")
	}
	if mixed["age"] != hour || mixed["list"].(list)[1] != hour {
		t.Errorf("Encodable changed its argument to %v", mixed)
	}
	for _, v := range []any{list{hour}, dict{"a": hour}, list{list{}, list{strings.Repeat("a", 1000)}}, dict{strings.Repeat("a", 1000): nil}} {
		m := &value.Meter{Steps: value.MaxSteps, Bytes: value.MaxMemory}
		if _, err := m.Encodable(v); err != nil {
			t.Fatal(err)
		}
		needs := value.MaxMemory - m.Bytes
		for bytes := range needs {
			if _, err := (&value.Meter{Steps: value.MaxSteps, Bytes: bytes}).Encodable(v); err != value.ErrMemory {
				t.Fatalf("%.100v takes %d bytes, but with %d: %v", v, needs, bytes, err)
			}
		}
	}
}

var documents = []string{
	`null`, `true`, `[]`, `{}`, `""`, `"a\u0000\ud800é"`, `0`, `-0`, `1`, `-1`, `1.0`, `1e3`, `1E-3`, `0.1`, `9007199254740993`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`, `1e999`, `-1e999`, `1e-999`,
	`{"a":{"b":[1,2.5,"x",null,false]},"":1}`, `{"a":1,"a":2}`, `{"a":{"b":1},"a":{"c":1}}`, ` [ 1 , 2 ] `, "\t\n\r1", "\"\xff\"", `"\/"`, "{\"\xff\":1}",
	``, ` `, `nul`, `nulll`, `[`, `]`, `{`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{,}`, `{a:1}`, `{1:1}`, `[}`, `{]`, `1 2`, `01`, `+1`, `.5`, `1.`, `0x1`, `'a'`, "\"\n\"", `"\x"`, `[1]]`, `:`, `,`, "\ufeff1", `// 1`, `NaN`,
}

// checkJSON compares what fromJSON makes of text with what Kubernetes makes of it. Numbers that a
// float64 cannot hold are infinite here.
func checkJSON(t *testing.T, text string) {
	t.Helper()
	var want any
	err := kubernetes.Unmarshal([]byte(text), &want)
	got := call("fromJSON", text).value
	if failure, failed := got.(error); failed {
		if err == nil && failure == none("fromJSON") {
			t.Errorf("%q is %v in Kubernetes, but here: %v", text, want, failure)
		}
		return
	}
	if infinite(got) {
		return
	}
	if err != nil {
		t.Errorf("%q is %v here, but not in Kubernetes: %v", text, got, err)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q: (-Kubernetes +here)\n%s", text, diff)
	}
	again := call("toJSON", got).value
	if _, failed := again.(error); failed {
		if again != value.ErrMemory && again != value.ErrSteps {
			t.Errorf("%q: %v", text, again)
		}
		return
	}
	if same := binary(list{got}, "==", list{call("fromJSON", again).value}).value; same != true && same != value.ErrSteps {
		t.Errorf("%q becomes %s, which is not equal: %v", text, again, same)
	}
}

func infinite(v any) bool {
	_, err := json.Marshal(v)
	var unsupported *json.UnsupportedValueError
	return errors.As(err, &unsupported)
}

func TestJSONOfKubernetes(t *testing.T) {
	for _, text := range documents {
		checkJSON(t, text)
	}
	if !infinite(math.Inf(1)) || infinite(1.5) {
		t.Error("infinite cannot tell")
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range documents {
		f.Add(text)
	}
	f.Fuzz(checkJSON)
}

// A value is JSON as encoding/json writes it, but for &, < and >, which stay.
func TestToJSONIsStandard(t *testing.T) {
	for _, v := range []any{true, "<&>\u2028\x01\xff", 1e20, 1e21, 1e-7, math.Copysign(0, -1), int64(math.MinInt64), list{list{}, nil}, dict{"b": 1.5, "a": dict{}}} {
		var want strings.Builder
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		if got := call("toJSON", v).value; fmt.Sprintln(got) != want.String() {
			t.Errorf("%v becomes %v, want %s", v, got, &want)
		}
	}
	if got := call("toJSON", 90*time.Second).value; got != `"1m30s"` {
		t.Errorf("a duration becomes %v", got)
	}
}
