package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain reports whether the last string or key is ASCII and has no escapes.
func (s *Scanner) Plain() bool { return s.plain }

// quoted returns the end of the string at i, after its closing quote.
func (s *Scanner) quoted(i int) (end int, err error) {
	end = plain(s.text, i+1)
	if end < len(s.text) && s.text[end] == '"' {
		s.plain = true
		return end + 1, nil
	}
	s.plain = false
	return s.quotedSlowly(i, end)
}

// plain returns where the next byte stands, from i on, that ends a string or stands for something
// else than itself in ASCII: a quote, a backslash, a control character, or part of a longer
// character.
func plain(text []byte, i int) int {
	const ones = 0x0101010101010101
	for ; i+8 <= len(text); i += 8 {
		// Look at eight bytes at once. found has a byte's highest bit set if the byte is one of
		// these. Subtractions borrow from higher bytes only where they found something, and the
		// lowest find counts.
		b := binary.LittleEndian.Uint64(text[i : i+8 : i+8])
		found := (b - ' '*ones) | (b ^ '"'*ones - ones) | (b ^ '\\'*ones - ones) | b
		if found &= 0x80 * ones; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] < 0x80 && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

// quotedSlowly returns the end of the string at start, which is plain before i.
func (s *Scanner) quotedSlowly(start, i int) (end int, err error) {
	ascii := true
	for ; i < len(s.text); i = plain(s.text, i) {
		switch c := s.text[i]; {
		case c == '"':
			if !ascii && s.record.on && !utf8.Valid(s.text[start:i]) {
				s.repair(start, i)
			}
			return i + 1, nil
		case c == '\\':
			if i, err = s.escape(i); err != nil {
				return 0, err
			}
		case c >= utf8.RuneSelf:
			ascii = false
			i++
		default:
			return 0, s.unexpected(i, "in a string")
		}
	}
	return 0, s.unexpected(i, "")
}

// escape returns the end of the escape sequence at i.
func (s *Scanner) escape(i int) (end int, err error) {
	i++
	if i == len(s.text) {
		return 0, s.unexpected(i, "")
	}
	switch s.text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, nil
	case 'u':
		for n := i + 1; n <= i+4; n++ {
			if n == len(s.text) || hex(s.text[n]) < 0 {
				return 0, s.unexpected(n, `in \u`)
			}
		}
		return i + 5, nil
	}
	return 0, s.unexpected(i, "in an escape sequence")
}

func hex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// Unquote returns what a valid JSON string, with its quotes, means. As in encoding/json, lone
// surrogates and bytes that are not UTF-8 become U+FFFD.
func Unquote(quoted []byte) string {
	in := quoted[1 : len(quoted)-1]
	n := plain(in, 0)
	if n == len(in) {
		return string(in)
	}
	out := append(make([]byte, 0, len(in)+utf8.UTFMax), in[:n]...)
	for in = in[n:]; len(in) > 0; {
		switch {
		case in[0] != '\\':
			r, size := utf8.DecodeRune(in)
			out = utf8.AppendRune(out, r)
			in = in[size:]
		case in[1] != 'u':
			out = append(out, unescaped[in[1]])
			in = in[2:]
		default:
			r := unit(in)
			in = in[6:]
			if utf16.IsSurrogate(r) {
				if r = utf16.DecodeRune(r, unit(in)); r != utf8.RuneError {
					in = in[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// unescaped maps the letter after a backslash to the character that the two stand for.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unit returns the UTF-16 unit at the start of text, written \uXXXX, or -1.
func unit(text []byte) (r rune) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	for _, c := range text[2:6] {
		r = r<<4 | hex(c)
	}
	return r
}
