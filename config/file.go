package config

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// file is the text of one file. It converts between byte offsets and the lines and columns that
// people and the YAML parser use. The time for that depends neither on the file's length nor on
// that of a line: a hostile file may have a thousand mistakes on one line of a megabyte.
type file struct {
	path  string
	text  string
	lines []int // offsets at which lines start
	runes []int // how many characters precede each block of runeBlock bytes
	// within is the scalar of another file whose value the text is: a key of a ConfigMap. All
	// positions are then in that file. It is zero for a file of its own.
	within Text
}

const runeBlock = 1024

// newFile indexes text, which must be valid UTF-8.
func newFile(path, text string) *file {
	f := &file{path: path, text: text, lines: []int{0}}
	count := 0
	for i := range len(text) {
		if i%runeBlock == 0 {
			f.runes = append(f.runes, count)
		}
		if utf8.RuneStart(text[i]) {
			count++
		}
		if text[i] == '\n' || text[i] == '\r' && !strings.HasPrefix(text[i+1:], "\n") {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// runesBefore returns the number of characters that start before offset.
func (f *file) runesBefore(offset int) int {
	if len(f.runes) == 0 {
		return 0
	}
	block := min(offset/runeBlock, len(f.runes)-1)
	return f.runes[block] + countStarts(f.text[block*runeBlock:offset])
}

// countStarts counts the characters that start in s. s may itself start in the middle of one.
func countStarts(s string) int {
	n := 0
	for i := range len(s) {
		if utf8.RuneStart(s[i]) {
			n++
		}
	}
	return n
}

// line returns the line, from 0, that has offset.
func (f *file) line(offset int) int {
	i, found := slices.BinarySearch(f.lines, offset)
	if found {
		return i
	}
	return i - 1
}

// bounds returns where the text of a line, from 0, starts and ends, without its line break.
func (f *file) bounds(line int) (start, end int) {
	start, end = f.lines[line], len(f.text)
	if line+1 < len(f.lines) {
		end = f.lines[line+1]
	}
	for end > start && (f.text[end-1] == '\n' || f.text[end-1] == '\r') {
		end--
	}
	return start, end
}

// offset returns the byte offset of a line and column, both from 1. It moves positions outside the
// file into it.
func (f *file) offset(line, column int) int {
	start, end := f.bounds(min(max(line, 1), len(f.lines)) - 1)
	want := f.runesBefore(start) + max(column, 1) - 1
	// The last block with at most that many characters before it holds the character, or ends right
	// before it.
	block := sort.Search(len(f.runes), func(i int) bool { return f.runes[i] > want }) - 1
	at, have := start, f.runesBefore(start)
	if block >= 0 && block*runeBlock > start {
		at, have = block*runeBlock, f.runes[block]
	}
	for at < end && (have < want || !utf8.RuneStart(f.text[at])) {
		if utf8.RuneStart(f.text[at]) {
			have++
		}
		at++
	}
	return at
}

// position is the inverse of offset.
func (f *file) position(offset int) Position {
	if !f.within.IsZero() {
		return f.within.Position(offset)
	}
	offset = min(max(offset, 0), len(f.text))
	line := f.line(offset)
	start, end := f.bounds(line)
	return Position{
		File:   f.path,
		Line:   line + 1,
		Column: f.runesBefore(min(offset, end)) - f.runesBefore(start) + 1,
	}
}

// mistake returns a mistake at offset with the text around it.
func (f *file) mistake(offset int, message string) Mistake {
	if !f.within.IsZero() {
		return f.within.Mistake(offset, message)
	}
	pos := f.position(offset)
	start, end := f.bounds(pos.Line - 1)
	at := min(max(offset, start), end)
	snippet, caret := window(f.text[start:end], at-start)
	return Mistake{
		Position: pos, EndColumn: pos.Column + utf8.RuneCountInString(word(f.text[at:end])),
		Message: shown(message), Snippet: snippet, caret: caret,
	}
}

// maxWord bounds what word returns, in bytes: many mistakes may stand on one long line.
const maxWord = 1024

// word returns the word, or the quoted text, with which s begins.
func word(s string) string {
	s = s[:min(len(s), maxWord)]
	if s == "" {
		return ""
	}
	if quote := s[0]; quote == '"' || quote == '\'' {
		if end := strings.IndexByte(s[1:], quote); end >= 0 {
			return s[:end+2]
		}
	}
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.-/@$", r) {
			return s[:max(i, 1)]
		}
	}
	return s
}

// MistakeIn returns a mistake at an offset, in bytes, of a text that has a name of its own instead of
// a file's.
func MistakeIn(name, text string, offset int, message string) Mistake {
	return newFile(name, strings.ToValidUTF8(text, "\uFFFD")).mistake(offset, message)
}
