package targets

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// perAsker is how many targets a source object of the benchmarks asks for.
const perAsker = 1000

// fill makes n claims that are done.
func fill(table *Table, n int) {
	for i := range n / perAsker {
		a := Asker{"copy", delta.Key{Namespace: "team", Name: fmt.Sprintf("secret-%d", i)}}
		w := table.Begin(a, 1)
		for j := range perAsker {
			w.Ask(config(fmt.Sprintf("namespace-%d", j), a.Key.Name), true)
		}
		w.Asked(true)
		for j := range perAsker {
			at, _ := w.Try(config(fmt.Sprintf("namespace-%d", j), a.Key.Name), noon)
			at.Settle(Outcome{State: Done}, noon)
		}
	}
}

// tape counts what is recorded.
type tape struct{ rows, bytes int }

func (t *tape) PutNote(n records.Note) {
	t.rows++
	id := records.NoteID{Rule: n.Rule, Name: n.Name}
	t.bytes += len(records.NoteKey(id)) + len(records.AppendNote(nil, id, n.Value))
}

func (t *tape) DeleteNote(string, string) {}

// BenchmarkMemory reports the bytes of a claim in memory, with its names, and on disk.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var on tape
		table := New(&on)
		fill(table, n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/claim")
		b.ReportMetric(float64(on.bytes)/float64(on.rows), "B/row")
		runtime.KeepAlive(table)
	}
}

// BenchmarkWave is what a wave costs per target beside its requests, when all has been asked
// before.
func BenchmarkWave(b *testing.B) {
	for _, isKept := range []bool{false, true} {
		b.Run(fmt.Sprintf("recorded=%v", isKept), func(b *testing.B) {
			table := New(nil)
			if isKept {
				table = New(make(rows))
			}
			fill(table, 100_000)
			a := Asker{"copy", delta.Key{Namespace: "team", Name: "secret-7"}}
			var all []Target
			for j := range perAsker {
				all = append(all, config(fmt.Sprintf("namespace-%d", j), a.Key.Name))
			}
			b.ReportAllocs()
			b.ResetTimer()
			event := uint64(1)
			for i := 0; i < b.N; {
				event++
				w := table.Begin(a, event)
				for _, at := range all {
					w.Ask(at, true)
				}
				w.Asked(true)
				for _, at := range all {
					attempt, _ := w.Try(at, noon)
					attempt.Settle(Outcome{State: Done}, noon)
					i++
				}
				w.Left(noon)
			}
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	r := make(rows)
	fill(New(r), 100_000)
	b.ReportAllocs()
	for b.Loop() {
		New(r).Restore(r.all)
	}
}
