package state

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rss returns the resident memory in MiB, after the runtime has returned free memory to the system.
func rss() float64 {
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident float64
	_, _ = fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// emptyRecords makes the records of an informer and of a rule in a new store.
func emptyRecords(b *testing.B, s *running, o ObjectsOptions) (*Objects, *Lane) {
	b.Helper()
	i, lane := s.Objects("pods", o), s.Lane("r", LaneOptions{})
	if _, err := i.Load(); err != nil {
		b.Fatal(err)
	}
	if _, err := lane.Keys(); err != nil {
		b.Fatal(err)
	}
	return i, lane
}

const benchObjects, benchSize = 100_000, 2400

// BenchmarkChange records changes of 2.4 KB at 5,000 a second over 100,000 objects. Each change has
// a delivery, which is acknowledged before the flush. With late=1in2, half of the deliveries are
// acknowledged after it. µs-cpu/change counts the CPU time of the whole process, less the time to
// make the objects, which is measured separately.
func BenchmarkChange(b *testing.B) {
	for _, late := range []int{0, 2} {
		b.Run(fmt.Sprintf("late=1in%d", late), func(b *testing.B) {
			p := newPods(1)
			s := run(b, open(b, b.TempDir(), Options{}))
			packer := object.NewPacker()
			i, lane := emptyRecords(b, s, ObjectsOptions{Packer: packer})
			for n := range benchObjects {
				o := p.pod(b, n, n, benchSize)
				s.recorded(func() { i.Put(o, []string{"r"}) })
			}
			s.written()
			const ahead = 2500 // half a second
			made := make([]*object.Object, ahead)
			n, number := 0, uint64(0)
			var making, all time.Duration
			start := time.Now()
			from := cpu()
			for b.Loop() {
				if n%ahead == 0 {
					time.Sleep(time.Until(start.Add(time.Duration(n/ahead) * time.Second / 2)))
					before := cpu()
					for k := range made {
						made[k] = p.pod(b, p.IntN(benchObjects), n+k+benchObjects, benchSize)
						packer.Pack(made[k]) // the source packs too
					}
					making += cpu() - before
				}
				o := made[n%ahead]
				n, number = n+1, number+1
				s.Begin()
				i.Put(o, []string{"r"})
				i.Version("1")
				lane.Put(number, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Updated, Object: o, Old: o}}, Since: start})
				s.End()
				if late == 0 || n%late != 0 {
					s.recorded(func() { lane.Delete(number, keyOf(o)) })
				}
				if late > 0 && n > 2*ahead && n%late == 0 {
					s.recorded(func() { lane.Delete(number-2*ahead, keyOf(o)) })
				}
			}
			s.written()
			all = cpu() - from
			b.ReportMetric(float64((all-making).Nanoseconds())/1000/float64(n), "µs-cpu/change")
			s.measure()
			b.ReportMetric(float64(s.Status().SizeBytes)/(1<<20), "MiB-on-disk")
			b.ReportMetric(rss(), "MiB-rss")
		})
	}
}

// BenchmarkStorm records 160,000 changes of 2.4 KB to 20,000 objects in turn, as fast as the state
// takes them. Each change has a delivery, which also refers to the object as it was before. It is
// acknowledged 5,000 changes later; the last 5,000 are not. µs-cpu/change counts the CPU time of the
// whole process, packing included. B/change is what the process allocates.
func BenchmarkStorm(b *testing.B) {
	const objects, changes, behind = 20_000, 160_000, 5_000
	p := newPods(1)
	made := make([]*object.Object, changes)
	var used time.Duration
	var before, after runtime.MemStats
	garbage := uint64(0)
	for b.Loop() {
		b.StopTimer()
		for n := range made {
			made[n] = p.pod(b, n%objects, n, benchSize)
		}
		s := run(b, open(b, b.TempDir(), Options{}))
		i, lane := emptyRecords(b, s, ObjectsOptions{})
		runtime.GC()
		runtime.ReadMemStats(&before)
		from := cpu()
		b.StartTimer()
		for n, o := range made {
			d := delta.Delta{Type: delta.Updated, Object: o}
			if n >= objects {
				d.Old = made[n-objects]
			}
			s.Pace()
			s.Begin()
			i.Put(o, []string{"r"})
			i.Version("1")
			lane.Put(uint64(inOrder+n), keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: d}})
			s.End()
			if n >= behind {
				gone := n - behind
				s.recorded(func() { lane.Delete(uint64(inOrder+gone), keyOf(made[gone])) })
			}
		}
		s.written()
		b.StopTimer()
		used += cpu() - from
		runtime.ReadMemStats(&after)
		garbage += after.TotalAlloc - before.TotalAlloc
		s.stop()
		b.StartTimer()
	}
	n := float64(b.N * changes)
	b.ReportMetric(float64(used.Nanoseconds())/1000/n, "µs-cpu/change")
	b.ReportMetric(float64(garbage)/n, "B/change")
}

// BenchmarkLoad opens and loads 100,000 objects of 2.4 KB.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	p := newPods(1)
	s := run(b, open(b, dir, Options{}))
	i := s.Objects("pods", ObjectsOptions{})
	if _, err := i.Load(); err != nil {
		b.Fatal(err)
	}
	from := cpu()
	var making time.Duration
	for n := range benchObjects {
		before := cpu()
		o := p.pod(b, n, n, benchSize)
		making += cpu() - before
		s.recorded(func() { i.Put(o, []string{"r", "another"}) })
	}
	s.written()
	b.Logf("first list: %.1f µs CPU per object beside making it", float64((cpu()-from-making).Nanoseconds())/1000/benchObjects)
	s.recorded(func() { i.Version("1") })
	s.stop()
	i, s = nil, nil
	before := rss()
	var opening, used time.Duration
	b.ResetTimer()
	for b.Loop() {
		start, from := time.Now(), cpu()
		s := open(b, dir, Options{})
		opening += time.Since(start)
		snapshot := s.mustLoad(b, "pods")
		b.StopTimer()
		used += cpu() - from
		if len(snapshot.Objects) != benchObjects || len(snapshot.Inside) != benchObjects {
			b.Fatal(len(snapshot.Objects))
		}
		b.ReportMetric(rss()-before, "MiB-rss")
		var size int64
		for _, o := range snapshot.Objects {
			size += int64(o.Size())
		}
		b.ReportMetric(float64(size)/(1<<20), "MiB-objects")
		s.measure()
		b.ReportMetric(float64(s.Status().SizeBytes)/(1<<20), "MiB-on-disk")
		closed(b, s)
		runtime.KeepAlive(snapshot)
		b.StartTimer()
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "ms-cpu")
	b.ReportMetric(float64(opening.Milliseconds())/float64(b.N), "ms-open")
}

// BenchmarkIdle measures what an idle open store costs.
func BenchmarkIdle(b *testing.B) {
	before := rss()
	s := run(b, open(b, b.TempDir(), Options{}))
	s.recorded(func() { s.PutRule(RuleMemory{Name: strings.Repeat("r", 60)}) })
	s.written()
	from := cpu()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(float64((cpu()-from).Microseconds())/float64(b.N), "µs-cpu/s")
	b.ReportMetric(rss()-before, "MiB-rss")
}

// BenchmarkFirstList records 100,000 objects of 2.4 KB as fast as it makes them, each with a
// waiting delivery. MiB-more is the peak resident memory beyond what making and keeping the objects
// takes.
func BenchmarkFirstList(b *testing.B) {
	objects, texts := make([]*object.Object, benchObjects), make([]string, 500)
	for n, p := 0, newPods(1); n < len(texts); n++ {
		texts[n] = string(p.pod(b, n, n, benchSize).JSON())
	}
	list := func(tell func(o *object.Object)) (peak float64, used time.Duration) {
		clear(objects)
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			b.Skipf("the peak resident memory cannot be measured: %v", err)
		}
		packer, from := object.NewPacker(), cpu()
		for n := range objects {
			text := strings.Replace(texts[n%len(texts)], `"name":"web-`, fmt.Sprintf(`"name":"web%d-`, n), 1)
			var err error
			if objects[n], err = object.FromJSON([]byte(text)); err != nil {
				b.Fatal(err)
			}
			tell(objects[n])
			packer.Pack(objects[n]) // the source packs too, after the callback
		}
		used = cpu() - from
		runtime.KeepAlive(objects)
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			b.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "VmHWM:")
		_, _ = fmt.Sscan(after, &peak)
		return peak / 1024, used
	}
	for b.Loop() {
		alone, making := list(func(*object.Object) {})
		s := run(b, open(b, b.TempDir(), Options{}))
		i, lane := emptyRecords(b, s, ObjectsOptions{})
		before, n := cpu(), uint64(0)
		peak, used := list(func(o *object.Object) {
			n++
			s.recorded(func() {
				i.Put(o, []string{"r"})
				lane.Put(n, keyOf(o), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Synced, Object: o}}})
			})
		})
		s.written()
		rest := cpu() - before - used
		s.stop()
		b.ReportMetric(alone, "MiB-alone")
		b.ReportMetric(peak-alone, "MiB-more")
		b.ReportMetric(float64((used+rest-making).Nanoseconds())/1000/benchObjects, "µs-cpu/object")
	}
}
