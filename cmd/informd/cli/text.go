package cli

import (
	"strings"
	"unicode"

	"github.com/informd/informd/internal/printable"
)

// Printable returns text on one line, with visible characters only. Use it for all that others
// wrote.
func Printable(text string) string { return strings.TrimSpace(Visible(text)) }

// Visible is Printable for a line whose indentation matters.
func Visible(line string) string {
	return strings.TrimRightFunc(printable.Visible(line), unicode.IsSpace)
}

// OneOf returns "a, b or c". There must be two choices or more.
func OneOf(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// Plural returns the noun, with an s unless n is 1.
func Plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Because returns the reason in parentheses, after a space; "" without a reason.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
