package config

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// TestTextPosition marks one character of an expression with a preceding ^, in every YAML style,
// and looks up its position.
func TestTextPosition(t *testing.T) {
	for name, source := range map[string]string{
		"plain":                        `where: object.^X`,
		"plain, other characters":      `where: 日本 == object.^X`,
		"plain over lines":             "where: object.a\n  and\n\n\n  ^X",
		"plain, trailing space":        "where: a   \n   ^X",
		"plain, CRLF":                  "where: a\r\n\r\n   ^X\r\n",
		"in a flow mapping":            `where: {a: b, c: ^X}`,
		"in a list":                    "where:\n- a\n-   b ^X",
		"single quotes":                `where: 'it''s ^X'`,
		"single quotes over lines":     "where: 'a  \n\n   b ''^X'",
		"double quotes":                `where: "a ^X"`,
		"double quotes, escapes":       `where: "\"\t\x41\u00e9\U0001F600 ^X"`,
		"double quotes over lines":     "where: \"a\n\n  b \\\n   c \\\n\n  ^X\"",
		"double quotes, space escaped": "where: \"a\\ \n  \\  ^X\"",
		"an escape itself":             `where: "ab ^\x58"`,
		"literal":                      "where: |\n  a\n    b\n\n  ^X\n",
		"literal, empty lines first":   "where: |\n\n \n  a ^X\n",
		"literal, keep":                "where: |+ # comment\n  a\n  ^X\n\n\n",
		"literal, strip":               "where: |-\n  ^X\n\n",
		"literal, indicator":           "where: |2\n     a\n    ^X\n",
		"literal, indicator, deep":     "a:\n  b:\n    where: |-1\n        a\n        ^X\n",
		"literal, CRLF":                "where: |\r\n  a\r\n  ^X\r\n",
		"literal, comment after":       "where: |\n  ^X\n# comment\n",
		"literal, no last break":       "where: |\n  ^X",
		"folded":                       "where: >\n  a\n  b\n\n  c\n   d\n  ^X\n",
		"folded, more indented":        "where: >-\n  a\n\n    b\n\n  ^X\n",
		"folded, indicator":            "where: >1-\n   a\n  ^X\n",
		"folded, tab":                  "where: >\n  a\n  \tb\n  ^X\n",
	} {
		t.Run(name, func(t *testing.T) {
			// The YAML parser must not see the mark.
			mark := strings.Index(source, "^")
			source := source[:mark] + source[mark+1:]
			var document yaml.Node
			if err := yaml.Unmarshal([]byte(source), &document); err != nil {
				t.Fatal(err)
			}
			f := newFile("f", source)
			text := lastText(f, &document)
			if scanScalar(source, text.start, text.style, text.value) == nil {
				t.Fatalf("the scan disagrees with the value %q", text.value)
			}
			got, want := text.Position(strings.Index(text.value, "X")), f.position(mark)
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// lastText returns the last scalar below n.
func lastText(f *file, n *yaml.Node) Text {
	for n.Kind != yaml.ScalarNode {
		n = n.Content[len(n.Content)-1]
	}
	r := &reader{file: f}
	return r.text(n)
}

func TestTextEnd(t *testing.T) {
	for source, want := range map[string]string{
		"where: a ==":             "f:1:12",
		"where: a ==   # c":       "f:1:12",
		"where: 'a =='":           "f:1:13",
		`where: "a =\x3d"`:        "f:1:16",
		"where: |\n  a\n  b ==\n": "f:3:7",
		"where: >+\n  a\n\n\n":    "f:2:4",
		`where: "é"`:              "f:1:10",
	} {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(source), &document); err != nil {
			t.Fatal(err)
		}
		text := lastText(newFile("f", source), &document)
		for _, offset := range []int{len(text.value), len(text.value) + 10} {
			if got := text.Position(offset).String(); got != want {
				t.Errorf("%q at %d: got %s, want %s", source, offset, got, want)
			}
		}
	}
}

func TestTextOutsideAFile(t *testing.T) {
	text := NewText("object.a")
	if got := text.Mistake(3, "no").Error(); got != "no" || text.Position(3) != (Position{}) {
		t.Errorf("got %q at %v", got, text.Position(3))
	}
	if !(Text{}).IsZero() || text.IsZero() {
		t.Error("IsZero must be true of the zero Text and false of any other")
	}
}

// FuzzTextPosition parses any YAML and scans each of its scalars. The YAML parser's value is the
// oracle: the scan must find an origin for each byte of it, inside the file and in order.
func FuzzTextPosition(f *testing.F) {
	for _, s := range []string{
		manifests,
		"a: |\n  b\n c: d\n", "a: >2-\n\n    b\n   c\n\n d", "- 'a\n\n  b'\n- \"\\u00e9\\\n  x\"", "a\n b\n\n c", "a: |+\n\n\n", "- >\n\n  \n   x\n",
		"? |1\n  a\n: b", "a: \"\\t  \n\n \\  x \\\n   \\ y\"", "- |\n \n  \n   \n", "> a", ">\n\t\n", "\"\r\n \r\n a\\\r\n\"", "|\n a\r b", "- - - |-\n      a\n\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, bad := decode(File{Data: []byte(source)})
		if bad != nil {
			return
		}
		file := newFile("f", text)
		for _, part := range split(file) {
			root, bad := part.parse()
			if bad != nil || root == nil {
				continue
			}
			r := &reader{parser: new(parser), file: file, limit: 1}
			if !r.vet(root) || len(r.mistakes) > 0 {
				continue
			}
			checkScalars(t, file, root)
		}
	})
}

func checkScalars(t *testing.T, f *file, n *yaml.Node) {
	t.Helper()
	for _, child := range n.Content {
		checkScalars(t, f, child)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	start := f.offset(n.Line, n.Column)
	origins := scanScalar(f.text, start, n.Style, n.Value)
	if origins == nil {
		t.Fatalf("the scan disagrees with the value %q of the scalar at %v (style %d) of %q", n.Value, f.position(start), n.Style, f.text)
	}
	for i, at := range origins {
		if at < start || at > len(f.text) || i > 0 && at < origins[i-1] {
			t.Fatalf("byte %d of %q comes from %d of %q", i, n.Value, at, f.text)
		}
		if i == len(n.Value) || !utf8.RuneStart(n.Value[i]) {
			continue
		}
		// A character comes from itself or an escape. Where YAML folds white space, it comes from a
		// line break.
		switch r, _ := utf8.DecodeRuneInString(n.Value[i:]); {
		case strings.HasPrefix(f.text[at:], string(r)), f.text[at] == '\\' && n.Style&yaml.DoubleQuotedStyle != 0:
		case (r == ' ' || r == '\n') && (f.text[at] == '\n' || f.text[at] == '\r'):
		default:
			t.Fatalf("%q of %q comes from %q", r, n.Value, f.text[at:])
		}
	}
}

func TestFilePositions(t *testing.T) {
	long := strings.Repeat("é日x", 2000)
	text := "a\n" + long + "\r\nb\r\r" + long + "\n"
	f := newFile("f", text)
	line, column := 1, 1
	for i, r := range text {
		if got := f.position(i); got.Line != line || got.Column != column {
			// The second byte of CRLF counts as the end of its line.
			if r != '\n' || text[i-1] != '\r' {
				t.Fatalf("offset %d: got %v, want %d:%d", i, got, line, column)
			}
		} else if got := f.offset(line, column); got != i {
			t.Fatalf("%d:%d: got offset %d, want %d", line, column, got, i)
		}
		column++
		if r == '\n' || r == '\r' && !strings.HasPrefix(text[i+1:], "\n") {
			line, column = line+1, 1
		}
	}
	for _, outside := range [][2]int{{0, 0}, {-1, 5}, {1, 99}, {99, 1}, {99, 99}} {
		if got := f.offset(outside[0], outside[1]); got < 0 || got > len(text) {
			t.Errorf("%v: offset %d", fmt.Sprint(outside), got)
		}
	}
}
