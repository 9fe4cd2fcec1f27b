package config

import (
	"strings"
	"unicode/utf8"
)

// scanBlock is scanScalar for block scalars, literal (|) and folded (>). If the header gives the
// indentation relative to the parent, the source alone does not say how far the lines are indented.
// So scanBlock tries each indentation: no two of them make the same value of a line that is not
// empty.
func scanBlock(src string, start int, value string, literal bool) []int {
	header := start
	for header < len(src) && !isBreak(src[header]) {
		header++
	}
	indicators, _, _ := strings.Cut(src[start:header], "#")
	low, high := 1, blockIndent(src, header)
	if i := strings.IndexAny(indicators, "123456789"); i >= 0 {
		low = int(indicators[i] - '0')
	} else {
		low = max(low, high)
	}
	for indent := low; indent <= max(low, high); indent++ {
		s := &scalarScan{src: src, pos: header, want: value, origins: make([]int, 0, len(value)+1)}
		s.block(indent, literal)
		if origins := s.result(); origins != nil {
			return origins
		}
	}
	return nil
}

// maxBlockIndent bounds the indentations that scanBlock tries.
const maxBlockIndent = 256

// blockIndent returns the indentation of the first line after header that is not empty, or of the
// deepest empty line before it, whichever is more.
func blockIndent(src string, header int) int {
	indent, column := 0, 0
	for i := header; i < len(src) && indent < maxBlockIndent; i++ {
		switch {
		case isBreak(src[i]):
			column = 0
		case src[i] == ' ':
			column++
			indent = max(indent, column)
		default:
			return indent
		}
	}
	return indent
}

// block reads the lines of a block scalar. pos is at the break that ends its header. It follows the
// reference parser step by step: it holds a break back until it knows whether the break folds.
func (s *scalarScan) block(indent int, literal bool) {
	if !s.more() {
		return
	}
	if isBreak(s.peek()) {
		s.lineBreak()
	}
	lastBreak, lastWasBlank := -1, false
	breaks := s.emptyLines(indent)
	for s.more() && s.peek() != 0 {
		blank := isBlank(s.peek())
		switch {
		case lastBreak < 0:
		case literal || lastWasBlank || blank:
			s.emit("\n", lastBreak)
		case len(breaks) == 0:
			s.emit(" ", lastBreak)
		}
		s.emitBreaks(breaks)
		for s.more() && s.peek() != 0 && !isBreak(s.peek()) {
			_, size := utf8.DecodeRuneInString(s.src[s.pos:])
			s.emit(s.src[s.pos:s.pos+size], s.pos)
			s.pos += size
		}
		if !s.more() {
			return
		}
		lastBreak, lastWasBlank = -1, blank
		if isBreak(s.peek()) {
			lastBreak = s.lineBreak()
		}
		breaks = s.emptyLines(indent)
		if s.rest(lastBreak, breaks) {
			return
		}
	}
	s.emitBreaks(breaks)
}

// rest emits the end of the value if only breaks are left of it: those that chomping kept.
func (s *scalarScan) rest(lastBreak int, breaks []int) bool {
	if strings.Trim(s.want[len(s.origins):], "\n") != "" {
		return false
	}
	if lastBreak >= 0 {
		s.emit("\n", lastBreak)
	}
	s.emitBreaks(breaks)
	return true
}

// emitBreaks emits a break for each empty line, as far as the value has them.
func (s *scalarScan) emitBreaks(breaks []int) {
	for _, at := range breaks {
		if s.more() {
			s.emit("\n", at)
		}
	}
}

// emptyLines moves to the first column of the block's next line with text. It returns the breaks of
// the lines in between.
func (s *scalarScan) emptyLines(indent int) (breaks []int) {
	for {
		for column := 0; column < indent && s.peek() == ' '; column++ {
			s.pos++
		}
		if !isBreak(s.peek()) {
			return breaks
		}
		breaks = append(breaks, s.lineBreak())
	}
}
