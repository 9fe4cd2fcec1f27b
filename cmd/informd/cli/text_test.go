package cli

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		" a\tb\n":             "a b",
		"\x1b]0;title\x07 x":  "]0;title  x",
		"\u202eright to left": "right to left",
		"größe — 大":           "größe — 大",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
