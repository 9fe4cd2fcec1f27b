package cli

import (
	"strings"
	"unicode"
)

// Printable keeps what others wrote from playing with the terminal, on one line.
func Printable(text string) string { return strings.TrimSpace(Visible(text)) }

// Visible is Printable for a line whose indentation means something.
func Visible(line string) string {
	return strings.TrimRightFunc(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line), unicode.IsSpace)
}

// OneOf writes "a, b or c".
func OneOf(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

func Plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
