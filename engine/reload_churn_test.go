package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
)

// Hundreds of reloads leave nothing behind, whatever the rules that change were doing.
func TestReloadsLeaveNothingBehind(t *testing.T) {
	l := newLooking(t)
	l.breakNodes(true) // rules that look into them wait
	for i := range 50 {
		l.put(fmt.Sprint("m", i), "1")
	}
	h := new(teller)
	manifests := func(n int) string {
		return lookupSources +
			aRule("stays", zones) +
			aRule("zones", fmt.Sprintf(`, when: '%d > 0 and %s != "x"'`, n, zone)) +
			aRule("long", fmt.Sprintf(", where: object.data.size == '1', for: %dm", 60+n)) +
			aRule("group", fmt.Sprintf(`, group: {by: 'string(object.data.size) + "%d"', wait: 10m}`, n)) +
			aRule("count", fmt.Sprintf(", count: {times: 3, within: %dm}", 60+n)) +
			aRule("where", fmt.Sprintf(", where: object.data.size != '%d'", n)) +
			aRule(fmt.Sprint("new", n), ", group: {every: 10m}")
	}
	n := 1
	e, stop := l.startWith(manifests(n), h)
	defer func() { stop() }()
	for e.tasks.check() != nil || !e.Status().Sources[0].Ready {
		time.Sleep(time.Millisecond)
	}
	reload := func(times int) (goroutines int, heap uint64) {
		for range times {
			n++
			if _, err := l.reload(e, manifests(n), h); err != nil {
				t.Fatal(err)
			}
		}
		var m runtime.MemStats
		for range 3 {
			h.since()
			time.Sleep(100 * time.Millisecond) // what is ending
			runtime.GC()
			runtime.ReadMemStats(&m)
		}
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	before, small := reload(20)
	after, large := reload(200)
	if after > before+30 {
		t.Errorf("%d goroutines, %d after 200 more reloads", before, after)
	}
	t.Logf("%d KiB in use, %d after 200 more reloads", small>>10, large>>10)
	if large > 2*small+(24<<20) { // what rules remember of their last changes grows to its bounds
		t.Errorf("%d KiB in use, %d after 200 more reloads", small>>10, large>>10)
	}
}

// A reload at the moment when the engine stops gets to its end, and nothing goes on after that.
func TestReloadWhileTheEngineStops(t *testing.T) {
	t.Parallel()
	o, err := object.FromJSON([]byte(`{"metadata":{"namespace":"shop","name":"a","uid":"u"}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := delta.Delta{Type: delta.Added, Object: o}
	for n := range 60 {
		l := newLife(t)
		l.put("a", "1")
		h := new(teller)
		before := mapSource + aRule("r", `, group: {by: 1, wait: 1h}`) + aRule("gone", "")
		after := mapSource + aRule("r", `, group: {by: 2, wait: 1h}`) + aRule("new", "")
		e, stop := l.startWith(before, h)
		l.quiet(e)
		var reloaded sync.WaitGroup
		reloaded.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, ended, err := e.Reload(ctx, planOf(t, after), map[string]live.Handler{"record": h})
			if err == nil {
				ended()
			}
		})
		time.Sleep(time.Duration(n) * 20 * time.Microsecond)
		stop()
		reloaded.Wait()
		for _, r := range e.work().Rules {
			end := e.begin()
			if isOpen := r.Lane.Redrive(delivery.Letter{Delta: d}); isOpen {
				t.Errorf("rule %s: its lane goes on", r.Name)
			}
			end()
		}
	}
}

// The status says when the first object is a member by the rule as it is now.
func TestNextDueAfterReload(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	e, stop := l.start(mapSource+aRule("long", small+", for: 1h"), h)
	defer stop()
	l.settled(e)
	before := e.Status().Rules[0].NextDue
	if _, err := l.reload(e, mapSource+aRule("long", small+", for: 3h"), h); err != nil {
		t.Fatal(err)
	}
	if later := e.Status().Rules[0].NextDue.Sub(before); later != 2*time.Hour {
		t.Errorf("the next one is due %v later than before, want 2h", later)
	}
}
