// Package printable makes text from elsewhere fit for a log or a terminal.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of valid UTF-8 without white space around it: spaces stand for control
// characters, line breaks and marks that change the direction of writing. Of more than max bytes it
// returns as many whole characters as fit into max, and an ellipsis.
func Line(s string, max int) string {
	short := Cut(s, max)
	line := strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) ||
			r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(short, "")))
	if len(short) < len(s) {
		line += "…"
	}
	return line
}

// Cut returns the start of s: as many whole characters as fit into max bytes.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// Lines is Line for text of several lines, such as a stack: it keeps line breaks, and what lines
// are indented by.
func Lines(s string, max int) string {
	if !strings.Contains(s, "\n") {
		return Line(s, max)
	}
	short := Cut(s, max)
	var lines []string
	for line := range strings.SplitSeq(short, "\n") {
		text := strings.TrimLeft(line, " \t")
		lines = append(lines, line[:len(line)-len(text)]+Line(text, len(text)))
	}
	joined := strings.Trim(strings.Join(lines, "\n"), "\n")
	if len(short) < len(s) {
		joined += "…"
	}
	return joined
}
