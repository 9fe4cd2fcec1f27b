package printable

import (
	"testing"
	"unicode"
)

// Visible characters are text to a terminal, and to YAML, which has no others than c-printable.
func TestVisible(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		isForbidden := r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r < 0xe000 ||
			r == 0xfeff || r == 0xfffe || r == 0xffff
		if IsVisible(r) && (actsOnTerminal(r) || isForbidden) {
			t.Errorf("%U is visible", r)
		}
	}
	const in, want = " a\tb\n\u00a0\u200b\ue000\xffgröße — 大\u202e", " a b    \ufffdgröße — 大 "
	if got := Visible(in); got != want {
		t.Errorf("got %q", got)
	}
}

func TestLine(t *testing.T) {
	for _, test := range []struct {
		why, in string
		max     int
		want    string
	}{
		{"plain", "not found", 20, "not found"},
		{"line breaks", "a\nb\r\nc", 20, "a b  c"},
		{"escapes of a terminal", "\x1b[31mred\x1b[0m", 20, "[31mred [0m"},
		{"direction of writing", "a\u202eb\u2028c", 20, "a b c"},
		{"invalid UTF-8", "a\xffb", 20, "ab"},
		{"white space around it", " \n a\t", 20, "a"},
		{"longer", "abcdef", 3, "abc…"},
		{"cut within a character", "aäb", 2, "a…"},
		{"no room", "ä", 0, "…"},
		{"nothing", "", 0, ""},
	} {
		if got := Line(test.in, test.max); got != test.want {
			t.Errorf("%s: %q, want %q", test.why, got, test.want)
		}
	}
}

func TestLines(t *testing.T) {
	for _, test := range []struct {
		why, in string
		max     int
		want    string
	}{
		{"a single line", " a\tb ", 20, "a b"},
		{"a stack", "goroutine 1:\nmain.f(0x1)\n\t/x/main.go:3\n", 50, "goroutine 1:\nmain.f(0x1)\n\t/x/main.go:3"},
		{"indentation, other line ends, an empty line", "a\r\n  b\n\nc", 20, "a\n  b\n\nc"},
		{"escapes of a terminal", "a\n\x1b[31mb", 20, "a\n[31mb"},
		{"longer", "ab\ncdef", 5, "ab\ncd…"},
		{"nothing but line breaks", "\n\n", 5, ""},
	} {
		if got := Lines(test.in, test.max); got != test.want {
			t.Errorf("%s: %q, want %q", test.why, got, test.want)
		}
	}
}
