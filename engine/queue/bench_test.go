package queue

import (
	"runtime"
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

// The same, while 10,000 keys always wait.
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

// idle is a Store that does nothing.
type idle struct{}

func (idle) Put(uint64, string, Record[change]) uint64                          { return 0 }
func (idle) Delete(uint64, string)                                              {}
func (idle) Room(int64) bool                                                    { return true }
func (idle) Load(string, uint64, int, int64) (none []Numbered[change], _ error) { return none, nil }

// BenchmarkAddTakeDone with a Store.
func BenchmarkAddTakeDoneRecorded(b *testing.B) {
	keys := benchKeys()
	q := newChanges(Options[string, change]{Store: idle{}})
	c := change{"updated", "1", 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Add(keys[i%len(keys)], c)
		item, _ := q.Take()
		q.Done(item.Key)
	}
}

// ledger is a Store that holds numbers only.
type ledger struct {
	keys map[string]*ledgerKey
}

type ledgerKey struct{ numbers []uint64 }

func (l *ledger) Put(n uint64, key string, _ Record[change]) (cut uint64) {
	k := l.keys[key]
	if k == nil {
		k = &ledgerKey{}
		l.keys[key] = k
	}
	k.numbers = append(k.numbers, n)
	return 0
}

func (l *ledger) Delete(n uint64, key string) {
	if k := l.keys[key]; len(k.numbers) > 0 && k.numbers[0] == n {
		k.numbers = k.numbers[1:]
	}
}

func (l *ledger) Room(int64) bool { return true }

func (l *ledger) Load(key string, after uint64, maxItems int, _ int64) (out []Numbered[change], _ error) {
	for _, n := range l.keys[key].numbers {
		if n > after && len(out) < maxItems {
			out = append(out, Numbered[change]{n, Record[change]{Value: change{"updated", "1", int(n - firstNumber)}}})
		}
	}
	return out, nil
}

// The benchmark adds a million values of 100,000 keys, of which 100,000 fit into memory, and then
// takes them in order. It reports the bytes that the queue holds for those that are away.
func BenchmarkBacklog(b *testing.B) {
	const keys, each = 100_000, 10
	names := make([]string, keys)
	for i := range names {
		names[i] = "namespace/pod-" + strconv.Itoa(i)
	}
	c := change{"updated", "1", 1}
	for b.Loop() {
		l := &ledger{keys: map[string]*ledgerKey{}}
		q := newChanges(Options[string, change]{Every: true, Store: l})
		for _, name := range names {
			l.keys[name] = &ledgerKey{numbers: make([]uint64, 0, each)}
		}
		before := heapInUse()
		for _, name := range names {
			q.Add(name, c)
		}
		inMemory := heapInUse()
		for _, name := range names {
			q.Add(name, c)
		}
		away := heapInUse()
		for range each - 2 {
			for _, name := range names {
				q.Add(name, c)
			}
		}
		more := heapInUse()
		if s := q.Stats(); s.Waiting != keys || s.Away != keys*(each-1) {
			b.Fatalf("%+v", s)
		}
		last := make(map[string]int, keys)
		peak := 0
		for taken := 0; taken < keys*each; taken++ {
			if err := refill(q); err != nil {
				b.Fatal(err)
			}
			item, ok := q.Take()
			if !ok {
				b.Fatalf("nothing is ready after %d", taken)
			}
			if state := item.Value.state; taken >= keys && state <= last[item.Key] {
				b.Fatalf("%s: %d after %d", item.Key, state, last[item.Key])
			} else if taken >= keys {
				last[item.Key] = state
			}
			q.Done(item.Key)
			if taken%1000 == 0 {
				peak = max(peak, q.Stats().Waiting)
			}
		}
		b.ReportMetric(float64(inMemory-before)/keys, "B/in-memory")
		b.ReportMetric(float64(away-inMemory)/keys, "B/away-key")
		b.ReportMetric(float64(more-away)/keys/(each-2), "B/away-value")
		b.ReportMetric(float64(peak), "waiting-peak")
	}
}

// The queue finds a million values of 100,000 keys in the store.
func BenchmarkRestore(b *testing.B) {
	const keys, each = 100_000, 10
	names := make([]string, keys)
	for i := range names {
		names[i] = "namespace/pod-" + strconv.Itoa(i)
	}
	for b.Loop() {
		before := heapInUse()
		q := newChanges(Options[string, change]{Every: true, Store: idle{}})
		for i, name := range names {
			q.Restore(name, each, firstNumber+uint64(i), firstNumber+uint64(i+keys*(each-1)), each*3000)
		}
		b.ReportMetric(float64(heapInUse()-before)/keys, "B/key")
		if q.Stats().Away != keys*each {
			b.Fatal("not all are there")
		}
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
