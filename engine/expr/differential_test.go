package expr

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	upstream "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/parser/operator"
	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/expr/value"
)

// Users of expr-lang must find the language that they know, so these tests ask expr-lang's own
// machine. Wherever it gives a value without meeting nil, this package must give the same value.
// The table differences and the documentation list the intended differences.

const differentialObject = `{
	"n": 3, "m": -7, "f": 0.5, "s": "web-0", "t": " a,b,,c ", "yes": true, "no": false,
	"ints": [3, 1, 2, 1], "floats": [0.5, 2.5, -1.0], "texts": ["b", "a", "b", ""], "bools": [true, false, true], "nested": [[1, 2], [], [3]],
	"items": [
		{"name": "a", "n": 1, "on": true, "tags": ["x", "y"]},
		{"name": "b", "n": 2, "on": false, "tags": []},
		{"name": "a", "n": -3, "on": true, "tags": ["x"]}
	],
	"labels": {"tier": "front", "app.kubernetes.io/name": "web"}
}`

func differentialEnv(t testing.TB) *Env {
	old := tree(t, `{"name": "old", "n": 0, "on": false, "tags": ["z"]}`)
	return &Env{Object: tree(t, differentialObject), Old: old, Event: "updated", Now: testTime}
}

func here(env *Env, text string) (any, error) {
	p, err := Compile(text, payload)
	if err != nil {
		return nil, err
	}
	return p.Value(env)
}

// there evaluates text with expr-lang itself, with now() fixed to env.Now.
func there(env *Env, text string, o ...upstream.Option) (any, error) {
	variables := map[string]any{"object": withInts(env.Object), "old": withInts(env.Old), "event": env.Event}
	o = append(o, upstream.Env(variables), upstream.DisableBuiltin("now"),
		upstream.Function("now", func(...any) (any, error) { return env.Now, nil }, new(func() time.Time)))
	program, err := upstream.Compile(text, o...)
	if err != nil {
		return nil, err
	}
	return upstream.Run(program, variables)
}

// withInts turns int64 into int, which expr-lang uses for its own integers. To expr-lang, a map
// that holds one differs from a map that holds the other.
func withInts(v any) any {
	switch v := v.(type) {
	case int64:
		return int(v)
	case list:
		out := make(list, len(v))
		for i := range v {
			out[i] = withInts(v[i])
		}
		return out
	case dict:
		out := make(dict, len(v))
		for key := range v {
			out[key] = withInts(v[key])
		}
		return out
	}
	return v
}

// plain converts a value of expr-lang to what Value would return. expr-lang has more kinds of
// lists, maps and integers.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		return v.String()
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return int64(r.Uint())
	case r.Kind() == reflect.Slice || r.Kind() == reflect.Array:
		out := make(list, r.Len())
		for i := range out {
			out[i] = plain(r.Index(i).Interface())
		}
		return out
	case r.Kind() == reflect.Map:
		out := make(dict, r.Len())
		for key, value := range r.Seq2() {
			out[fmt.Sprint(key.Interface())] = plain(value.Interface())
		}
		return out
	}
	return fmt.Sprintf("%T", v)
}

// compare fails t if text gives another value here than in expr-lang. It reports whether there was
// a value to compare.
func compare(t *testing.T, env *Env, text string, o ...upstream.Option) bool {
	t.Helper()
	want, err := there(env, text, o...)
	if err != nil || want == nil {
		return false
	}
	got, err := here(env, text)
	_, isMistake := err.(*Error)
	if err != nil && (expected.MatchString(err.Error()) || isMistake && mistaken.MatchString(err.Error())) {
		return false
	}
	diff := cmp.Diff(plain(want), got)
	switch {
	case err == nil && diff == "":
		return true
	case meetsNil(env, text):
		return false
	case err != nil:
		t.Errorf("%s\ngives %v in expr-lang, but here: %v", text, plain(want), err)
	default:
		t.Errorf("%s\n(-expr-lang +here)\n%s", text, diff)
	}
	return true
}

// expected matches errors of documented differences that random expressions run into.
var expected = regexp.MustCompile(`^(` + strings.Join([]string{
	value.ErrOverflow.Error(), `division by zero`, `(step|memory) budget of .* exceeded`,
	`an? (string|bool|int|float) cannot be indexed with .*`, `"\w+" needs a list, not .*`, `"(first|last|sort)" cannot take .*`,
	`a map cannot be indexed with .*`, `a key must be a string, not .*`,
	`operator "(and|&&|or|\|\|)" needs true or false, not .*`, `operator "\+" needs a number, not .*`,
	`"string" cannot take a (list|map)`,
}, "|") + `)$`)

// mistaken matches Compile's errors for expressions that cannot work or are never true.
var mistaken = regexp.MustCompile(`cannot|must be|needs|never|the pattern is wrong`)

// meetsNil reports whether expr-lang meets nil anywhere while it evaluates text.
func meetsNil(env *Env, text string) (met bool) {
	look := func(args ...any) (any, error) {
		met = met || args[0] == nil || reflect.ValueOf(args[0]).Kind() == reflect.Slice && reflect.ValueOf(args[0]).IsNil()
		return args[0], nil
	}
	_, err := there(env, text, upstream.Function("look", look), upstream.Patch(looker{}))
	return err == nil && met
}

// looker puts look() around every part of an expression that can be nil.
type looker struct{}

func (looker) Visit(node *ast.Node) {
	switch (*node).(type) {
	case *ast.NilNode, *ast.MemberNode, *ast.ChainNode, *ast.BuiltinNode, *ast.PointerNode:
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: "look"}, Arguments: []ast.Node{*node}})
	}
}

// exampleLines returns likeExamples without comments, and two examples that likeExamples cannot
// hold: one with backquotes, and one of two lines.
func exampleLines() (out []string) {
	for line := range strings.Lines(likeExamples) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			out = append(out, line)
		}
	}
	return append(out, "`a\\nb` + `\n`", "let x = 1;\n  x + 1")
}

func TestLikeExprLang(t *testing.T) {
	env := differentialEnv(t)
	for _, text := range exampleLines() {
		t.Run(text, func(t *testing.T) {
			if !compare(t, env, text) {
				_, err := there(env, text)
				t.Errorf("expr-lang gives no value: %v", err)
			}
		})
	}
}

func TestDifferencesFromExprLang(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(strings.Join(strings.Fields(string(doc)), " "), "## What differs from expr-lang")
	env := differentialEnv(t)
	for _, test := range differences {
		t.Run(test.text, func(t *testing.T) {
			if !strings.Contains(section, test.documented) {
				t.Errorf("the documentation does not say %q", test.documented)
			}
			got, err := there(env, test.text)
			got = plain(got)
			if e, ok := err.(*file.Error); ok {
				got = value.Error(e.Message)
			}
			if diff := cmp.Diff(test.there, got); diff != "" {
				t.Errorf("expr-lang: (-want +got)\n%s", diff)
			}
			got, err = here(env, test.text)
			if err != nil {
				got = value.Error(err.Error())
			}
			if diff := cmp.Diff(test.here, got); diff != "" {
				t.Errorf("here: (-want +got)\n%s", diff)
			}
		})
	}
}

// The tables use every function, operator and piece of syntax of expr-lang. So a new version that
// adds one cannot go unnoticed.
func TestComparisonCoversExprLang(t *testing.T) {
	used := make(map[string]bool)
	texts := exampleLines()
	for _, d := range differences {
		texts = append(texts, d.text)
	}
	for _, text := range texts {
		tokens, err := lexer.Lex(file.NewSource(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, token := range tokens {
			used[token.Value] = true
		}
	}
	names := slices.Concat(builtin.Names, []string{"?", "?.", "[", "{", "(", ":", ";", "#", ".", "..", "let", "if", "else"})
	for _, operators := range []map[string]operator.Operator{operator.Unary, operator.Binary} {
		for name := range operators {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !used[name] {
			t.Errorf("neither likeExamples nor differences uses %s", name)
		}
	}
}

func FuzzLikeExprLang(f *testing.F) {
	env := differentialEnv(f)
	for seed := range uint64(300) {
		f.Add(randomBytes(seed))
	}
	// The optimizer turns other expressions into findLast; see grammar.
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, env, generate(data), upstream.Optimize(false)) })
}

func randomBytes(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 10+random.IntN(100))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// The fuzzing compares something only if most generated expressions give a value. Together they
// must use most of the language.
func TestGeneratedExpressions(t *testing.T) {
	env := differentialEnv(t)
	var all strings.Builder
	values := 0
	for seed := range uint64(500) {
		text := generate(randomBytes(seed))
		all.WriteString(text)
		if v, err := there(env, text); v != nil && err == nil {
			values++
		}
	}
	if values < 400 {
		t.Errorf("only %d of 500 expressions give a value in expr-lang", values)
	}
	apart := []string{"now", "duration", "findLast", "findLastIndex"}
	for _, name := range builtin.Names {
		if _, left := absent[name]; !left && !slices.Contains(apart, name) && !strings.Contains(all.String(), name+"(") {
			t.Errorf("no generated expression calls %s", name)
		}
	}
}
