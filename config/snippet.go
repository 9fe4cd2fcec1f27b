package config

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/informd/informd/internal/printable"
)

const (
	maxSnippet = 200 // characters of a line in a report
	maxQuoted  = 60  // characters of a value in a message
)

// window returns the part of line around offset, as shown, and the offset in it.
func window(line string, offset int) (string, int) {
	if len(line) <= maxSnippet*utf8.UTFMax && utf8.RuneCountInString(line) <= maxSnippet {
		before := shown(line[:offset])
		return before + shown(line[offset:]), len(before)
	}
	start, end := offset, offset
	for range maxSnippet/2 - 1 {
		_, size := utf8.DecodeLastRuneInString(line[:start])
		start -= size
	}
	for range maxSnippet/2 - 1 {
		_, size := utf8.DecodeRuneInString(line[end:])
		end += size
	}
	before, after := shown(line[start:offset]), shown(line[offset:end])
	if start > 0 {
		before = "…" + before
	}
	if end < len(line) {
		after += "…"
	}
	return before + after, len(before)
}

// shown replaces characters that are not visible, and invalid UTF-8. So that columns stay as they
// are, it leaves tabs and spaces of any width, and puts one character in the place of another.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || printable.IsVisible(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// padding returns white space as wide as s on a terminal.
func padding(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteByte('\t')
		case unicode.In(r, unicode.Mn, unicode.Me):
			// drawn over the character before it
		case unicode.Is(wide, r):
			b.WriteString("  ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// wide has the blocks whose characters take two columns (W and F in Unicode's EastAsianWidth).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97c, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff01, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// quote returns s in quotes, shortened, for a message.
func quote(s string) string { return strconv.Quote(clip(s, maxQuoted)) }

// clip shortens s to at most n characters.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
