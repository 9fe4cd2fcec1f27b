package object

import "bytes"

// Prune makes an Object of what p covers and the identity. What is left out reads as absent; lists keep their length,
// with null for elements of which nothing is covered. A p that has the [Identity] saves the work of adding it.
func (o *Object) Prune(p *Paths) *Object {
	if !hasIdentity(p) {
		keep := Identity()
		keep.Union(p)
		p = keep
	}
	if p.whole {
		return o
	}
	s := scanner{b: o.json}
	pruned := *o
	pruned.json = bytes.Clone(s.prune(make([]byte, 0, 512), p)) // cut to size: it is kept for long
	return &pruned
}

func (s *scanner) prune(out []byte, p *Paths) []byte {
	start := s.i
	switch {
	case p == nil:
		s.skip()
		return append(out, "null"...)
	case p.whole || s.b[s.i] != '{' && s.b[s.i] != '[':
		s.skip()
		return append(out, s.b[start:s.i]...)
	case s.b[s.i] == '[':
		return s.pruneList(out, p)
	}
	return s.pruneMap(out, p)
}

func (s *scanner) pruneMap(out []byte, p *Paths) []byte {
	s.i++ // {
	out = append(out, '{')
	first := true
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
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(out, key...), ':')
		out = s.prune(out, child)
	}
	s.i++ // }
	return append(out, '}')
}

func (s *scanner) pruneList(out []byte, p *Paths) []byte {
	s.i++ // [
	out = append(out, '[')
	for first := true; s.b[s.i] != ']'; first = false {
		if s.b[s.i] == ',' {
			s.i++
		}
		if !first {
			out = append(out, ',')
		}
		out = s.prune(out, p.each)
	}
	s.i++ // ]
	return append(out, ']')
}

// cutManagedFields returns b without metadata.managedFields: b itself if it has none, else a copy.
func cutManagedFields(b []byte) []byte {
	for from, to := managedFields(b); to > from; from, to = managedFields(b) { // once, but for duplicate keys
		cut := make([]byte, 0, len(b)-(to-from))
		b = append(append(cut, b[:from]...), b[to:]...)
	}
	return b
}

// managedFields finds the member, and the comma that goes with it.
func managedFields(b []byte) (from, to int) {
	if b[0] != '{' {
		return 0, 0
	}
	s := scanner{b: b, i: 1}
	for s.b[s.i] != '}' {
		if s.b[s.i] == ',' {
			s.i++
		}
		key := s.rawString()
		s.i++                    // :
		if is(key, "metadata") { // there may be several
			inside := s
			if from, to = inside.member("managedFields"); to > from {
				return from, to
			}
		}
		s.skip()
	}
	return 0, 0
}

// member finds a member of the map at hand: its key, its value, and one comma beside it.
func (s *scanner) member(name string) (from, to int) {
	if s.b[s.i] != '{' {
		return 0, 0
	}
	s.i++
	for s.b[s.i] != '}' {
		from = s.i // at the comma before, if there is one
		if s.b[s.i] == ',' {
			s.i++
		}
		key := s.rawString()
		s.i++ // :
		s.skip()
		if is(key, name) {
			if s.b[from] != ',' && s.b[s.i] == ',' {
				return from, s.i + 1
			}
			return from, s.i
		}
	}
	return 0, 0
}
