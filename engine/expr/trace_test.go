package expr

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrace(t *testing.T) {
	for _, c := range []struct {
		why, text, object string
		want              string // a line per part
	}{
		{"operands", `object.a == 1 and not object.b`, `{"a":1}`, `
0 object.a == 1 and not object.b: true
  0 object.a == 1: true
    0 object.a: 1
  18 not object.b: true
    22 object.b: null`},
		{"what is not needed", `object.a and upper(object.b) == "X"`, `{}`, `
0 object.a and upper(object.b) == "X": false
  0 object.a: null
  13 upper(object.b) == "X": -`},
		{"a condition", `object.a > 1 ? object.b : object.c`, `{"a":2,"b":"x"}`, `
0 object.a > 1 ? object.b : object.c: "x"
  0 object.a > 1: true
    0 object.a: 2
  15 object.b: "x"
  26 object.c: -`},
		{"a chain of comparisons", `1 < object.a < 3`, `{"a":2}`, `
0 1 < object.a && object.a < 3: true
  0 1 < object.a: true
    4 object.a: 2
  4 object.a < 3: true
    4 object.a: 2`},
		{"elements", `any(object.l, .x > 1)`, `{"l":[{"x":1},{"x":2},{"x":3}]}`, `
0 any(object.l, .x > 1): true
  4 object.l: [{"x":1},{"x":2},{"x":3}]
  14 .x > 1 [0]: false
    14 .x: 1
  14 .x > 1 [1]: true
    14 .x: 2`},
		{"from the end", `findLast(object.l, # == 2)`, `{"l":[2,1]}`, `
0 findLast(object.l, # == 2): 2
  9 object.l: [2,1]
  19 # == 2 [0]: true
    19 #: 2
  19 # == 2 [1]: false
    19 #: 1`},
		{"bodies of any kind", `map(object.l, ({a: .x, b: 1}))`, `{"l":[{"x":1}]}`, `
0 map(object.l, {a: .x, b: 1}): [{"a":1,"b":1}]
  4 object.l: [{"x":1}]
  15 {a: .x, b: 1} [0]: {"a":1,"b":1}
    19 .x: 1`},
		{"many elements", `count(object.l, #)`, `{"l":[true,true,false,true,true,true,true,true,true,true,true,false,true]}`, `
0 count(object.l, #): 11
  6 object.l: [true,true,false,true,true,true,true,true,true,true,true,false,true]
  16 # [0]: true
  16 # [1]: true
  16 # [2]: false
  16 # [3]: true
  16 # [4]: true
  16 # [5]: true
  16 # [6]: true
  16 # [7]: true
  16 # [8]: true
  16 # [9]: true
  … 3 more, 2 true`},
		{"predicates in each other", `all(object.l, any(#, # == 1))`, `{"l":[[1],[2]]}`, `
0 all(object.l, any(#, # == 1)): false
  4 object.l: [[1],[2]]
  14 any(#, # == 1) [0]: true
    18 #: [1]
    21 # == 1 [0]: true
      21 #: 1
  14 any(#, # == 1) [1]: false
    18 #: [2]
    21 # == 1 [0]: false
      21 #: 2`},
		{"the place of an error", `int(object.a) > 1 or true`, `{"a":"x"}`, `
0 int(object.a) > 1 or true: "int" cannot parse its argument
  0 int(object.a) > 1: "int" cannot parse its argument
    0 int(object.a): "int" cannot parse its argument
      4 object.a: "x"`},
		{"a constant", `1 + 1`, `{}`, "\n0 1 + 1: 2"},
		{"a path", `object.l[0].a["b"]`, `{"l":[{"a":{"b":1}}]}`, "\n0 object.l[0].a.b: 1"},
		{"a variable", `let x = object.a; x + 1`, `{"a":1}`, `
4 let x = object.a; x + 1: 2
  8 object.a: 1
  18 x + 1: 2
    18 x: 1`},
	} {
		t.Run(c.why, func(t *testing.T) {
			p, err := Compile(c.text, Options{Scope: Payload, Trace: true})
			if err != nil {
				t.Fatal(err)
			}
			env := &Env{Object: tree(t, c.object)}
			whole, err := p.Trace(env)
			want, failure := mustCompile(t, c.text, payload).Value(env)
			if fmt.Sprint(err) != fmt.Sprint(failure) {
				t.Errorf("it fails with %v, untraced with %v", err, failure)
			}
			if diff := cmp.Diff(want, whole.Value); diff != "" {
				t.Errorf("(-untraced +traced)\n%s", diff)
			}
			var b strings.Builder
			writePart(&b, whole, 0)
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n")+"\n", b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func writePart(b *strings.Builder, p Part, depth int) {
	fmt.Fprintf(b, "%s%d %s", strings.Repeat("  ", depth), p.Offset, p.Text)
	if p.Element >= 0 {
		fmt.Fprintf(b, " [%d]", p.Element)
	}
	switch v, err := json.Marshal(p.Value); {
	case !p.Evaluated:
		b.WriteString(": -\n")
	case p.Err != nil:
		fmt.Fprintf(b, ": %v\n", p.Err)
	default:
		fmt.Fprintf(b, ": %s\n", v)
		_ = err
	}
	for _, inner := range p.Parts {
		writePart(b, inner, depth+1)
	}
	if p.More > 0 {
		fmt.Fprintf(b, "%s… %d more, %d true\n", strings.Repeat("  ", depth+1), p.More, p.MoreTrue)
	}
}

// What is traced gives what it gives otherwise.
func TestTracedDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(doc)
	env := &Env{Object: tree(t, string(sample[1])), Event: "added", Now: testTime}
	examples := regexp.MustCompile("(?m)^\\| `(.*)` \\| `.*` \\|$").FindAllStringSubmatch(string(doc), -1)
	if len(examples) < 80 {
		t.Errorf("only %d examples found", len(examples))
	}
	for _, example := range examples {
		text := strings.ReplaceAll(example[1], `\|`, "|")
		p, err := Compile(text, Options{Scope: Payload, Trace: true})
		if err != nil {
			t.Fatal(err)
		}
		want, err := mustCompile(t, text, payload).Value(env)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Trace(env)
		if diff := cmp.Diff(want, got.Value); diff != "" || err != nil {
			t.Errorf("%s: %v (-untraced +traced)\n%s", text, err, diff)
		}
	}
}

// What a trace keeps is bounded; the evaluation goes on beyond that.
func TestTraceIsBounded(t *testing.T) {
	p, err := Compile(`count(1..40, count(1..40, #index + # > object.n) > 0)`, Options{Scope: Payload, Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := p.Trace(&Env{Object: tree(t, `{"n":1}`)})
	if err != nil || whole.Value != int64(40) {
		t.Fatalf("it gives %v, %v", whole.Value, err)
	}
	var count func(p Part) int
	count = func(p Part) int {
		n := 1
		for _, inner := range p.Parts {
			n += count(inner)
		}
		return n
	}
	if n := count(whole); n > 2*maxTraced {
		t.Errorf("the trace has %d parts", n)
	}
}
