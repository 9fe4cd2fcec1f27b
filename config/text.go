package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Text is a scalar that knows where it stands. The zero Text is no text.
type Text struct {
	value string
	file  *file
	start int // offset in the file of the scalar's first character, quote or block indicator
	style yaml.Style
}

// NewText returns a Text without a place, for configurations made by hand.
func NewText(value string) Text { return Text{value: value} }

// String returns the value, without quotes, escapes and folding.
func (t Text) String() string { return t.value }

// MarshalText returns the value, so that equal texts have equal JSON wherever they stand. The error
// is always nil.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.value), nil }

// IsZero reports whether there is no text.
func (t Text) IsZero() bool { return t == Text{} }

// Position returns the place of byte offset of the value. An offset at the value's end or beyond is
// after the last character that is not white space.
func (t Text) Position(offset int) Position {
	if t.file == nil {
		return Position{}
	}
	return t.file.position(t.origin(offset))
}

// Mistake returns a mistake at byte offset of the value.
func (t Text) Mistake(offset int, message string) Mistake {
	if t.file == nil {
		return Mistake{Message: shown(message)}
	}
	return t.file.mistake(t.origin(offset), message)
}

// Comment returns the YAML comment that ends the text: what stands behind it in its line, from # on.
// Only a text without quotes has one, and its author may have meant it as text.
func (t Text) Comment() string {
	if t.file == nil || t.style != 0 || t.value == "" {
		return ""
	}
	origins := scanScalar(t.file.text, t.start, t.style, t.value)
	if origins == nil {
		return ""
	}
	end := t.afterLast(origins, len(t.value))
	_, lineEnd := t.file.bounds(t.file.line(end))
	behind := strings.TrimLeft(t.file.text[end:max(end, lineEnd)], " \t")
	if !strings.HasPrefix(behind, "#") {
		return ""
	}
	return behind
}

// origin returns the offset in the file of byte offset of the value. It scans the scalar again,
// guided by the parser's value. If the two disagree, it returns the start of the scalar.
func (t Text) origin(offset int) int {
	origins := scanScalar(t.file.text, t.start, t.style, t.value)
	if origins == nil {
		return t.start
	}
	if end := len(strings.TrimRight(t.value, " \t\n")); offset >= end && end > 0 {
		return t.afterLast(origins, end)
	}
	return origins[min(max(offset, 0), len(t.value))]
}

// afterLast returns the origin of what follows the first end bytes of the value.
func (t Text) afterLast(origins []int, end int) int {
	last := end - 1
	for last > 0 && origins[last-1] == origins[last] { // the bytes of one escape
		last--
	}
	return origins[last] + sourceLength(t.file.text[origins[last]:], t.style)
}
