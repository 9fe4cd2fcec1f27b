package queue

import (
	"strconv"
	"testing"
)

// One operation is an Add, a Take and a Done.
func BenchmarkAddTakeDone(b *testing.B) {
	keys := benchKeys()
	q := newChanges(Options[string, change]{})
	c := change{"updated", "1", 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Add(keys[i%len(keys)], c)
		item, _ := q.Take()
		q.Done(item.Key)
	}
}

// The same with 10,000 keys waiting all the time.
func BenchmarkAddTakeDoneBehindBacklog(b *testing.B) {
	keys := benchKeys()
	q := newChanges(Options[string, change]{})
	c := change{"updated", "1", 1}
	for _, key := range keys {
		q.Add(key, c)
	}
	b.ReportAllocs()
	for b.Loop() {
		item, _ := q.Take()
		q.Done(item.Key)
		q.Add(item.Key, c)
	}
}

// One operation is an Add that merges.
func BenchmarkMerge(b *testing.B) {
	keys := benchKeys()
	q := newChanges(Options[string, change]{})
	c := change{"updated", "1", 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Add(keys[i%len(keys)], c)
	}
}

func benchKeys() []string {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = "namespace/pod-" + strconv.Itoa(i)
	}
	return keys
}
