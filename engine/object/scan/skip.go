package scan

import (
	"io"
	"strconv"
)

// brackets is a stack of the open brackets, one bit each: 1 for an object.
type brackets struct {
	top   uint64 // the last up to 64
	below []uint64
	n     int
}

func (b *brackets) push(object uint64) {
	if b.n%64 == 0 && b.n > 0 {
		b.below = append(b.below, b.top)
	}
	b.top = b.top<<1 | object
	b.n++
}

func (b *brackets) pop() {
	b.n--
	b.top >>= 1
	if b.n%64 == 0 && b.n > 0 {
		b.top = b.below[len(b.below)-1]
		b.below = b.below[:len(b.below)-1]
	}
}

// Skip consumes one value and returns it as it stands in the text. It does not recurse, so a value
// may nest to any depth.
func (s *Scanner) Skip() (raw []byte, err error) {
	var open brackets
	deepest := 0
	text, i := s.text, s.space(s.pos)
	start := i
	if i < len(text) && text[i] == '"' {
		if s.pos, err = s.quoted(i); err != nil {
			return nil, err
		}
		return text[start:s.pos], nil
	}
value:
	if i >= len(text) {
		return nil, io.ErrUnexpectedEOF
	}
	switch c := text[i]; {
	case c == '"':
		end := plain(text, i+1)
		if end < len(text) && text[end] == '"' {
			i = end + 1
		} else if i, err = s.quotedSlowly(i, end); err != nil {
			return nil, err
		}
	case c == '{':
		open.push(1)
		deepest = max(deepest, open.n)
		i = s.space(i + 1)
		if i < len(text) && text[i] == '}' {
			goto after
		}
		goto key
	case c == '[':
		open.push(0)
		deepest = max(deepest, open.n)
		i = s.space(i + 1)
		if i == len(text) || text[i] != ']' {
			goto value
		}
	case c <= ' ':
		if i = s.skipSpace(i); i < len(text) && text[i] > ' ' {
			goto value
		}
		return nil, s.unexpected(i, "where a value should begin")
	default:
		if i, err = s.scalar(i); err != nil {
			return nil, err
		}
	}
after:
	if open.n == 0 {
		s.pos = i
		s.deepest = max(s.deepest, s.depth+deepest)
		return text[start:i], nil
	}
	if i >= len(text) {
		return nil, io.ErrUnexpectedEOF
	}
	switch c, object := text[i], open.top&1 == 1; {
	case c == ',':
		i++
		if !object {
			goto value
		}
		i = s.space(i)
	case c == '}' && object, c == ']' && !object:
		open.pop()
		i++
		goto after
	case c <= ' ':
		if i = s.skipSpace(i); i == len(text) || text[i] > ' ' {
			goto after
		}
		fallthrough
	case object:
		return nil, s.unexpected(i, "after an object's value")
	default:
		return nil, s.unexpected(i, "after a list's value")
	}
key:
	if i >= len(text) || text[i] != '"' {
		return nil, s.unexpected(i, "where an object's key should begin")
	}
	end := plain(text, i+1)
	if end < len(text) && text[end] == '"' {
		i = end + 1
	} else if i, err = s.quotedSlowly(i, end); err != nil {
		return nil, err
	}
	i = s.space(i)
	if i >= len(text) || text[i] != ':' {
		return nil, s.unexpected(i, "after an object's key")
	}
	i++
	goto value
}

// scalar returns the end of the number, true, false or null at i.
func (s *Scanner) scalar(i int) (end int, err error) {
	switch s.text[i] {
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

func (s *Scanner) literal(i int, word string) (end int, err error) {
	if rest := s.text[i:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
		return i + len(word), nil
	}
	for n := range len(word) {
		if i+n == len(s.text) || s.text[i+n] != word[n] {
			return 0, s.unexpected(i+n, "in "+word)
		}
	}
	return i + len(word), nil
}

// number returns the end of the number at i.
func (s *Scanner) number(i int) (end int, err error) {
	start := i
	if s.text[i] == '-' {
		i++
	}
	switch {
	case i == len(s.text):
		return 0, io.ErrUnexpectedEOF
	case s.text[i] == '0':
		i++
	case '1' <= s.text[i] && s.text[i] <= '9':
		i = s.digits(i)
	case i > start:
		return 0, s.unexpected(i, "in a number")
	default:
		return 0, s.unexpected(i, "where a value should begin")
	}
	large := i-start > 308
	if i < len(s.text) && s.text[i] == '.' {
		from := i + 1
		if i = s.digits(from); i == from {
			return 0, s.unexpected(i, "in a number")
		}
	}
	if i < len(s.text) && s.text[i]|0x20 == 'e' {
		large = true
		i++
		if i < len(s.text) && (s.text[i] == '+' || s.text[i] == '-') {
			i++
		}
		from := i
		if i = s.digits(from); i == from {
			return 0, s.unexpected(i, "in a number")
		}
	}
	if i == len(s.text) {
		return 0, io.ErrUnexpectedEOF
	}
	if large && !s.outOfRange {
		_, err := strconv.ParseFloat(string(s.text[start:i]), 64)
		s.outOfRange = err != nil
	}
	return i, nil
}

func (s *Scanner) digits(i int) int {
	for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
		i++
	}
	return i
}
