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

// withoutManagedFields is a copy of b without metadata.managedFields, in memory of its size.
func withoutManagedFields(b []byte) []byte {
	s := scanner{b: b}
	out := s.without(make([]byte, 0, len(b)), "metadata", "managedFields")
	if len(out) < len(b) {
		return bytes.Clone(out)
	}
	return out
}

// without copies the value at hand but for what is at path. A key that a map has twice is taken as often.
func (s *scanner) without(out []byte, path ...string) []byte {
	if s.b[s.i] != '{' {
		start := s.i
		s.skip()
		return append(out, s.b[start:s.i]...)
	}
	s.i++ // {
	out = append(out, '{')
	for first := true; s.b[s.i] != '}'; {
		if s.b[s.i] == ',' {
			s.i++
		}
		start := s.i
		here := is(s.rawString(), path[0])
		s.i++ // :
		if here && len(path) == 1 {
			s.skip()
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		if here {
			out = s.without(append(out, s.b[start:s.i]...), path[1:]...)
			continue
		}
		s.skip()
		out = append(out, s.b[start:s.i]...)
	}
	s.i++ // }
	return append(out, '}')
}
