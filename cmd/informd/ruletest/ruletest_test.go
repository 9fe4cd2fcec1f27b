package ruletest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/config"
)

func TestEventDifferences(t *testing.T) {
	const got = `{"rule":"r","event":"added","name":"a","attempt":1,
		"items":[{"event":"added","name":"b","namespace":"shop","payload":{"n":1,"s":"x"}},{"event":"added","name":"a"}],
		"payload":{"n":1,"f":2.50,"big":9007199254740993,"s":"x","list":[1,{"a":1,"b":2}],"none":null},"actions":[{"delete":{"name":"a"}}]}`
	for _, c := range []struct {
		why, want string
		exact     bool
		paths     string // of the differences
	}{
		{"nothing is asked", `{}`, false, ""},
		{"a part", `{"payload":{"n":1,"list":[1,{"b":2}]}}`, false, ""},
		{"other numbers", `{"payload":{"n":1.0,"f":2.5}}`, false, ""},
		{"numbers that a float cannot tell apart", `{"payload":{"big":9007199254740992}}`, false, "payload.big"},
		{"a number is no text", `{"payload":{"n":"1"}}`, false, "payload.n"},
		{"a number too long to compute with", `{"payload":{"n":1e999999999}}`, false, "payload.n"},
		{"null is absent", `{"payload":{"none":null,"other":null}}`, false, ""},
		{"null is not a value", `{"payload":{"n":null}}`, false, "payload.n"},
		{"a longer list", `{"payload":{"list":[1,{"b":2},3]}}`, false, "payload.list"},
		{"a mapping is no list", `{"payload":{"list":{}}}`, false, "payload.list"},
		{"a list is no mapping", `{"payload":[]}`, false, "payload"},
		{"all differences", `{"event":"deleted","payload":{"n":2,"s":"y"}}`, false, "event payload.n payload.s"},
		{"a name that needs quotes", `{"payload":{"a/b":1}}`, false, `payload["a/b"]`},
		{"no namespace", `{"namespace":""}`, false, ""},
		{"a namespace", `{"namespace":"shop"}`, false, "namespace"},
		{"exact, a part", `{"payload":{"n":1,"f":2.5,"big":9007199254740993,"s":"x","list":[1,{"a":1}]}}`, true, "payload.list[1].b"},
		{"exact, the whole", `{"payload":{"n":1,"f":2.5,"big":9007199254740993,"s":"x","list":[1,{"a":1,"b":2}]}}`, true, ""},
		{"no actions", `{"actions":[]}`, false, "actions"},
		{"how many items", `{"items":[{},{}]}`, false, ""},
		{"fewer items", `{"items":[{}]}`, false, "items"},
		{"no items", `{"items":[]}`, false, "items"},
		{"parts of items", `{"items":[{"name":"b","payload":{"n":1}},{"namespace":""}]}`, false, ""},
		{"parts of items that differ", `{"items":[{"name":"a","payload":{"n":2}},{"namespace":"shop"}]}`, false,
			"items[0].name items[0].payload.n items[1].namespace"},
		{"exact, items", `{"items":[{"name":"b","payload":{"n":1}},{}]}`, true, "items[0].payload.s"},
		{"a dead letter", `{"dead":"x"}`, false, "dead"},
	} {
		t.Run(c.why, func(t *testing.T) {
			var paths []string
			for _, d := range eventDifferences(decode(json.RawMessage(c.want)).(map[string]any), decode(json.RawMessage(got)).(map[string]any), c.exact) {
				paths = append(paths, d.Path)
			}
			if got := strings.Join(paths, " "); got != c.paths {
				t.Errorf("differences %q, want %q", got, c.paths)
			}
		})
	}
}

func TestDeadLettersAreExpectedAsSuch(t *testing.T) {
	dead := map[string]any{"rule": "r", "dead": "no such owner"}
	for _, c := range []struct {
		want  map[string]any
		exact bool
		ok    bool
	}{
		{map[string]any{"rule": "r"}, false, false},
		{map[string]any{"dead": "such"}, false, true},
		{map[string]any{"dead": "such"}, true, false},
		{map[string]any{"dead": "no such owner"}, true, true},
		{map[string]any{"dead": "other"}, false, false},
	} {
		if ok := len(eventDifferences(c.want, dead, c.exact)) == 0; ok != c.ok {
			t.Errorf("%v, exact %v: %v", c.want, c.exact, ok)
		}
	}
}

// A test that is written again has the fields of items that it had. A test without items gets them
// where there are several.
func TestExpectedItems(t *testing.T) {
	item := func(name string) any {
		return map[string]any{"event": "added", "name": name, "payload": map[string]any{"m": json.Number("1"), "s": name}, "object": "large"}
	}
	for _, c := range []struct {
		why   string
		items []any
		shape string
		want  string
	}{
		{"several", []any{item("a"), item("b")}, `{}`,
			`[{event: added, name: a, payload: {m: 1, s: a}}, {event: added, name: b, payload: {m: 1, s: b}}]`},
		{"one", []any{item("a")}, `{}`, "null"},
		{"one, which the test has", []any{item("a")}, `{"items":[{"name":"x"}]}`, `[{name: a}]`},
		{"the shape of each", []any{item("a"), item("b")}, `{"items":[{"payload":{"s":"x"}},{}]}`,
			`[{payload: {s: a}}, {event: added, name: b, payload: {m: 1, s: b}}]`},
		{"another number of them", []any{item("a")}, `{"items":[{"name":"x"},{}]}`,
			`[{event: added, name: a, payload: {m: 1, s: a}}]`},
	} {
		t.Run(c.why, func(t *testing.T) {
			shape, _ := decode(json.RawMessage(c.shape)).(map[string]any)
			got := came{fields: map[string]any{"name": "a", "items": c.items}}.expected(shape)
			if text := flow(got["items"]); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// The report for CI has the elements and attributes that junit-10.xsd of Jenkins allows, and those that
// it requires.
func TestJUnitFitsTheSchemaOfJenkins(t *testing.T) {
	type names = []string
	allowed := map[string]struct{ required, optional, elements names }{
		"testsuites": {nil, names{"name", "time", "tests", "failures", "errors"}, names{"testsuite"}},
		"testsuite": {
			names{"name", "tests", "failures", "errors"},
			names{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "version"},
			names{"testsuite", "properties", "testcase", "system-out", "system-err"},
		},
		"testcase": {
			names{"name"}, names{"time", "classname", "group"},
			names{"skipped", "error", "failure", "system-out", "system-err"},
		},
		"failure":    {nil, names{"type", "message"}, nil},
		"system-err": {},
	}
	var out bytes.Buffer
	results := []*result{
		{test: &config.Test{Name: "passes"}, took: 1234567 * time.Microsecond},
		{test: &config.Test{Name: "fails"}, log: "level=WARN <x>\n", failures: []failure{{message: "a < b"}}},
	}
	if err := (junitReport{&out}).end(results); err != nil {
		t.Fatal(err)
	}
	var within names
	seen := make(map[string]bool)
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name := e.Name.Local
			may, ok := allowed[name]
			if n := len(within); !ok || n > 0 && !slices.Contains(allowed[within[n-1]].elements, name) {
				t.Errorf("%s is not allowed within %v", name, within)
			}
			seen[name] = true
			var attributes names
			for _, a := range e.Attr {
				attributes = append(attributes, a.Name.Local)
				if !slices.Contains(slices.Concat(may.required, may.optional), a.Name.Local) {
					t.Errorf("%s must not have the attribute %s", name, a.Name.Local)
				}
				if form := regexp.MustCompile(`^[0-9]{0,3}(\.[0-9]{0,3})?$`); a.Name.Local == "time" && !form.MatchString(a.Value) {
					t.Errorf("time is %q", a.Value)
				}
			}
			for _, required := range may.required {
				if !slices.Contains(attributes, required) {
					t.Errorf("%s lacks the attribute %s", name, required)
				}
			}
			within = append(within, name)
		case xml.EndElement:
			within = within[:len(within)-1]
		}
	}
	if len(seen) != len(allowed) {
		t.Errorf("the report has only %v", slices.Sorted(maps.Keys(seen)))
	}
}

// Each test expects events by their first letters; "*" is any. What came is lane and letter.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		why, want, came string
		exact           bool
		verdict         string
	}{
		{"nothing", "", "", false, ""},
		{"in order", "a b", "1a 1b", false, ""},
		{"one object, out of order", "b a", "1a 1b", false, "reordered"},
		{"two objects, out of order", "b a", "1a 2b", false, ""},
		{"two objects, out of order, exact", "b a", "1a 2b", true, "reordered"},
		{"exact", "a b", "1a 2b", true, ""},
		{"the first of several that fit is not the right one", "* a", "1a 2b", false, ""},
		{"it must go back twice", "* * a b", "1a 1b 2c 2d", false, ""},
		{"missing", "a b", "1a", false, "missing [1]"},
		{"unexpected", "a", "1a 1b", false, "unexpected [1]"},
		{"nothing is expected", "", "1a", false, "unexpected [0]"},
		{"another one came", "a b", "1a 1c", false, "missing [1] unexpected [1] nearest map[1:1]"},
		{"as many as possible are explained", "* a", "1a 1c 1d", false, "unexpected [2]"},
	} {
		t.Run(c.why, func(t *testing.T) {
			wants, came := strings.Fields(c.want), strings.Fields(c.came)
			lanes := make([]string, len(came))
			for i := range came {
				lanes[i] = came[i][:1]
			}
			v := match(len(wants), lanes, c.exact, func(w, g int) int {
				if wants[w] == "*" || wants[w] == came[g][1:] {
					return 0
				}
				return 1
			})
			var got []string
			if len(v.missing) > 0 {
				got = append(got, fmt.Sprint("missing ", v.missing))
			}
			if len(v.unexpected) > 0 {
				got = append(got, fmt.Sprint("unexpected ", v.unexpected))
			}
			if len(v.nearest) > 0 {
				got = append(got, fmt.Sprint("nearest ", v.nearest))
			}
			if v.reordered {
				got = append(got, "reordered")
			}
			if got := strings.Join(got, " "); got != c.verdict || v.ok() != (got == "") {
				t.Errorf("%q, want %q", got, c.verdict)
			}
		})
	}
}

// A search that would take for ever ends.
func TestMatchIsBounded(t *testing.T) {
	const n = 40
	lanes := make([]string, n)
	for i := range lanes {
		lanes[i] = fmt.Sprint(i)
	}
	if v := match(n, lanes, false, func(w, g int) int { return min(1, w/(n-1)) }); v.ok() {
		t.Error("an event that fits nothing is found")
	}
}

// What --update writes is read back as it was.
func FuzzFlow(f *testing.F) {
	for _, text := range []string{
		`{"rule":"r","payload":{"a":"true","b":"1","c":" x","d":"a: b","e":"#","f":"","g":"a, b","h":"x]","i":"~"}}`,
		`{"payload":[1,-1.50,1e3,true,null,"é","\n\t\u2028\u0000","null","2026-01-02","0x1f","1_000","a/b.c-d e",".5","=","<<","-","- a"]}`,
		`{"payload":{"true":1,"1":2,"":3,"a b":4,"y":5}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, _ := decode(text).(map[string]any)
		if v == nil || !json.Valid(text) || strings.Contains(string(text), `\u0000`) {
			return
		}
		payload, ok := v["payload"]
		if !ok || payload == nil {
			return
		}
		written := flow(map[string]any{"payload": payload})
		cfg, mistakes := config.Parse([]config.File{{Path: "a_test.yaml", Data: []byte(
			"apiVersion: informd.dev/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec:\n  steps:\n  - {expect: [" + written + "]}\n")}})
		if len(mistakes) > 0 {
			if strings.Contains(mistakes.Error(), "nested") || strings.Contains(mistakes.Error(), "twice") ||
				strings.Contains(mistakes.Error(), "not allowed") || strings.Contains(mistakes.Error(), "be a string") {
				return // not everything in JSON is allowed in a manifest
			}
			t.Fatalf("%s\n%v", written, mistakes)
		}
		read := decode(cfg.Tests[0].Steps[0].Expect.Events[0].Literal())
		if want := any(map[string]any{"payload": payload}); !reflect.DeepEqual(read, want) {
			t.Errorf("%s is read as %v, want %v", written, read, want)
		}
	})
}

func TestApply(t *testing.T) {
	const text = "\ufeffa:\r\n- expect: []\r\n- expect:\r\n  - {name: a}\r\n- {expect: [{name: b}]}\r\n"
	at := func(s string) int { return strings.Index(text, s) - len("\ufeff") }
	long := strings.Repeat("x", 60)
	got := string(apply([]byte(text), []edit{
		{Extent: config.Extent{Key: at("expect: []"), Start: at("[]"), End: at("[]") + 2, Indent: 2, IsFlow: true}, events: []string{long, long}},
		{Extent: config.Extent{Key: at("expect:\r\n"), Start: at("- {name: a}"), End: at("- {name: a}") + 11, Indent: 2}},
		{Extent: config.Extent{Key: at("expect: [{"), Start: at("[{"), End: at("[{") + 11, Indent: 3, IsFlow: true, InFlow: true}, events: []string{long, long}},
	}))
	want := "\ufeffa:\r\n- expect:\r\n  - " + long + "\r\n  - " + long + "\r\n- expect: []\r\n- {expect: [" + long + ", " + long + "]}\r\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
