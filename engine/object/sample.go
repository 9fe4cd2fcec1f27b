package object

import (
	"math/rand/v2"

	"github.com/klauspost/compress/s2"
)

// sampleSize bounds the objects that make a dictionary, and sampledText the bytes of each, so that
// a sample never holds much.
const (
	sampleSize  = 128
	sampledText = 64 << 10
)

// sample is a uniform sample of the objects that it was shown.
type sample struct {
	objects []*Object
	seen    int
	bytes   int
	random  *rand.Rand
}

func newSample() sample { return sample{random: rand.New(rand.NewPCG(0, 0))} }

// add shows it an object whose text has size bytes.
func (s *sample) add(o *Object, size int) {
	s.seen++
	s.bytes += size
	if len(s.objects) < sampleSize {
		s.objects = append(s.objects, o)
	} else if n := s.random.IntN(s.seen); n < sampleSize {
		s.objects[n] = o
	}
}

// text returns the text for a dictionary: the beginnings of the objects, together at most a quarter
// of the bytes that the sample saw, and no more than fits a dictionary. beginning is how the
// objects begin.
func (s *sample) text() (text, beginning []byte) {
	limit := min(s.bytes/4, s2.MaxDictSize)
	text = make([]byte, 0, limit+16) // s2 copies the text unless its capacity has 16 more bytes
	for _, o := range s.objects {
		from, borrowed := o.content.Load().borrow()
		n := min(len(from), s2.MaxDictSize/8, limit-len(text))
		text = append(text, from[:n]...)
		giveBack(borrowed)
	}
	return text, text[:min(len(text), 64)]
}
