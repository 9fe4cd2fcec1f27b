package client

import (
	"strings"
	"testing"
)

// What is taller or wider than the terminal must not scroll it.
func TestScreen(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"what fits", "a\nb\nc\n", "a|b|c|"},
		{"one line too many", "a\nb\nc\nd\n", "a|b|… 2 more lines…$"},
		{"a long line", strings.Repeat("x", 20) + "\n", strings.Repeat("x", 14) + "…$"},
		{"as long as the terminal is wide", strings.Repeat("x", 15) + "\n", strings.Repeat("x", 15) + "$"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := screen(test.text, 15, 4)
			want := "\x1b[H" + strings.NewReplacer("|", "\x1b[K\n", "$", "\n").Replace(test.want) + "\x1b[J"
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
