package object

import (
	"testing"

	"github.com/informd/informd/engine/object/scan"
)

// typicalView is what a handful of rules and indexes read.
func typicalView() *Paths {
	p := new(Paths)
	for _, path := range [][]string{
		{"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "labels", "tier"}, {"spec", "nodeName"},
		{"spec", "containers", Each, "image"}, {"status", "phase"},
		{"status", "containerStatuses", Each, "restartCount"}, {"status", "containerStatuses", Each, "ready"},
	} {
		p.Add(path...)
	}
	return p
}

// frames are as many pods as fit the caches of a processor that does nothing else.
func frames() (texts [][]byte) {
	c := newCluster(1, 40)
	for range 64 {
		texts = append(texts, []byte(c.pod()))
	}
	return texts
}

func benchmarkTexts(b *testing.B, texts [][]byte, f func(text []byte)) {
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	b.SetBytes(int64(total / len(texts)))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		f(texts[n%len(texts)])
	}
}

func BenchmarkScan(b *testing.B) {
	var s scan.Scanner
	benchmarkTexts(b, frames(), func(text []byte) {
		s.Reset(text)
		if _, err := s.Skip(); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	view := typicalView()
	for _, c := range []struct {
		name       string
		keep, view *Paths
	}{{"whole", nil, nil}, {"whole+view", nil, view}, {"needed+view", view, view}} {
		b.Run(c.name, func(b *testing.B) {
			p := NewParser(c.keep, c.view)
			var s scan.Scanner
			benchmarkTexts(b, frames(), func(text []byte) {
				s.Reset(text)
				if _, _, err := p.Parse(&s); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	view := typicalView()
	var objects []*Object
	for _, text := range frames() {
		objects = append(objects, mustObject(b, string(text)))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		objects[n%len(objects)].Decode(view)
	}
}
