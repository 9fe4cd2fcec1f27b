package config

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalarScan reads a scalar from its source and records where each byte of the value comes from.
// The value that the parser made guides it. It stops at that value's end, and fails if the source
// would make another value. So it need not know what ends a scalar, and it notices when it is
// wrong.
type scalarScan struct {
	src     string
	pos     int
	want    string
	origins []int // of the bytes of want that are done
	failed  bool
}

// scanScalar returns the offset in src of each byte of value, and of its end. start is where the
// scalar begins. It returns nil if a scalar of that style cannot have the value. All bytes of a
// character or an escape come from its start.
func scanScalar(src string, start int, style yaml.Style, value string) []int {
	s := &scalarScan{src: src, pos: start, want: value, origins: make([]int, 0, len(value)+1)}
	switch style &^ yaml.TaggedStyle {
	case 0:
		s.flow(0)
	case yaml.SingleQuotedStyle:
		s.skip('\'')
		s.flow('\'')
	case yaml.DoubleQuotedStyle:
		s.skip('"')
		s.flow('"')
	case yaml.LiteralStyle:
		return scanBlock(src, start, value, true)
	case yaml.FoldedStyle:
		return scanBlock(src, start, value, false)
	default:
		return nil
	}
	return s.result()
}

func (s *scalarScan) result() []int {
	if s.failed || !s.done() {
		return nil
	}
	return append(s.origins, s.pos)
}

func (s *scalarScan) done() bool { return len(s.origins) == len(s.want) }

func (s *scalarScan) more() bool { return !s.failed && !s.done() }

// emit records that text comes from origin. The value must go on with text.
func (s *scalarScan) emit(text string, origin int) {
	if !strings.HasPrefix(s.want[len(s.origins):], text) {
		s.failed = true
		return
	}
	for range len(text) {
		s.origins = append(s.origins, origin)
	}
}

func (s *scalarScan) skip(b byte) {
	if s.peek() != b {
		s.failed = true
		return
	}
	s.pos++
}

// peek returns the next byte of the source, or 0 at its end. The source has no NUL.
func (s *scalarScan) peek() byte {
	if s.pos >= len(s.src) {
		return 0
	}
	return s.src[s.pos]
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }
func isBreak(b byte) bool { return b == '\n' || b == '\r' }

// lineBreak moves past one line break and returns where it began.
func (s *scalarScan) lineBreak() int {
	at := s.pos
	if strings.HasPrefix(s.src[s.pos:], "\r\n") {
		s.pos++
	}
	s.pos++
	return at
}

// flow reads a plain (quote 0) or quoted scalar, from after its opening quote.
func (s *scalarScan) flow(quote byte) {
	for s.more() {
		switch b := s.peek(); {
		case b == 0:
			s.failed = true
		case isBlank(b) || isBreak(b):
			s.fold()
		case quote == '\'' && b == '\'':
			if !strings.HasPrefix(s.src[s.pos:], "''") {
				s.failed = true
				return
			}
			s.emit("'", s.pos)
			s.pos += 2
		case quote == '"' && b == '\\':
			s.escape()
		default:
			_, size := utf8.DecodeRuneInString(s.src[s.pos:])
			s.emit(s.src[s.pos:s.pos+size], s.pos)
			s.pos += size
		}
	}
}

// fold reads white space. Within a line it stays. Around line breaks, one break becomes a space,
// and n breaks become n-1.
func (s *scalarScan) fold() {
	start := s.pos
	for isBlank(s.peek()) {
		s.pos++
	}
	if !isBreak(s.peek()) {
		for i := start; i < s.pos && s.more(); i++ {
			s.emit(s.src[i:i+1], i)
		}
		return
	}
	first := s.lineBreak()
	if s.foldedBreaks() == 0 {
		s.emit(" ", first)
	}
}

// foldedBreaks reads the indentation and empty lines after a line break, and returns how many
// breaks it emitted.
func (s *scalarScan) foldedBreaks() int {
	n := 0
	for {
		for isBlank(s.peek()) {
			s.pos++
		}
		if !isBreak(s.peek()) {
			return n
		}
		at := s.lineBreak()
		if s.more() {
			s.emit("\n", at)
		}
		n++
	}
}

// simpleEscapes has what the characters after a backslash stand for (YAML 1.2, section 5.7). Like
// the parser, it leaves out \/.
var simpleEscapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t",
	'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '\'': "'", '\\': `\`,
	'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escape reads a backslash and what belongs to it.
func (s *scalarScan) escape() {
	at := s.pos
	s.pos++
	if isBreak(s.peek()) { // joins two lines
		s.lineBreak()
		s.foldedBreaks()
		return
	}
	if s.pos == len(s.src) {
		s.failed = true
		return
	}
	s.pos = at + sourceLength(s.src[at:], yaml.DoubleQuotedStyle)
	if text, ok := simpleEscapes[s.src[at+1]]; ok {
		s.emit(text, at)
		return
	}
	// \x, \u or \U with a code in hexadecimal: the value says which character it is.
	_, size := utf8.DecodeRuneInString(s.want[len(s.origins):])
	s.emit(s.want[len(s.origins):][:size], at)
}

// sourceLength returns how many bytes the first character, or escape, of src takes.
func sourceLength(src string, style yaml.Style) int {
	length := 1
	switch {
	case src == "":
		return 0
	case style&yaml.SingleQuotedStyle != 0 && strings.HasPrefix(src, "''"):
		return 2
	case style&yaml.DoubleQuotedStyle != 0 && src[0] == '\\' && len(src) > 1:
		switch length = 2; src[1] {
		case 'x':
			length += 2
		case 'u':
			length += 4
		case 'U':
			length += 8
		}
	default:
		_, length = utf8.DecodeRuneInString(src)
	}
	return min(length, len(src))
}
