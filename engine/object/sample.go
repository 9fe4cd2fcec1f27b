package object

import (
	"math/rand/v2"

	"github.com/klauspost/compress/s2"
)

// sampleSize is how many objects a dictionary is made of, at most, and sampledText how many bytes each may have: a sample
// never holds on to much.
const (
	sampleSize  = 128
	sampledText = 64 << 10
)

// sample is a uniform one of the objects that it has been shown.
type sample struct {
	objects []*Object
	seen    int
	bytes   int
	random  *rand.Rand
}

func newSample() sample { return sample{random: rand.New(rand.NewPCG(0, 0))} }

// add shows it an object, whose text has that many bytes.
func (s *sample) add(o *Object, size int) {
	s.seen++
	s.bytes += size
	if len(s.objects) < sampleSize {
		s.objects = append(s.objects, o)
	} else if n := s.random.IntN(s.seen); n < sampleSize {
		s.objects[n] = o
	}
}

// text is what a dictionary is made of: the objects' beginnings, together at most a quarter of what was seen, and what fits
// a dictionary. beginning is how they begin.
func (s *sample) text() (text, beginning []byte) {
	limit := min(s.bytes/4, s2.MaxDictSize)
	text = make([]byte, 0, limit+16) // s2 wants 16 bytes beyond the end, or copies the text
	for _, o := range s.objects {
		from, borrowed := o.content.Load().borrow()
		n := min(len(from), s2.MaxDictSize/8, limit-len(text))
		text = append(text, from[:n]...)
		giveBack(borrowed)
	}
	return text, text[:min(len(text), 64)]
}
