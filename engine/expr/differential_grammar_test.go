package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// grammar says how generate can make each kind of value:
//   - <int> stands for any expression of kind int. So does every other kind.
//   - K is the wanted kind. Under []K it is the kind of the elements. J is any kind.
//   - In <bool#K>, # is a K. In <K#>, there is no #.
//   - <acc:K#J> makes a new #acc, a K, from the old one.
//   - <let:K> is a K that follows a variable.
//   - Rules without <> end an expression that has grown large.
//
// findLast and findLastIndex are missing. In expr-lang 1.17.8 they leave an extra value on the
// stack, which breaks the surrounding expression (https://github.com/expr-lang/expr/pull/954).
var grammar = map[string][]string{
	"bool": {
		`true`, `false`, `object.yes`, `object.no`, `object.items[0].on`, `event == "updated"`,
		`<int> == <int>`, `<int> != <float>`, `<int> < <int>`, `<float> >= <int>`, `<int> <= <float>`, `<int> > <int>`, `1 < <int> <= 3`,
		`<text> == <text>`, `<text> < <text>`, `<text> >= <text>`, `<bool> == <bool>`, `<[]J> == <[]J>`, `<item> != <item>`, `<J> == <J>`,
		`<bool> and <bool>`, `<bool> && <bool>`, `<bool> or <bool>`, `<bool> || <bool>`, `not <bool>`, `!<bool>`,
		`<text> contains <text>`, `<text> startsWith <text>`, `<text> endsWith <text>`, `<text> not contains <text>`,
		`<text> matches "^[a-c]+$"`, `<text> matches "[" + <text> + "]"`, `hasPrefix(<text>, <text>)`, `hasSuffix(<text>, <text>)`,
		`<J> in <[]J>`, `<J> not in <[]J>`, `<text> in <labels>`, `"n" in <item>`, `<int> in 1..3`, `<text> in ["a", "b"]`, `<int> in [1, 2]`,
		`any(<[]J>, <bool#J>)`, `all(<[]J>, <bool#J>)`, `none(<[]J>, <bool#J>)`, `one(<[]J>, <bool#J>)`,
		`any(<[]item>, .on)`, `any(<[]item>, {let x = .n; x > <int>})`, `all(<[]text>, # != "")`,
	},
	"int": {
		`0`, `1`, `2`, `3`, `-1`, `0x10`, `object.n`, `object.m`, `object.items[1].n`, `old.n`,
		`<int> + <int>`, `<int> - <int>`, `<int> * <int>`, `<int> % <int>`, `-<int>`, `+<int>`, `int(<float>)`, `int("12")`, `int(string(<int>))`,
		`abs(<int>)`, `len(<[]J>)`, `len(<text>)`, `len(<labels>)`, `len(fromPairs([[<text>, <J>], [<text>, <J>]]))`, `indexOf(<text>, <text>)`, `lastIndexOf(<text>, <text>)`,
		`count(<[]J>, <bool#J>)`, `count(<[]bool>)`, `findIndex(<[]J>, <bool#J>)`,
		`sum(<[]int>)`, `sum(<[]J>, <int#J>)`, `sum(<[]item>, .n)`, `min(<[]int>)`, `max(<int>, <int>)`, `min(<[]int>, <int>)`, `max(<[][]int>)`,
		`reduce(<[]J>, #acc + <int#J>, <int#>)`, `sum(map(<[]J>, #index))`,
	},
	"float": {
		`0.5`, `2.0`, `1e3`, `.25`, `object.f`, `object.floats[1]`,
		`<int> / <int>`, `<float> + <int>`, `<int> * <float>`, `<float> - <float>`, `<int> ** 2`, `<float> ^ 2`, `-<float>`,
		`float(<int>)`, `float("0.5")`, `float(string(<float>))`, `abs(<float>)`, `ceil(<float>)`, `floor(<float>)`, `round(<float>)`, `round(<int>)`,
		`mean(<[]int>, <int>)`, `median(<[]float>, <float>)`, `mean(<int>, <float>)`, `median(<[]int>, <int>)`, `mean(<[][]int>, <int>)`, `sum(<[]float>)`, `max(<float>, <[]int>)`,
	},
	"text": {
		`"a"`, `""`, `"b"`, `'a,b'`, "`x`", `"\u0061\n"`, `object.s`, `object.t`, `object.items[-1].name`, `object.labels["app.kubernetes.io/name"]`, `old.name`, `event`,
		`<text> + <text>`, `upper(<text>)`, `lower(<text>)`, `trim(<text>)`, `trim(<text>, <text>)`, `trimPrefix(<text>, <text>)`, `trimSuffix(<text>, <text>)`, `trimPrefix(<text>)`,
		`replace(<text>, <text>, <text>)`, `replace(<text>, "a", <text>, 1)`, `repeat(<text>, abs(<int> % 3))`, `join(<[]text>, <text>)`, `join(<[]text>)`,
		`<text>[<int>:]`, `<text>[:<int>]`, `<text>[<int>:<int>]`, `string(<int>)`, `string(<float>)`, `string(<bool>)`, `string(<text>)`,
		`toBase64(<text>)`, `fromBase64(toBase64(<text>))`, `fromJSON(toJSON(object.t))`, `<item>.name`, `<item>["name"]`, `<item>?.name`,
		`get(<labels>, "tier")`, `<labels>[<text>] ?? <text>`, `type(<int>)`, `type(<text>)`, `type(<bool>)`, `type(<float>)`, `type(<labels>)`,
		`<text> | upper()`, `<[]text> | sort() | join(",")`, `<text> | split(",") | first()`,
	},
	"item":    {`object.items[0]`, `object.items[2]`, `old`, `{name: <text>, n: <int>, on: <bool>, tags: <[]text>}`},
	"labels":  {`object.labels`, `{"a": "b"}`, `{"a": <text>, b: <text>}`, `{(<text>): <text>}`, `fromJSON(toJSON(object.labels))`},
	"[]int":   {`object.ints`, `[1, 2]`, `1..3`, `0..abs(<int> % 4)`, `map(<[]item>, .n)`, `sort(<[]int>)`, `sort(<[]int>, "desc")`, `flatten(<[][]int>)`, `map(<[]J>, #index)`},
	"[]float": {`object.floats`, `[0.5, 2.5]`, `sort(<[]float>)`, `map(<[]int>, # / 2)`},
	"[]text": {
		`object.texts`, `["a", "b"]`, `split(<text>, <text>)`, `split(<text>, ",", <int>)`, `splitAfter(<text>, ",")`, `splitAfter(<text>, ",", <int>)`,
		`sort(<[]text>)`, `sort(<[]text>, "desc")`, `sort(keys(<labels>))`, `sort(values(<labels>))`, `sort(map(toPairs(<labels>), #[0]))`, `sort(map(toPairs(<labels>), #[1]))`, `sort(values(fromPairs(toPairs(<labels>))))`,
		`<item>.tags`, `map(<[]item>, .name)`, `sort(keys(groupBy(<[]J>, <text#J>)))`, `flatten([<[]text>, [<[]text>]])`,
	},
	"[]bool":  {`object.bools`, `[true, false]`},
	"[]item":  {`object.items`, `[old]`},
	"[][]int": {`object.nested`, `[[1], []]`},
	"[]K": {
		`[<K>]`, `[<K>, <K>]`, `filter(<[]K>, <bool#K>)`, `<[]K> | filter(<bool#K>)`, `map(<[]J>, <K#J>)`, `map(<[]K>, #)`,
		`concat(<[]K>, <[]K>)`, `reverse(<[]K>)`, `take(<[]K>, abs(<int>))`, `uniq(<[]K>)`, `<[]K>[<int>:]`, `<[]K>[:<int>]`, `<[]K>[<int>:<int>]`,
		`sortBy(<[]K>, <int#K>)`, `sortBy(<[]K>, <text#K>, "desc")`, `sortBy(<[]K>, <float#K>)`,
		`(groupBy(<[]K>, <text#K>)[<text>] ?? [])`, `(get(groupBy(<[]K>, string(<bool#K>)), "true") ?? [])`,
	},
	"K": {
		`<bool> ? <K> : <K>`, `if <bool> {<K>} else {<K>}`, `[<K>, <K>][<place>]`, `concat(<[]K>, [<K>])[<place>]`, `get(<[]K>, <int>) ?? <K>`,
		`first(<[]K>) ?? <K>`, `last(<[]K>) ?? <K>`, `find(<[]K>, <bool#K>) ?? <K>`,
		`{a: <K>}.a`, `{"a b": <K>}["a b"]`, `fromPairs([["k", <K>]]).k`, `reduce(<[]J>, <acc:K#J>, <K#>)`, `reduce([<K>, <K>], <acc:K#K>)`, `<let:K>`, `<J>; <K>`,
	},
	"place": {`0`, `0`, `-1`, `<int> % 2`},
	// A new #acc mentions the old one only once, so that it cannot grow without bound.
	"acc": {`#acc`, `<bool> ? #acc : <K>`, `[#acc, <K>][<place>]`},
}

// kinds are the kinds of the expressions that generate makes.
var kinds = []string{"int", "text", "bool", "item", "float", "labels", "[]int", "[]text", "[]item", "[]bool", "[]float", "[][]int"}

// fields names, by kind, the fields of #, if # is an item.
var fields = map[string]string{"text": ".name", "int": ".n", "bool": ".on", "[]text": ".tags"}

// generate makes an expression from bytes. It is plausible, so that most expressions give a value.
// It is bounded, because expr-lang's machine does not bound its work. Each byte is one choice;
// missing bytes count as zero.
func generate(data []byte) string {
	g := &generator{data: data, parts: 25}
	return g.expression(g.any(kinds), 0)
}

type generator struct {
	data    []byte
	parts   int    // how many more it may have
	pointer string // the kind of #; "" where there is none
	names   []named
}

type named struct{ name, kind string }

func (g *generator) number(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

func (g *generator) any(of []string) string { return of[g.number(len(of))] }

const maxGenerated = 5 // levels

// expression makes an expression of the given kind. Now and then it makes one of another kind, to
// cover implausible expressions too.
func (g *generator) expression(kind string, level int) string {
	if g.number(64) == 63 {
		kind = g.any(kinds)
	}
	rules := append(g.atHand(kind), grammar[kind]...)
	if element, ok := strings.CutPrefix(kind, "[]"); ok {
		rules = append(rules, set("K", element, grammar["[]K"])...)
	}
	if kind != "place" {
		rules = append(rules, set("K", kind, grammar["K"])...)
	}
	return g.apply(rules, level)
}

// atHand returns the variables and pointers of a kind. It returns each twice, because they make
// more interesting expressions.
func (g *generator) atHand(kind string) (out []string) {
	if g.pointer == kind {
		out = append(out, "#", "#")
	}
	if field, ok := fields[kind]; ok && g.pointer == "item" {
		out = append(out, field, "#"+field)
	}
	for _, n := range g.names {
		if n.kind == kind {
			out = append(out, n.name, n.name)
		}
	}
	return out
}

var hole = regexp.MustCompile(`<[\[\]a-zA-Z#:]+>`)

// set replaces a letter in the holes of rules by a kind.
func set(letter, kind string, rules []string) []string {
	out := make([]string, len(rules))
	for i, rule := range rules {
		out[i] = hole.ReplaceAllStringFunc(rule, func(s string) string { return strings.ReplaceAll(s, letter, kind) })
	}
	return out
}

// closed matches rules that need no parentheses around them.
var closed = regexp.MustCompile(`^(\w+\([^|]*\)|\(.*\)|\[.*\]|\{.*\}|<let:.*>|[^<]*)$`)

func (g *generator) apply(rules []string, level int) string {
	g.parts--
	if level >= maxGenerated || g.parts < 0 {
		rules = slices.DeleteFunc(slices.Clone(rules), hole.MatchString)
	}
	if len(rules) == 0 {
		return "[]"
	}
	rule := set("J", g.any(kinds), []string{g.any(rules)})[0]
	text := hole.ReplaceAllStringFunc(rule, func(s string) string { return g.part(strings.Trim(s, "<>"), level+1) })
	if !closed.MatchString(rule) {
		text = "(" + text + ")"
	}
	return text
}

// part fills a hole.
func (g *generator) part(kind string, level int) string {
	if kind, ok := strings.CutPrefix(kind, "let:"); ok {
		return g.let(kind, level)
	}
	kind, pointer, predicate := strings.Cut(kind, "#")
	if !predicate {
		return g.expression(kind, level)
	}
	before := g.pointer
	g.pointer = pointer
	defer func() { g.pointer = before }()
	if result, ok := strings.CutPrefix(kind, "acc:"); ok {
		return g.apply(set("K", result, grammar["acc"]), level)
	}
	// braces around a predicate are no map
	if text := g.expression(kind, level); !strings.HasPrefix(text, "{") {
		return text
	} else {
		return "(" + text + ")"
	}
}

func (g *generator) let(kind string, level int) string {
	of := g.any(kinds)
	value := g.expression(of, level)
	name := fmt.Sprintf("v%d", len(g.names))
	g.names = append(g.names, named{name, of})
	defer func() { g.names = g.names[:len(g.names)-1] }()
	return "(let " + name + " = " + value + "; " + g.expression(kind, level) + ")"
}
