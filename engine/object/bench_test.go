package object

import (
	"testing"

	"github.com/informd/informd/engine/object/scan"
)

// typicalView covers the paths that a handful of rules and indexes read.
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

// frames returns as many pods as fit the caches of an otherwise idle processor.
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
	view, c := typicalView(), newCluster(1, 40)
	packed, _ := packedPods(b, NewPacker(), c, 1000)
	var plain []*Object
	for _, o := range packed {
		plain = append(plain, mustObject(b, string(o.JSON())))
	}
	for name, objects := range map[string][]*Object{"plain": plain, "packed": packed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				objects[n%len(objects)].Decode(view)
			}
		})
	}
}

func BenchmarkPack(b *testing.B) {
	p := NewPacker()
	objects, left := packedPods(b, p, newCluster(1, 40), 1000)
	var plain []*content
	for _, o := range objects {
		plain = append(plain, &content{bytes: o.JSON()})
	}
	b.ReportAllocs()
	b.ReportMetric(100*left, "%left")
	for n := 0; b.Loop(); n++ {
		o := objects[n%len(objects)]
		o.content.Store(plain[n%len(objects)])
		p.Pack(o)
	}
}

func BenchmarkUnpack(b *testing.B) {
	objects, _ := packedPods(b, NewPacker(), newCluster(1, 40), 1000)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		objects[n%len(objects)].JSON()
	}
}
