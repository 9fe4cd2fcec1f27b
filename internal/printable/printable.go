// Package printable makes text from elsewhere fit for a log or a terminal.
//
// It knows two kinds of characters to beware of. A terminal acts on the first: control characters,
// and marks that change the direction of writing. [Line], [Lines], [Escape], [JSON] and [Writer]
// replace those alone, because what they return may be used as a value again. A reader cannot see
// the second kind, or takes it for another: spaces of other widths, characters without a width,
// unassigned and private ones. [IsVisible] is false for both kinds, and [Visible] replaces both. It
// is for text that people only look at.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// actsOnTerminal reports whether a terminal obeys a character rather than show it, or shows others
// elsewhere because of it: control characters, and marks that change the direction of writing.
func actsOnTerminal(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// IsVisible reports whether a reader sees which character it is: a letter, mark, digit, punctuation,
// symbol, or ASCII's space. No such character acts on a terminal, and YAML allows all of them.
func IsVisible(r rune) bool { return unicode.IsPrint(r) }

// Visible returns s as valid UTF-8 on one line: a space stands for each character that is not
// visible.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if IsVisible(r) {
			return r
		}
		return ' '
	}, s)
}

// Line returns s as one line of valid UTF-8 without white space around it: spaces stand for control
// characters, line breaks and marks that change the direction of writing. Of more than max bytes it
// returns as many whole characters as fit into max, and an ellipsis.
func Line(s string, max int) string {
	short := Cut(s, max)
	line := strings.TrimSpace(strings.Map(func(r rune) rune {
		if actsOnTerminal(r) {
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
