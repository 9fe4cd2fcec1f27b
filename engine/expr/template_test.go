package expr

import (
	"strings"
	"testing"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/google/go-cmp/cmp"
)

func TestTemplate(t *testing.T) {
	for _, test := range []struct {
		why, text string
		want      any
	}{
		{"a whole value keeps its type: a number", `${object.spec.replicas}`, int64(3)},
		{"a boolean", `${object.spec.replicas == 3}`, true},
		{"a list", `${[1, "a"]}`, list{int64(1), "a"}},
		{"a map", `${ {a: {b: 1}} }`, dict{"a": dict{"b": int64(1)}}},
		{"nil", `${object.no}`, nil},
		{"a time becomes a string", `${time("2026-01-02T03:04:05Z")}`, "2026-01-02T03:04:05Z"},
		{"space within the braces", "${\n  object.spec.replicas\n}", int64(3)},
		{"space around them is text", ` ${object.spec.replicas}`, " 3"},
		{"text around", `pod ${object.metadata.name} of 1`, "pod web-0 of 1"},
		{"several", `${object.metadata.name}/${object.spec.replicas}`, "web-0/3"},
		{"next to each other", `${1}${2}`, "12"},
		{"an integer over 2^53", `n${9007199254740993}`, "n9007199254740993"},
		{"the largest integer", `${9223372036854775807} and ${-9223372036854775807}`, "9223372036854775807 and -9223372036854775807"},
		{"a fraction", `${0.1}%`, "0.1%"},
		{"a large float is decimal too", `${1e21}.`, "1000000000000000000000."},
		{"a small one", `${0.0000001}.`, "0.0000001."},
		{"booleans", `${true} ${false}`, "true false"},
		{"a duration and a quantity", `${duration("90m")} ${quantity("1024Mi")}`, "1h30m0s 1Gi"},
		{"an escape", `$${object.metadata.name} is ${object.metadata.name}`, "${object.metadata.name} is web-0"},
		{"a dollar", `$5 ${"$"}${5} $`, "$5 $5 $"},
		{"a } in a string", `${"}" + '}' + "\"}"}!`, `}}"}!`},
		{"a } in a raw string", "${`}``}`}!", "}`}!"},
		{"a } in comments", "${ /* } */ 1 // }\n}!", "1!"},
		{"braces within", `${ {a: "x"}.a }${any([1], {# == 1})}`, "xtrue"},
		{"variables of each", `${let a = 1; a}${let b = 2; let c = 3; b + c}`, "15"},
		{"letters of many bytes", `ä${"ö"}ü`, "äöü"},
		{"quotes outside", `don't ${1}"`, `don't 1"`},
	} {
		t.Run(test.why, func(t *testing.T) {
			p, literal, err := CompileTemplate(test.text, payload)
			if err != nil || p == nil || literal != "" {
				t.Fatalf("%v, literal %q", err, literal)
			}
			got, err := p.Value(testEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTemplatesWithoutExpressions(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"plain":                               "plain",
		"object.metadata.name":                "object.metadata.name",
		"$":                                   "$",
		"$$":                                  "$$",
		"$$${a}":                              "$${a}",
		"$$$${a}":                             "$$${a}",
		"$${":                                 "${",
		"$ {a} {b} $a $(b) }":                 "$ {a} {b} $a $(b) }",
		"#!/bin/sh\necho $HOME $${HOME:-/}\n": "#!/bin/sh\necho $HOME ${HOME:-/}\n",
	} {
		p, literal, err := CompileTemplate(text, payload)
		if p != nil || literal != want || err != nil {
			t.Errorf("%q: %v, %q, %v; want %q", text, p, literal, err, want)
		}
	}
}

func TestMistakenTemplates(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int
		want   string
	}{
		{`ab ${object`, 3, "${ is not closed: write } behind the expression, or $${ for the characters ${"},
		{`ab ${`, 3, "${ is not closed"},
		{`ab ${"}`, 3, "${ is not closed"},
		{"ab ${`}", 3, "${ is not closed"},
		{`ab ${a /* }`, 3, "${ is not closed"},
		{`ab ${a // }`, 3, "${ is not closed"},
		{`ab ${ {a: 1}`, 3, "${ is not closed"},
		{`${1} ${(2}`, 5, "${ is not closed"},
		{`ab ${}`, 5, "the expression is empty"},
		{`ab ${ }`, 5, "the expression is empty"},
		{`ab ${objekt.a}`, 5, `unknown name "objekt"; did you mean object?`},
		{`é ${object.a} ${ upperr(object.b) }`, 18, `unknown function "upperr"; did you mean upper?`},
		{`é ${object.a +} ${`, 17, "${ is not closed"},
		{`é ${object.a +}`, 15, "unexpected end of the expression"},
		{`${1)}`, 2, ""},
		{`ab ${item.a}`, 5, "item is an element of forEach"},
		{`ab ${` + strings.Repeat("a", maxText+1) + `}`, 5 + maxText, "the expression is longer than 16 KiB"},
		{strings.Repeat(`${1}`, 257), 4 * 256, "more than 256 expressions in one string"},
		{`ab ${` + strings.Repeat("(", 300) + strings.Repeat(")", 300) + `}`, 205, "nests deeper than 200"},
	} {
		_, _, err := CompileTemplate(test.text, payload)
		e, ok := err.(*Error)
		if !ok || !strings.Contains(e.Message, test.want) || test.want != "" && e.Offset != test.offset {
			t.Errorf("%.60q: %#v, want %s at %d", test.text, err, test.want, test.offset)
		}
	}
}

func TestValuesThatDoNotFitInAString(t *testing.T) {
	for text, want := range map[string]string{
		`a ${object.metadata.labels.no}`:                    `${object.metadata.labels.no} is nil within a longer string: say what stands there instead, as with ?? "none"`,
		`${ object.spec.containers } a`:                     `${object.spec.containers} is a list within a longer string: use join or toJSON`,
		`a ${object.metadata}`:                              `${object.metadata} is a map within a longer string: use toJSON`,
		"${object.metadata}\n":                              `${object.metadata} is a map, and there is white space beside it, which makes it a longer string: in YAML |- ends without a line break, and | with one`,
		`a ${object.spec.replicas.x}`:                       `an int has no field "x"`,
		`a ${repeat("x", 5000000)} ${repeat("x", 5000000)}`: "memory budget of 8 MiB exceeded",
		`${any(1..900, any(1..900, false))} a`:              "step budget of 100000 exceeded",
	} {
		p, _, err := CompileTemplate(text, payload)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Value(testEnv(t)); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

func TestPathsReadByTemplates(t *testing.T) {
	p, _, err := CompileTemplate(`${object.a.b} ${old.c} ${event} ${len(lookup("nodes.byName", object.d))} ${first(lookup("pods.byNode", "x")).e}`, payload)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{p.Paths().String(), p.Lookups()["nodes"].String(), p.Lookups()["pods"].String()}
	if diff := cmp.Diff([]string{"a.b c d", "", "e"}, got); diff != "" {
		t.Error(diff)
	}
	if !p.ReadsOld() || !p.ReadsEvent() {
		t.Error("ReadsOld or ReadsEvent is false, but the template reads both")
	}
}

// FuzzSplitTemplate splits any text. The parts are the whole text, in order. An expression ends
// where expr-lang's lexer finds all its brackets, strings and comments closed.
func FuzzSplitTemplate(f *testing.F) {
	for _, text := range []string{
		"", "$", "${", "$${", "${}", "a ${b} c", "$${a}${b}", "${\"}\"}", "${'\\'}'}", "${`}`}", "${/*}*/1}", "${1//}\n}", "${{a:1}}",
		"${a[b(c)]}d${e}", "$$$${a}", "${b'}'}", "${]}", "é${'é'}é", "${a}}{", "${``}", "${`a``b}`}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := splitTemplate(text)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Offset < 0 || e.Offset >= len(text) || !strings.HasPrefix(text[e.Offset:], "${") {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		var again strings.Builder
		for i, p := range parts {
			if !p.isExpr {
				if p.text == "" || i > 0 && !parts[i-1].isExpr {
					t.Fatalf("%q: part %d is empty or continues the text part before it", text, i)
				}
				again.WriteString(strings.ReplaceAll(p.text, "${", "$${"))
				continue
			}
			if p.offset+len(p.text) >= len(text) || text[p.offset-2:p.offset] != "${" || text[p.offset:p.offset+len(p.text)+1] != p.text+"}" {
				t.Fatalf("%q: the expression of part %d does not stand at its offset %d", text, i, p.offset)
			}
			again.WriteString("${" + p.text + "}")
			checkClosed(t, p.text)
		}
		if again.String() != text {
			t.Fatalf("the parts of %q make %q", text, again.String())
		}
		if len(text) < 200 {
			checkTemplate(t, text)
		}
	})
}

// checkClosed checks that the lexer and the splitter agree on brackets: all are closed at the end
// of the expression, and no } closes it earlier.
func checkClosed(t *testing.T, text string) {
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return // a mistake wherever it ends
	}
	depth := 0
	for _, token := range tokens {
		switch {
		case token.Kind != lexer.Bracket:
		case strings.Contains("([{", token.Value):
			depth++
		default:
			if depth == 0 && token.Value == "}" {
				t.Fatalf("the expression %q ends too late, after its closing brace", text)
			}
			depth--
		}
	}
	if depth > 0 {
		t.Fatalf("the expression %q ends too early, with brackets open", text)
	}
}

func checkTemplate(t *testing.T, text string) {
	p, literal, err := CompileTemplate(text, payload)
	if err != nil {
		for _, e := range Mistakes(err) {
			if e.Offset < 0 || e.Offset > len(text) || e.Message == "the expression cannot be compiled" {
				t.Fatalf("%q: %#v", text, e)
			}
		}
		return
	}
	if p == nil {
		if strings.ReplaceAll(literal, "${", "$${") != text {
			t.Fatalf("%q without expressions becomes the literal %q", text, literal)
		}
		return
	}
	checkPaths(t, p, mustObject(t, pod), mustObject(t, `{"metadata":{"labels":{"app":1}}}`))
}

// A handler's template sees what it is given, and no cache.
func TestSent(t *testing.T) {
	o := Options{Scope: Sent, Given: map[string][]string{"payload": nil, "secrets": {"key", "token"}}}
	env := testEnv(t)
	env.Given = map[string]any{"payload": dict{"a": dict{"b": int64(1)}}, "secrets": dict{"key": "k"}}
	for text, want := range map[string]any{
		`${payload.a.b}`: int64(1), `${payload.no}`: nil, `${secrets.key}`: "k", `${secrets["key"]}`: "k",
		`${secrets.token}`: nil, `${object.kind} ${payload.a.b + 1}`: "Pod 2", `${let x = payload.a; x.b}`: int64(1),
		`${map(keys(payload), # + "!")}`: list{"a!"},
	} {
		p, _, err := CompileTemplate(text, o)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := p.Value(env); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s gives %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`${secrets.tokn}`:               "there is no secrets.tokn; did you mean token?",
		`${secrets.u}`:                  "there is no secrets.u; there are key, token",
		`${paylod.a}`:                   "did you mean payload?",
		`${let payload = 1; payload}`:   "payload already has a meaning",
		`${lookup("pods.byName", "a")}`: "lookup() looks into informd's cache, which a handler's template cannot do",
		`${byIndex("byName", "a")}`:     "byIndex() looks into informd's cache",
		`${item}`:                       "item is an element of forEach",
	} {
		if _, _, err := CompileTemplate(text, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, _, err := CompileTemplate(`${payload.a}`, payload); err == nil {
		t.Error("a name that was not given is known")
	}
}

// Inline changes expressions within a longer string, and nothing else.
func TestInline(t *testing.T) {
	o := payload
	o.Inline = func(expression, text string) string { return "<" + strings.TrimSpace(expression) + "=" + text + ">" }
	for text, want := range map[string]any{
		`a ${ 1 + 1 } b ${"x"}`: `a <1 + 1=2> b <"x"=x>`, `${3}`: int64(3), `plain $${x} ${1}`: "plain ${x} <1=1>",
	} {
		p, _, err := CompileTemplate(text, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Value(testEnv(t)); err != nil || got != want {
			t.Errorf("%s gives %v, %v", text, got, err)
		}
	}
}
