package object

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A fuzzer seldom finds such texts: many are nearly alike, and all touch the parts that matter.
func TestParseRandomTexts(t *testing.T) {
	packer := NewPacker()
	g := &generator{rand.New(rand.NewPCG(1, 2))}
	for range 1500 {
		text := g.object(0)
		if g.IntN(10) == 0 {
			text = g.broken(text)
		}
		check(t, packer, []byte(text), g.paths(), g.paths())
	}
}

// generator makes JSON from few names. So a name often occurs twice in an object, and often lies on
// a path.
type generator struct{ *rand.Rand }

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) space() string { return g.one("", "", "", "", " ", "\n\t") }

func (g *generator) object(depth int) string {
	var entries []string
	for range g.IntN(6) {
		key, value := g.one("a", "b", "c", "metadata", "[]", "", "\\u0061", "\xff", "\\ufffd", "é"), g.value(depth+1)
		if depth == 0 && g.IntN(2) == 0 {
			key, value = g.one("metadata", "metadata", "\\u006detadata"), g.one(g.metadata(), g.metadata(), g.metadata(), "null", g.value(1))
		}
		entries = append(entries, g.space()+`"`+key+`"`+g.space()+":"+value)
	}
	return g.space() + "{" + strings.Join(entries, ",") + "}" + g.space()
}

func (g *generator) metadata() string {
	var entries []string
	for range g.IntN(8) {
		key := g.one("name", "name", "namespace", "uid", "resourceVersion", "managedFields", "managedFields", "labels", "a", "n\\u0061me", "Name")
		value := `"` + g.one("x", "y", "", "\\n", "é", "\xe2\x82", `\"`, "a longer text than fits a word") + `"`
		if key == "managedFields" || key == "labels" || g.IntN(12) == 0 {
			value = g.value(1)
		}
		entries = append(entries, g.space()+`"`+key+`"`+g.space()+":"+g.space()+value+g.space())
	}
	return g.space() + "{" + strings.Join(entries, ",") + "}" + g.space()
}

func (g *generator) value(depth int) string {
	switch {
	case depth < 5 && g.IntN(3) == 0:
		return g.object(depth)
	case depth < 5 && g.IntN(3) == 0:
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth+1))
		}
		return g.space() + "[" + g.space() + strings.Join(items, ",") + "]" + g.space()
	}
	return g.space() + g.one("null", "true", "false", "0", "-0", "1.0", "-1.5e-3", "12345678901", "9223372036854775808", "1e309", "1E+2", `""`, `"text"`,
		`"\ud83d\ude00 \ud83d \"\\"`, "\"\xff\xfe\xe2\x82\"", `"ünïcödé of some length"`, `"`+strings.Repeat("long ", 10)+`"`) + g.space()
}

// broken returns text with one byte inserted, removed or changed.
func (g *generator) broken(text string) string {
	if text == "" {
		return text
	}
	n, with := g.IntN(len(text)), g.one(",", ":", "\"", "{", "}", "[", "]", "0", "-", ".", "e", "\\", "\x00", "\xff", "u", " ")
	return text[:n] + g.one("", with) + text[n+g.IntN(2):]
}

func (g *generator) paths() string {
	var paths []string
	for range g.IntN(4) {
		path := []string{g.one("a", "b", "metadata", "[]", "c")}
		for g.IntN(3) > 0 {
			path = append(path, g.one("a", "b", "c", "name", "uid", "labels", "managedFields", "[]", "\ufffd"))
		}
		paths = append(paths, strings.Join(path, "."))
	}
	return strings.Join(paths, " ")
}
