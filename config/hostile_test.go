package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHostileInput checks that Parse returns, whatever the bytes, and reports the mistakes in few
// words. Inputs that take long to parse fill a third of the largest file, or all of it in `make
// soak`.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	part := 3
	if os.Getenv("INFORMD_SOAK") != "" {
		part = 1
	}
	random := make([]byte, maxFile)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)

	handler := func(config string) string {
		return "apiVersion: informd.dev/v1alpha1\nkind: Handler\nmetadata: {name: log}\nspec:\n  builtin: log\n  config: " + config
	}
	confining := func(fields string) string {
		return "{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: log}, spec: {builtin: log, " + fields + "}}"
	}
	for name, c := range map[string]struct {
		data string
		want string // the report must contain it
	}{
		"random bytes":        {string(random), "a.yaml:1:"},
		"too long":            {strings.Repeat("a", maxFile+1), "a.yaml: the file is larger than 1048576 bytes"},
		"NUL":                 {"a: b\nc: \x00", "a.yaml:2:4: control character U+0000 is not allowed"},
		"escape sequence":     {"a: \x1b[31m", "a.yaml:1:4: control character U+001B is not allowed\n  a: \n     ^"},
		"not UTF-8":           {"é: \xff", "a.yaml:1:4: byte 0xff is not UTF-8 text"},
		"UTF-16":              {"\xff\xfea\x00", "a.yaml: the file is UTF-16: save it as UTF-8"},
		"byte order mark":     {"a: \ufeff", "a.yaml:1:4: byte order mark U+FEFF is not allowed within a file"},
		"line separator":      {"a: \u2028", "a.yaml:1:4: line separator U+2028 is not allowed"},
		"alias bomb":          {handler("\n    a: &a [x,x]\n    b: &b [*a,*a]\n    c: &c [*b,*b]\n"), "a.yaml:7:8: anchors and aliases are not allowed"},
		"alias of itself":     {handler("&a [*a]"), "anchors and aliases are not allowed"},
		"nested lists":        {handler(strings.Repeat("[", 100_000)), "not YAML: exceeded max depth"},
		"nested mappings":     {handler(strings.Repeat("{a: ", 100_000)), "not YAML: exceeded max depth"},
		"nested block lists":  {strings.Repeat("- ", 100_000), "not YAML: exceeded max depth"},
		"nested, well-formed": {handler(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), "nested more than 64 deep"},
		"nested, just too":    {handler(strings.Repeat("[", 63) + strings.Repeat("]", 63)), "nested more than 64 deep"},
		"many keys":           {handler("{" + strings.Repeat("a: b, ", 150_000/part) + "}"), "… and 901 more"},
		"many aliases":        {handler("[" + strings.Repeat("*a, ", 200_000) + "]"), "unknown anchor"},
		"many anchors":        {handler("[" + strings.Repeat("&a x, ", 150_000/part) + "]"), "… and 901 more"},
		"many documents":      {strings.Repeat("---\n", 250_000), "no manifest in a.yaml"},
		"many scalars":        {strings.Repeat("--- a\n", 150_000/part), "… and 901 more"},
		"many comments":       {strings.Repeat("#\n", 500_000), "no manifest in a.yaml"},
		"one long scalar":     {handler("a: " + strings.Repeat("x", 1_000_000)), "not YAML: mapping values are not allowed"},
		"one long name":       {"kind: " + strings.Repeat("x", 1_000_000), `unknown kind "xxxxx`},
		"question marks":      {strings.Repeat("? ", 100_000), "not YAML: exceeded max depth"},
		"open quote":          {"a: '" + strings.Repeat("\n", 1_000_000), "a quote is not closed"},
		"an exponent":         {confining("limits: {memory: 1e2147483647, cpu: 1E-2147483648}"), "spec.limits.memory must be an amount of memory"},
		"many digits":         {confining("limits: {memory: " + strings.Repeat("9", 900_000) + "Mi}"), "spec.limits.memory must be an amount of memory"},
		"many paths":          {confining("sandbox: true, files: {read: [" + strings.Repeat("~/a, ", 150_000/part) + "]}"), "… and 901 more"},
		"many ports":          {confining("sandbox: true, network: [" + strings.Repeat("443, ", 150_000/part) + "]"), "… and 901 more"},
		"a long user":         {confining("user: " + strings.Repeat("1", 900_000)), "spec.user must be"},
		"a deep template":     {actingOn("{metadata: {name: a}, d: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}"), "spec.actions[0].apply.object is nested more than 16 deep"},
		"a long template":     {actingOn("{metadata: {name: a}, d: [" + strings.Repeat(`"${x", `, 120_000/part) + "]}"), "no mistake"},
		"an alias in one":     {actingOn("{metadata: &m {name: a}, d: *m, e: *m}"), "anchors and aliases are not allowed"},
		"one of itself":       {actingOn("&o {metadata: {name: a}, d: *o}"), "anchors and aliases are not allowed"},
		"many nans":           {actingOn("{metadata: {name: a}, d: [" + strings.Repeat(".nan, ", 150_000/part) + "]}"), "… and 901 more"},
		"many actions":        {actingOn("{metadata: {name: a}}}}, " + strings.Repeat("{delete: {}}, ", 60_000/part) + "{apply: {resource: v1/pods, object: {metadata: {name: a}}"), fmt.Sprintf("spec.actions has %d elements, more than 64", 60_000/part+2)},
		"many grants":         {handlerWith("access: {write: [" + strings.Repeat("{resource: v1/pods, verbs: [patch]}, ", 20_000) + "]}"), "spec.access.write has 20000 elements, more than 256"},
		"a long pattern":      {handlerWith("access: {write: [{resource: v1/pods, verbs: [patch], names: [\"" + strings.Repeat("[", 900_000) + "\"]}]}"), "is not a pattern"},
		"bad references":      {strings.Repeat("{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: r}, spec: {source: aaaaaaaaaaaaaaaa, handler: bbbb}}\n---\n", 900), "… and "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(c.data)}})
			report := mistakes.Error()
			if len(mistakes) == 0 {
				report = "no mistake"
			}
			if !strings.Contains(report, c.want) {
				t.Errorf("got %.500s\nwant %s", report, c.want)
			}
			if len(report) > 100_000 {
				t.Errorf("the report has %d bytes", len(report))
			}
			checkPositions(t, mistakes, c.data)
		})
	}
}

// actingOn returns a rule that applies an object.
func actingOn(object string) string {
	return "{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: s}, spec: {resource: v1/pods}}\n---\n" +
		"{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: a}, spec: {source: s, actions: [{apply: {resource: v1/configmaps, object: " + object + "}}]}}\n"
}

func handlerWith(fields string) string {
	return "{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: a}, spec: {builtin: log, " + fields + "}}\n"
}

// checkPositions fails t if a mistake lies outside the file.
func checkPositions(t *testing.T, mistakes Mistakes, data string) {
	t.Helper()
	text := strings.TrimPrefix(data, "\ufeff")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
	widths := map[int]int{} // per line that a mistake points to
	for _, m := range mistakes {
		if m.Line == 0 {
			continue
		}
		if m.Line > len(lines) {
			t.Fatalf("%v is outside the file", m.Position)
		}
		if _, ok := widths[m.Line]; !ok {
			widths[m.Line] = utf8.RuneCountInString(lines[m.Line-1])
		}
		if m.Column < 1 || m.Column > widths[m.Line]+1 {
			t.Fatalf("%v is outside the file", m.Position)
		}
		if utf8.RuneCountInString(m.Snippet) > maxSnippet || m.caret > len(m.Snippet) {
			t.Fatalf("snippet %q with its caret at %d", m.Snippet, m.caret)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(manifests)
	f.Add(actingOn("{metadata: {name: \"a-${item}\"}, d: [\"${object.a}\", ~, 1.0, {b: $${c}}]}"))
	f.Add(handlerWith("access: {write: [{resource: v1/pods/status, verbs: [patch], names: [\"a*\"]}]}"))
	f.Add("apiVersion: informd.dev/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec:\n  start: 2026-01-02T03:00:00Z\n  rules: [r]\n  steps:\n" +
		"  - apply: {source: s, object: {metadata: {name: a}}}\n  - {after: 5m, expect: [], exact: true}\n  - restart: {down: 1s, meanwhile: [{delete: {source: s, name: a}}]}\n" +
		"  - answer: {rule: r, actions: [{patch: {merge: {a: b}}}]}\n  - expect:\n    - name: a # so\n      actions: [{delete: {}}]\n    - {payload: \"}\"}\n")
	for _, s := range []string{"", "a", "%YAML 9\n---\na", "--- {}\n... x\n", "a: {b: [c", "\"", "? ? : :\n", "\ufeff---\r\n- x\r", "metadata: {name: !x y}", "kind: [Rule]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		config, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(data)}})
		if len(mistakes) == 0 && len(config.Sources)+len(config.Handlers)+len(config.Rules)+len(config.Tests)+len(config.Definitions) == 0 {
			t.Fatal("neither a manifest nor a mistake")
		}
		checkPositions(t, mistakes, data)
		if report := mistakes.Error(); !utf8.ValidString(report) || strings.ContainsAny(report, "\x00\x1b\r") {
			t.Fatalf("the report is not fit for a terminal: %q", report)
		}
		for _, r := range config.Rules {
			for _, text := range []Text{r.At, r.Where, r.When, r.SourceAt} {
				for offset := range len(text.String()) + 2 {
					if text.IsZero() {
						break
					}
					checkPositions(t, Mistakes{text.Mistake(offset, "x")}, data)
				}
			}
		}
	})
}
