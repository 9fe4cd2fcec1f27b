package object

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Decode decodes what p covers, and nothing else, into a tree of map[string]any, []any, string, bool, nil, int64 (an
// integer that fits) and float64. A list has all of its elements, so that indexes and lengths are right, with nil
// for those of which nothing is covered; a map only has the keys on covered paths. The tree is the caller's. Nothing
// covered gives nil.
func (o *Object) Decode(p *Paths) any {
	if p.IsEmpty() {
		return nil
	}
	s := scanner{b: o.json}
	return s.decode(p)
}

// Decoder decodes the same paths of one object after another, and remembers the last two objects' trees: those of a
// change, which any number of expressions look at. The trees must not be changed. It is not safe for concurrent use.
type Decoder struct {
	paths *Paths
	last  [2]struct {
		object *Object
		tree   any
	}
	next int
}

// NewDecoder makes a Decoder of p, which must not change while it is in use.
func NewDecoder(p *Paths) *Decoder { return &Decoder{paths: p} }

// Tree is o.Decode(p), or what it was last time. A nil Object gives nil.
func (d *Decoder) Tree(o *Object) any {
	if o == nil {
		return nil
	}
	for i := range d.last {
		if d.last[i].object == o {
			d.next = 1 - i
			return d.last[i].tree
		}
	}
	tree := o.Decode(d.paths)
	d.last[d.next].object, d.last[d.next].tree = o, tree
	d.next = 1 - d.next
	return tree
}

// scanner reads compact JSON that is known to be valid: it checks nothing, and moves over what nobody asked for as fast
// as it can find where that ends.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) decode(p *Paths) any {
	switch s.b[s.i] {
	case '{':
		return s.decodeMap(p)
	case '[':
		return s.decodeList(p)
	}
	return s.scalar() // also where a path would go on: the value is what tells that it does not
}

func (s *scanner) decodeMap(p *Paths) map[string]any {
	out := make(map[string]any, len(p.fields))
	s.i++ // {
	for s.b[s.i] != '}' {
		if s.b[s.i] == ',' {
			s.i++
		}
		key := s.rawString()
		s.i++ // :
		child := p.atKey(key)
		if child == nil {
			s.skip()
			continue
		}
		out[unquote(key)] = s.decode(child)
	}
	s.i++ // }
	return out
}

func (s *scanner) decodeList(p *Paths) []any {
	out := []any{}
	child := p.each
	if p.whole {
		child = p
	}
	s.i++ // [
	for s.b[s.i] != ']' {
		if s.b[s.i] == ',' {
			s.i++
		}
		if child == nil {
			s.skip()
			out = append(out, nil)
			continue
		}
		out = append(out, s.decode(child))
	}
	s.i++ // ]
	return out
}

func (s *scanner) scalar() any {
	switch s.b[s.i] {
	case '"':
		return unquote(s.rawString())
	case 't':
		s.i += len("true")
		return true
	case 'f':
		s.i += len("false")
		return false
	case 'n':
		s.i += len("null")
		return nil
	}
	start := s.i
	s.skipNumber()
	return number(s.b[start:s.i])
}

// rawString moves over a string and returns it with its quotes.
func (s *scanner) rawString() []byte {
	start := s.i
	s.i++
	for {
		s.i += bytes.IndexByte(s.b[s.i:], '"') + 1
		if s.b[s.i-2] != '\\' || s.closes(start) {
			return s.b[start:s.i]
		}
	}
}

// closes tells whether the quote just passed ends the string, behind a backslash as it is: not if that escapes it.
func (s *scanner) closes(start int) bool {
	backslashes := 0
	for i := s.i - 2; i > start && s.b[i] == '\\'; i-- {
		backslashes++
	}
	return backslashes%2 == 0
}

// skip moves over one value.
func (s *scanner) skip() {
	switch s.b[s.i] {
	case '"':
		s.rawString()
	case '{', '[':
		s.skipNested()
	case 't', 'n':
		s.i += 4
	case 'f':
		s.i += 5
	default:
		s.skipNumber()
	}
}

func (s *scanner) skipNested() {
	for open := 0; ; {
		switch s.b[s.i] {
		case '"':
			s.rawString()
			continue
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		s.i++
		if open == 0 {
			return
		}
	}
}

func (s *scanner) skipNumber() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']':
			return
		}
		s.i++
	}
}

// number is an int64 where the text is an integer that fits, as apimachinery's util/json has it, else a float64.
func number(text []byte) any {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(string(text), 64) // out of range: ±Inf, or 0
	return f
}

func escaped(quoted []byte) bool { return bytes.IndexByte(quoted, '\\') >= 0 }

// is tells whether a valid JSON string is the text.
func is(quoted []byte, text string) bool {
	if escaped(quoted) {
		return unquote(quoted) == text
	}
	return string(quoted[1:len(quoted)-1]) == text
}

// unquote decodes a valid JSON string. What is not UTF-8 becomes U+FFFD, as encoding/json has it.
func unquote(quoted []byte) string {
	if !escaped(quoted) && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var out string
	_ = json.Unmarshal(quoted, &out) // valid by the scanner's contract
	return out
}

// depth is how deep valid JSON nests.
func depth(b []byte) int {
	deepest, open := 0, 0
	for s := (scanner{b: b}); s.i < len(b); {
		switch b[s.i] {
		case '"':
			s.rawString()
			continue
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
		s.i++
	}
	return deepest
}
