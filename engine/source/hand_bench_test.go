package source

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/object"
)

// One operation is a watch event, from its JSON to the consumer: it is read, indexed, stored and
// handed over.
func BenchmarkApply(b *testing.B) {
	s, _ := newInformers(b, &rest.Config{Host: "http://127.0.0.1:1"}, Options{})
	i := s.Informer(Selection{Resource: pods})
	if err := i.AddIndexers(map[string]Index{"v": {Paths: specV, Values: func(tree any) []string {
		return []string{versionIn(tree)}
	}}}); err != nil {
		b.Fatal(err)
	}
	i.Keep(new(object.Paths), specV)
	taken := 0
	i.Consume(steps(func(Step) { taken++ }))
	h := i.Hand()
	if err := h.List("1", nil); err != nil {
		b.Fatal(err)
	}
	var events [][]byte
	for n := range 2000 {
		events = append(events, []byte(podNamed(fmt.Sprint("p", n%1000), n+2)))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := h.Apply(events[n%len(events)]); err != nil {
			b.Fatal(err)
		}
	}
}
