package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/expr/value"
)

// hostileEnv has a long string, a long list and a deep value, from which expressions can make more.
func hostileEnv(t testing.TB) *Env {
	long := strings.Repeat("a", 1<<20)
	items := strings.TrimSuffix(strings.Repeat(`{"name":"x","n":1},`, 5000), ",")
	deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
	return &Env{Object: tree(t, fmt.Sprintf(`{"text":%q,"items":[%s],"deep":%s,"huge":"1e999"}`, long, items, deep)), Now: testTime}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestNothingRunsAway(t *testing.T) {
	env := hostileEnv(t)
	steps, memory := value.ErrSteps.Error(), value.ErrMemory.Error()
	for _, test := range []struct {
		why, text string
		want      string // the failure; "any" if either budget may be the first, "" if it succeeds
	}{
		{"nested loops", `let a = 1..900; any(a, any(a, any(a, any(a, false))))`, steps},
		{"nested loops without a variable", `all(1..900, all(1..900, all(1..900, true)))`, steps},
		{"a loop for each of a list", `any(object.items, any(object.items, .n > 1))`, steps},
		{"a huge range", `1..1000000000`, memory},
		{"the hugest range", `-9223372036854775807..9223372036854775807`, memory},
		{"ranges of ranges", `map(1..1000, 1..1000)`, memory},
		{"a string repeated", `repeat("a", 1000000000)`, memory},
		{"the length of a string repeated", `len(repeat("a", 1000000000))`, memory},
		{"a string repeated so often that the length overflows", `repeat(object.text, 9223372036854775807)`, memory},
		{"a string that doubles", `let a = object.text + object.text; let b = a + a; let c = b + b; c + c`, memory},
		{"a string that doubles in a loop", `reduce(1..100, #acc + #acc, "a")`, memory},
		{"a list that doubles in a loop", `reduce(1..100, concat(#acc, #acc), [1])`, memory},
		{"a value that is small but huge when it is written out", `len(toJSON(reduce(1..60, [#acc, #acc], "a")))`, memory},
		{"the same as a result", `reduce(1..60, [#acc, #acc], "a")`, memory},
		{"the same compared", `let x = reduce(1..60, [#acc, #acc], "a"); let y = reduce(1..60, [#acc, #acc], "a"); x == y`, steps},
		{"the same flattened", `flatten(reduce(1..60, [#acc, #acc], "a"))`, "any"},
		{"a result that nests deep", `reduce(1..20000, [#acc], 1)`, value.ErrDepth.Error()},
		{"deep values compared", `reduce(1..9000, [#acc], 1) == reduce(1..9000, [#acc], 1)`, ""},
		{"deep values flattened", `flatten(reduce(1..20000, [#acc], 1))`, value.ErrDepth.Error()},
		{"deep JSON", `fromJSON(repeat("[", 5000 * object.items[0].n))`, value.ErrDepth.Error()},
		{"JSON of many values", `fromJSON("[" + repeat("0,", 1000000) + "0]")`, memory},
		{"JSON of many maps", `fromJSON("[" + repeat("{},", 90000) + "0]")`, memory},
		{"split into letters", `split(object.text, "")`, "any"},
		{"split again and again", `map(1..1000, split(object.text, "b"))`, steps},
		{"join makes more", `join(map(1..1000, object.text), "")`, memory},
		{"replace makes more", `replace(object.text, "a", object.text)`, "any"},
		{"replace nothing by something", `replace(object.text, "", "bbbbbbbbbbbbbbbb")`, "any"},
		{"upper case", `map(1..100, upper(object.text))`, memory},
		{"base64", `map(1..100, toBase64(object.text))`, memory},
		{"searching", `map(1..10000, object.text contains "ab")`, steps},
		{"searching what almost fits", `map(1..10000, indexOf(object.text, repeat("a", 1000) + "b"))`, steps},
		{"looking for an element again and again", `let a = 1..100000; any(1..1000, -1 in a)`, steps},
		{"a long key again and again", `let m = {a: 1}; let key = object.text + "1"; map(1..1000, m[key])`, steps},
		{"trimming by a large set", `map(1..1000, trim(object.text, "bcdefghijklmnopqrstuvwxyza"))`, steps},
		{"comparing long strings", `let a = map(1..100, object.text + ""); sort(a)`, memory},
		{"comparing two long strings", `let a = object.text + "1"; let b = object.text + "2"; map(1..10000, a < b)`, steps},
		{"equality of long strings", `let a = object.text + "1"; let b = object.text + "2"; map(1..10000, a == b)`, steps},
		{"a slow pattern on a long text", `map(1..1000, object.text matches "(a|b|ab)*c")`, steps},
		{"a pattern that is long when written out", `object.text matches "(a?){900}b"`, steps},
		{"patterns that are compiled again and again", `map(1..10000, "a" matches "(a{30}){30}" + string(#))`, "any"},
		{"a pattern too large when written out, made at run time", `"a" matches "(?:" + object.items[0].name + "{1000}){1000}"`, `"matches" cannot use its pattern, which is wrong: invalid repeat count`},
		{"a pattern too long, made at run time", `"a" matches object.text`, `"matches" cannot use its pattern, which is longer than 1024 bytes`},
		{"sorting", `sort(map(1..80000, -#))`, steps},
		{"sortBy", `sortBy(1..50000, -#)`, steps},
		{"uniq of what is not strings", `uniq(1..10000)`, steps},
		{"uniq of lists", `uniq(map(1..10000, [#]))`, steps},
		{"groupBy", `groupBy(1..50000, string(#))`, memory},
		{"fromPairs", `fromPairs(map(1..50000, [string(#), #]))`, "any"},
		{"keys again and again", `map(object.items, keys(object.items[0]))`, ""},
		{"many maps", `map(1..30000, {{"a": #}})`, memory},
		{"chains of comparisons that nest", nested(90), steps},
		{"a quantity of many zeros", `quantity(1.0e300 * len(object.items))`, `"quantity" cannot parse its argument`},
		{"quantities added", `sum(1..50000, quantity(string(#) + "E"))`, "any"},
		{"a number that is too large", `fromJSON(object.huge)`, "a number is too large for JSON"},
		{"calculating with it", `fromJSON(object.huge) - 1`, "the result of the calculation is too large"},
		{"comparing it", `let huge = fromJSON(object.huge); huge > 1 and huge == huge`, ""},
		{"many values in the text", `[` + strings.Repeat("1,", 8000) + `1]`, ""},
		{"a long sum", "object.items[0].n" + strings.Repeat("+1", 4900), ""},
		{"a long disjunction", strings.Repeat("object.n==1||", 1200) + "true", ""},
		{"a long pipe", `object.items` + strings.Repeat("|take(9)", 1800) + `|len()`, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			start := time.Now()
			p := mustCompile(t, test.text, payload)
			compiled := time.Since(start)
			var err error
			bytes := allocated(func() { _, err = p.Value(env) })
			t.Logf("%v to compile, %v to run, %d KiB: %v", compiled.Round(time.Microsecond), time.Since(start)-compiled, bytes>>10, err)
			switch {
			case test.want == "any":
				if err != value.ErrSteps && err != value.ErrMemory {
					t.Errorf("got %v, want a budget exceeded", err)
				}
			case err == nil != (test.want == "") || err != nil && err.Error() != test.want:
				t.Errorf("got %v, want %s", err, test.want)
			}
			if bytes > 4*MaxMemory {
				t.Errorf("allocated %d MiB", bytes>>20)
			}
		})
	}
}

func TestHostileText(t *testing.T) {
	for _, test := range []struct{ why, text, want string }{
		{"too long", strings.Repeat("1+", maxText), "the expression is longer than 16 KiB"},
		{"not UTF-8", "object.\xff", "the expression is not valid UTF-8"},
		{"parentheses", strings.Repeat("(", 8000) + "1" + strings.Repeat(")", 8000), "the expression nests deeper than 200"},
		{"parentheses that are not closed", strings.Repeat("(", 16000), "the expression nests deeper than 200"},
		{"lists", strings.Repeat("[", 16000), "the expression nests deeper than 200"},
		{"maps", strings.Repeat("{a:", 5000), "the expression nests deeper than 200"},
		{"calls", strings.Repeat("len(", 4000), "the expression nests deeper than 200"},
		{"predicates", strings.Repeat("any([1],", 2000), "the expression nests deeper than 200"},
		{"indexes", strings.Repeat("object[", 2000), "the expression nests deeper than 200"},
		{"not", strings.Repeat("not ", 4000) + "true", "the expression nests deeper than 200"},
		{"!", strings.Repeat("!", 16000) + "true", "the expression nests deeper than 200"},
		{"-", strings.Repeat("-", 16000) + "1", "the expression nests deeper than 200"},
		{"conditions to the right", strings.Repeat("true?1:", 2000) + "1", "the expression nests deeper than 200"},
		{"conditions in the middle", strings.Repeat("true?", 2000) + "1" + strings.Repeat(":1", 2000), "the expression nests deeper than 200"},
		{"else if", strings.Repeat("if true {1} else ", 900) + "{1}", "the expression nests deeper than 200"},
		{"powers", strings.Repeat("1**", 5000) + "1", "the expression nests deeper than 200"},
		{"variables", strings.Repeat("let a=1;", 2000) + "1", "the expression nests deeper than 200"},
		{"a comment that does not end", "/*" + strings.Repeat("*", 16000), "unclosed comment"},
		{"a pattern that is large when written out", `object.x matches "((a{100}){100}){100}"`, "the pattern is wrong: invalid repeat count: \"{100}\""},
		{"many patterns that are large when written out", `object.x matches "` + strings.Repeat(`[\\pL]{900}`, 50) + `"`, "the pattern is too large once its repetitions are written out"},
		{"a long pattern", `object.x matches "` + strings.Repeat("a", 2000) + `"`, "the pattern is longer than 1024 bytes"},
		{"a quantity of many zeros", `quantity("1e999999999") > object.x`, `"1e999999999" is no quantity`},
		{"a quantity of many zeros behind the point", `quantity("1e-999999999") > object.x`, `"1e-999999999" is no quantity`},
		{"a quantity whose exponent overflows", `quantity("1E+0004294967295") > object.x`, `"1E+0004294967295" is no quantity`},
	} {
		t.Run(test.why, func(t *testing.T) {
			var err error
			start := time.Now()
			bytes := allocated(func() { _, err = Compile(test.text, payload) })
			t.Logf("%v, %d KiB", time.Since(start), bytes>>10)
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(e.Message, test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if e != nil && (e.Offset < 0 || e.Offset > len(test.text)) {
				t.Errorf("the offset %d is outside the text of %d bytes", e.Offset, len(test.text))
			}
			if bytes > 4*MaxMemory {
				t.Errorf("allocated %d MiB", bytes>>20)
			}
		})
	}
}

// A program as large as the text allows must compile in bounded time, whatever it consists of.
func TestLargestTexts(t *testing.T) {
	fill := func(part string) string { return strings.Repeat(part, (maxText-100)/len(part)) }
	for _, test := range []struct{ why, text string }{
		{"members", "object" + strings.Repeat(".a", 4900)},
		{"computed members", "object" + fill("[object.a]")},
		{"places that double", doubling(90)},
		{"coalescing", fill("object.a??") + "1"},
		{"constants that are evaluated", fill(`"a"+`) + `""`},
		{"constants that repeat", fill(`repeat("a",99999)+`) + `""`},
		{"constant quantities", fill(`quantity("1Gi")==`) + `1`},
		{"patterns", fill(`object.a matches "([a-z]{30}){30}"||`) + `true`},
		{"lists", "[" + fill("[],") + "1]"},
		{"equalities", fill("object.a==") + "1"},
		{"one field, many values", `object.a in [` + numbered(2000, `"%d",`) + `""]`},
		{"one field, many comparisons", numbered(900, `object.a=="%d"||`) + "false"},
		{"many fields", numbered(800, `object.a%d==""&&`) + "true"},
		{"many values again and again", `let v=object.a in [` + numbered(900, `"%d",`) + `""]; let w=object.a in [` + numbered(800, `"%d",`) + `""]; ` + strings.Repeat("v||w||", 500) + "v"},
		{"many fields again and again", `let v=` + numbered(300, `object.a%d==""&&`) + `true; let w=` + numbered(290, `object.a%d==""&&`) + `true; ` + strings.Repeat("v&&w&&", 800) + "v"},
		{"names that are not known, with many that are", `let abcd=1;` + fill("abcd+") + "abce"},
		{"conditions that nest in chains of comparisons", nested(90)},
	} {
		t.Run(test.why, func(t *testing.T) {
			if len(test.text) > maxText {
				t.Fatalf("the text is too long: %d bytes", len(test.text))
			}
			start := time.Now()
			var p *Program
			var err error
			bytes := allocated(func() { p, err = Compile(test.text, payload) })
			compiled := time.Since(start)
			if err == nil {
				_, err = p.Value(hostileEnv(t))
			}
			t.Logf("%v to compile, %d KiB, then %v", compiled, bytes>>10, err)
			if bytes > 128<<20 {
				t.Errorf("allocated %d MiB", bytes>>20)
			}
		})
	}
}

// numbered repeats part with each number below n inserted.
func numbered(n int, part string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, part, i)
	}
	return b.String()
}

// doubling derives each of n variables from two fields of the one before.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("let v0=object;")
	for i := range n {
		fmt.Fprintf(&b, "let v%d=v%d.x?v%d.b:v%d.c;", i+1, i, i, i)
	}
	fmt.Fprintf(&b, "v%d", n)
	return b.String()
}

// nested returns n chains of comparisons inside each other. The parser lets the comparisons of a
// chain share their middle operand.
func nested(n int) string {
	text := "object.a"
	for range n {
		text = "(1<" + text + "<2?1:2)"
	}
	return text
}

func TestPathsAreBounded(t *testing.T) {
	p := mustCompile(t, doubling(90), payload)
	if n := len(p.Paths().List()); n > 10_000 {
		t.Errorf("the program reads %d paths, want at most 10000", n)
	}
	if !p.Paths().Covers("x") || !p.Paths().Covers("b", "c", "b", "x") {
		t.Errorf("paths are missing: %.200s", p.Paths())
	}
}

// If an index holds everything under one value, the budgets end the evaluation long before it has
// decoded everything.
func TestByIndexStopsAtTheBudgets(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int // objects in the index
		most int // decoded
	}{
		{`len(filter(byIndex("byNode", "n1"), true)) > 0`, 1 << 40, 0},
		{`len(filter(lookup("pods.byNode", "n1"), true)) > 0`, 1 << 40, 0},
		{`lookup("pods.byNode", "n1")`, MaxSteps + 1, 0},
		{`lookup("pods.byNode", "n1")`, MaxSteps, 1},    // the first shows that they need too much memory
		{`lookup("pods.byNode", "n1")`, 19_000, 10_000}, // empty maps would fit
		{`let all = lookup("pods.byNode", "n1"); len(filter(all, true)) + len(all)`, 1 << 40, 0},
		{`any(lookup("pods.byNode", "n1"), .metadata.name == "x")`, 1 << 40, 10_000},
		{`lookup("pods.byNode", "n1")[90000]`, 1 << 40, 10_000},
		{`last(lookup("pods.byNode", "n1"))`, 1 << 40, 0},
		{`count(lookup("pods.byNode", "n1"), true)`, 1 << 40, 0},
	} {
		stopsAtTheBudgets(t, c.text, c.n, c.most)
	}
}

// endless is a cache with n objects under every value. It counts those that are decoded.
func endless(n int, decoded *int) Cache {
	return cache(func(string, string, string) Found {
		return Found{n, func(yield func(any) bool) {
			for range n {
				*decoded++
				if !yield(map[string]any{"metadata": map[string]any{"name": "web"}}) {
					return
				}
			}
		}}
	})
}

func stopsAtTheBudgets(t *testing.T, text string, n, most int) {
	decoded := 0
	p := mustCompile(t, text, payload)
	_, err := p.Value(&Env{Cache: endless(n, &decoded)})
	if err != value.ErrSteps && err != value.ErrMemory || decoded > most {
		t.Errorf("%s: the lookup decoded %d of %d objects, want at most %d and an exceeded budget; got error %v", text, decoded, n, most, err)
	}
}

func valueOf(p *Program, env *Env) (string, error) {
	v, err := p.Value(env)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// An expression that looks at few of the objects works whatever the index has, and decodes no
// others.
func TestSearchesDecodeWhatIsLookedAt(t *testing.T) {
	for text, want := range map[string]struct {
		decoded int
		value   string
	}{
		`len(lookup("pods.byNode", "n1"))`:                                                          {0, "1099511627776"},
		`lookup("pods.byNode", "n1") | len()`:                                                       {0, "1099511627776"},
		`len(byIndex("byNode", "n1")) > 3`:                                                          {0, "true"},
		`first(lookup("pods.byNode", "n1")).metadata.name`:                                          {1, `"web"`},
		`lookup("pods.byNode", "n1")[0].metadata.name`:                                              {1, `"web"`},
		`lookup("pods.byNode", "n1")[2].metadata.name`:                                              {3, `"web"`},
		`len(take(lookup("pods.byNode", "n1"), 3))`:                                                 {3, "3"},
		`len(take(lookup("pods.byNode", "n1"), -3))`:                                                {0, "0"},
		`take(lookup("pods.byNode", "n1"), nil)`:                                                    {0, "null"},
		`any(lookup("pods.byNode", "n1"), .metadata.name == "web")`:                                 {1, "true"},
		`none(lookup("pods.byNode", "n1"), #index == 4)`:                                            {5, "false"},
		`all(lookup("pods.byNode", "n1"), #index < 2)`:                                              {3, "false"},
		`find(lookup("pods.byNode", "n1"), #index == 1).metadata.name`:                              {2, `"web"`},
		`findIndex(lookup("pods.byNode", "n1"), #index == 1)`:                                       {2, "1"},
		`let all = lookup("pods.byNode", "n1"); len(all) > 9 and all[0] != nil`:                     {1, "true"},
		`let all = byIndex("byNode", "n1"); let more = all; len(more) + len(all)`:                   {0, "2199023255552"},
		`let all = lookup("pods.byNode", "n1"); true`:                                               {0, "true"},
		`let all = lookup("pods.byNode", nil); [all, len(all), all[0], first(all), any(all, true)]`: {0, "[null,null,null,null,false]"},
	} {
		decoded := 0
		p := mustCompile(t, text, payload)
		got, err := valueOf(p, &Env{Cache: endless(1<<40, &decoded)})
		if err != nil || got != want.value || decoded != want.decoded {
			t.Errorf("%s: %s after %d objects, want %s after %d; error %v", text, got, decoded, want.value, want.decoded, err)
		}
	}
}

// A search whose result is used as a list is collected once.
func TestSearchesAreCollectedOnce(t *testing.T) {
	decoded := 0
	p := mustCompile(t, `let all = lookup("pods.byNode", "n1"); [count(all, true), len(all), count(all, true), first(all).metadata.name, len(take(all, 2)), any(all, false)]`, payload)
	got, err := valueOf(p, &Env{Cache: endless(3, &decoded)})
	if err != nil || got != `[3,3,3,"web",2,false]` || decoded != 3 {
		t.Errorf("%s after %d objects, error %v", got, decoded, err)
	}
}
