// Package scan reads JSON text step by step and validates all that it passes, so that whoever looks
// for a few fields neither decodes the rest nor has to trust it. It accepts what encoding/json
// accepts, including bytes in strings that are not UTF-8, which mean U+FFFD. A [Scanner] can copy
// what it reads, without space and repaired to UTF-8: see [Scanner.Record].
package scan

import (
	"fmt"
	"io"
)

// Scanner reads values one after the other. It returns [io.ErrUnexpectedEOF] if the text ends
// within a value, or with a number, which might go on. It returns a [*SyntaxError] for text that is
// not JSON. After an error it may be anywhere, and [Scanner.Reset] starts over. It is not safe for
// concurrent use.
type Scanner struct {
	text []byte
	pos  int

	plain  bool // the last string read has no escapes, and is ASCII
	record recording
	nesting
}

// SyntaxError is an error in the JSON.
type SyntaxError struct {
	Offset int // of the byte that must not stand there
	msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at offset %d", e.msg, e.Offset) }

// New returns a Scanner of text, which must not change while the Scanner reads it. Its results are
// parts of text.
func New(text []byte) Scanner { return Scanner{text: text} }

// Reset starts another text. It keeps the memory of recordings, up to 1 MiB.
func (s *Scanner) Reset(text []byte) {
	out := s.record.out[:0]
	if cap(out) > 1<<20 {
		out = nil
	}
	*s = Scanner{text: text, record: recording{out: out}}
}

// Pos returns the offset of the next byte to read.
func (s *Scanner) Pos() int { return s.pos }

// Kind returns the first byte of the next value without consuming it: one of {["tfn-0123456789 for
// a valid value.
func (s *Scanner) Kind() (byte, error) {
	s.pos = s.space(s.pos)
	if s.pos == len(s.text) {
		return 0, io.ErrUnexpectedEOF
	}
	return s.text[s.pos], nil
}

// End returns nil if only space is left.
func (s *Scanner) End() error {
	s.pos = s.space(s.pos)
	if s.pos < len(s.text) {
		return s.unexpected(s.pos, "after the value")
	}
	return nil
}

// OpenObject consumes the { of an object.
func (s *Scanner) OpenObject() error { return s.open('{', "where an object should begin") }

// OpenList consumes the [ of a list.
func (s *Scanner) OpenList() error { return s.open('[', "where a list should begin") }

func (s *Scanner) open(bracket byte, where string) error {
	i := s.space(s.pos)
	if i == len(s.text) || s.text[i] != bracket {
		return s.unexpected(i, where)
	}
	s.pos = i + 1
	s.depth++
	s.deepest = max(s.deepest, s.depth)
	return nil
}

// NextKey consumes what precedes an object's next value: the comma, unless first is set, the key
// and the colon. Or it consumes the } after the last value. The key comes with its quotes.
func (s *Scanner) NextKey(first bool) (quoted []byte, more bool, err error) {
	i := s.space(s.pos)
	if i < len(s.text) && s.text[i] == '}' {
		s.pos = i + 1
		s.depth--
		return nil, false, nil
	}
	if !first {
		if i == len(s.text) || s.text[i] != ',' {
			return nil, false, s.unexpected(i, "after an object's value")
		}
		i = s.space(i + 1)
	}
	if i == len(s.text) || s.text[i] != '"' {
		return nil, false, s.unexpected(i, "where an object's key should begin")
	}
	end, err := s.quoted(i)
	if err != nil {
		return nil, false, err
	}
	colon := s.space(end)
	if colon == len(s.text) || s.text[colon] != ':' {
		return nil, false, s.unexpected(colon, "after an object's key")
	}
	s.pos = colon + 1
	return s.text[i:end], true, nil
}

// NextItem consumes what precedes a list's next value: the comma, unless first is set. Or it
// consumes the ] after the last value.
func (s *Scanner) NextItem(first bool) (more bool, err error) {
	i := s.space(s.pos)
	switch {
	case i == len(s.text):
		return false, io.ErrUnexpectedEOF
	case s.text[i] == ']':
		s.pos = i + 1
		s.depth--
		return false, nil
	case first:
		s.pos = i
		return true, nil
	case s.text[i] != ',':
		return false, s.unexpected(i, "after a list's value")
	}
	s.pos = i + 1
	return true, nil
}

// String consumes a string and returns it with its quotes.
func (s *Scanner) String() (quoted []byte, err error) {
	i := s.space(s.pos)
	if i == len(s.text) || s.text[i] != '"' {
		return nil, s.unexpected(i, "where a string should begin")
	}
	s.pos, err = s.quoted(i)
	if err != nil {
		return nil, err
	}
	return s.text[i:s.pos], nil
}

// space returns where the next byte stands, from i on, that is not space.
func (s *Scanner) space(i int) int {
	if i < len(s.text) && s.text[i] > ' ' {
		return i
	}
	return s.skipSpace(i)
}

//go:noinline
func (s *Scanner) skipSpace(from int) int {
	i := from
	for i < len(s.text) &&
		(s.text[i] == ' ' || s.text[i] == '\n' || s.text[i] == '\t' || s.text[i] == '\r') {
		i++
	}
	if i > from && s.record.on {
		s.leaveOut(from, i)
	}
	return i
}

func (s *Scanner) unexpected(i int, where string) error {
	if i >= len(s.text) {
		return io.ErrUnexpectedEOF
	}
	return &SyntaxError{Offset: i, msg: fmt.Sprintf("invalid character %q %s", s.text[i], where)}
}
