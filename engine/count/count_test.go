package count

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// event is an event of a test: its id, and when it happened.
type event struct {
	id string
	at time.Duration // after start
}

func TestTheNthGoesOn(t *testing.T) {
	for _, test := range []struct {
		why    string
		events []event
		want   []string
	}{
		{"three within an hour, and the window is emptied", []event{{"a", 0}, {"b", time.Minute}, {"c", time.Hour}, {"d", time.Hour}, {"e", time.Hour}, {"f", time.Hour}}, []string{"c", "f"}},
		{"the first is a moment too old", []event{{"a", 0}, {"b", time.Minute}, {"c", time.Hour + time.Millisecond}, {"d", time.Hour + time.Minute}}, []string{"d"}},
		{"never enough within an hour", []event{{"a", 0}, {"b", 40 * time.Minute}, {"c", 80 * time.Minute}, {"d", 120 * time.Minute}}, nil},
		{"a repeat does not count", []event{{"a", 0}, {"b", 0}, {"b", 0}, {"a", 0}, {"b", time.Minute}, {"c", time.Minute}}, []string{"c"}},
		{"what went on goes on again, and what counted with it does not", []event{{"a", 0}, {"b", 0}, {"c", 0}, {"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"c", 0}, {"e", 0}, {"f", 0}}, []string{"c", "c", "c", "f"}},
		{"in another order than they happened", []event{{"c", time.Hour}, {"a", time.Minute}, {"b", 30 * time.Minute}}, []string{"b"}},
		{"what comes too late does not count", []event{{"c", 2 * time.Hour}, {"a", time.Minute}, {"b", 90 * time.Minute}, {"d", 2 * time.Hour}}, []string{"d"}},
	} {
		w := New(3, time.Hour, 0)
		var got []string
		for _, e := range test.events {
			at := start.Add(e.at)
			if w.Add(Hit{At: at}, e.id, start.Add(24*time.Hour)).GoesOn {
				got = append(got, e.id)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q go on, want %q", test.why, got, test.want)
		}
	}
}

func TestWindowsAreApart(t *testing.T) {
	w := New(2, time.Hour, 0)
	a, b := ValueOf("a"), ValueOf("b")
	for _, test := range []struct {
		of   Value
		id   string
		want bool
	}{{a, "1", false}, {b, "2", false}, {b, "3", true}, {a, "4", true}} {
		if got := w.Add(Hit{test.of, start}, test.id, start).GoesOn; got != test.want {
			t.Errorf("%s goes on: %t", test.id, got)
		}
	}
}

func TestAClockThatIsSet(t *testing.T) {
	w := New(3, time.Hour, 0)
	add := func(id string, at, now time.Duration) bool {
		return w.Add(Hit{At: start.Add(at)}, id, start.Add(now)).GoesOn
	}
	year := 365 * 24 * time.Hour
	if add("a", 100*year, 0) || add("b", 0, 0) || !add("c", time.Minute, time.Minute) {
		t.Error("a time in the future does not count as now")
	}
	add("d", year, year)
	add("e", year, year)
	if !add("f", 0, 0) {
		t.Error("the clock was set back, and what had counted is lost")
	}
	add("g", 0, 0)
	add("h", 0, 0)
	if add("i", 2*time.Hour, 2*time.Hour) {
		t.Error("what is in the future counts for longer than from now on")
	}
}

func TestWindowsThatAreOver(t *testing.T) {
	w := New(3, time.Hour, 0)
	of := func(n int) Value { return ValueOf(fmt.Sprint(n)) }
	for n := range 100 {
		w.Add(Hit{of(n), start}, "a", start)
	}
	if open := w.Open(start.Add(time.Hour)); open != 100 {
		t.Errorf("%d windows are open, want 100", open)
	}
	later := start.Add(time.Hour + time.Millisecond)
	if open := w.Open(later); open != 0 {
		t.Errorf("%d windows are open, want 0", open)
	}
	var over []Value
	for n := range 50 {
		c := w.Add(Hit{of(1000 + n), later}, "a", later)
		over = append(over, c.Over...)
		if c.Lost > 0 {
			t.Error("a window that is over counts as lost")
		}
	}
	if len(over) != 100 || w.order.Len() != 50 || len(w.all) != 50 || w.events != 50 {
		t.Errorf("%d windows are over, %d are left with %d events", len(over), w.order.Len(), w.events)
	}
}

// What comes late still finds its window.
func TestLateEvents(t *testing.T) {
	w := New(3, time.Minute, time.Hour)
	add := func(of, id string, now time.Duration) (c Change) {
		return w.Add(Hit{ValueOf(of), start}, id, start.Add(now))
	}
	add("a", "1", 0)
	add("a", "2", 0)
	add("b", "3", time.Hour+time.Minute)
	if c := add("a", "4", time.Hour+time.Minute); !c.GoesOn {
		t.Error("the window is gone")
	}
	if c := add("c", "5", 3*time.Hour); len(c.Over) != 2 {
		t.Errorf("%d windows are over, want 2", len(c.Over))
	}
}

func TestBounds(t *testing.T) {
	of := func(n int) Value { return ValueOf(fmt.Sprint(n)) }
	w := New(100, time.Hour, 0)
	w.bounds.windows, w.bounds.events = 3, 1000
	for n := range 3 {
		w.Add(Hit{of(n), start}, "a", start)
	}
	w.Add(Hit{of(0), start}, "b", start)
	c := w.Add(Hit{of(3), start}, "a", start)
	if want := []Value{of(1)}; !slices.Equal(c.Over, want) || c.Lost != 1 {
		t.Errorf("%v had to go, want the one that was touched first, %v", c.Over, want)
	}
	w.bounds.events = 5
	w.Add(Hit{of(3), start}, "b", start)
	c = w.Add(Hit{of(3), start}, "c", start)
	if want := []Value{of(2)}; !slices.Equal(c.Over, want) || w.events != 5 {
		t.Errorf("%v had to go, want %v; %d events are left", c.Over, want, w.events)
	}
	w = New(1000, time.Hour, 0)
	w.bounds.events = 5
	for n := range 10 {
		c = w.Add(Hit{At: start}, fmt.Sprint(n), start)
	}
	if len(c.Over) > 0 {
		t.Error("the last window went")
	}
}

func TestAWindowRemembersSoMany(t *testing.T) {
	w := New(2, time.Hour, 0)
	for n := range 1000 {
		w.Add(Hit{At: start}, fmt.Sprint(n), start)
		if w.events > remembered+2 {
			t.Fatalf("%d events are remembered", w.events)
		}
	}
	if w.Add(Hit{At: start}, "950", start).GoesOn || !w.Add(Hit{At: start}, "951", start).GoesOn {
		t.Error("what is remembered counts again")
	}
}

// model is what a window does, as plainly as possible: it forgets nothing.
type model struct {
	times  int
	within int64
	events []modelEvent
}

type modelEvent struct {
	id   string
	at   int64
	used bool // the window was emptied since
	went bool
}

func (m *model) add(id string, at, now int64) (goesOn bool) {
	at = min(at, now)
	latest := at
	for i := range m.events {
		m.events[i].at = min(m.events[i].at, now)
		latest = max(latest, m.events[i].at)
	}
	isIn := func(at int64) bool { return at >= latest-m.within }
	for _, e := range m.events {
		if e.id == id && isIn(e.at) {
			return e.went
		}
	}
	if !isIn(at) {
		return false
	}
	m.events = slices.DeleteFunc(m.events, func(e modelEvent) bool { return !isIn(e.at) })
	m.events = append(m.events, modelEvent{id: id, at: at})
	n := 0
	for _, e := range m.events {
		if !e.used {
			n++
		}
	}
	if n < m.times {
		return false
	}
	for i := range m.events {
		m.events[i].used = true
	}
	m.events[len(m.events)-1].went = true
	return true
}

// Windows do what the model does, also after they were recorded and restored.
func TestAgainstTheModel(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		times, within := 2+random.Intn(4), time.Duration(1+random.Intn(30))*time.Second
		w := New(times, within, 0)
		records := make(map[Value][]byte)
		models := make(map[Value]*model)
		now := start
		for n := range 200 {
			now = now.Add(time.Duration(random.Intn(3000)) * time.Millisecond)
			if random.Intn(50) == 0 {
				now = now.Add(time.Duration(random.Intn(60)-30) * time.Second)
			}
			at := now.Add(-time.Duration(random.Intn(20)) * time.Second)
			of := ValueOf(fmt.Sprint(random.Intn(2)))
			id := fmt.Sprint(n)
			if random.Intn(4) == 0 && n > 0 {
				id = fmt.Sprint(n - 1 - random.Intn(min(n, 5)))
			}
			if models[of] == nil {
				models[of] = &model{times: times, within: within.Milliseconds()}
			}
			want := models[of].add(id, at.UnixMilli(), now.UnixMilli())
			c := w.Add(Hit{of, at}, id, now)
			if c.GoesOn != want {
				t.Fatalf("seed %d, event %d: goes on %t, want %t", seed, n, c.GoesOn, want)
			}
			if c.Record != nil {
				records[of] = c.Record
			}
			for _, of := range c.Over {
				delete(records, of)
				delete(models, of)
			}
			if random.Intn(20) == 0 {
				w = New(times, within, 0)
				if err := w.Restore(records); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	w := New(3, time.Hour, 0)
	for n := range 4 {
		f.Add(w.Add(Hit{At: start}, fmt.Sprint(n), start.Add(time.Minute)).Record)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := read(Value{}, b)
		if err != nil {
			return
		}
		again, err := read(Value{}, w.record())
		if err != nil || !bytes.Equal(again.record(), w.record()) || again.counts != w.counts {
			t.Errorf("%x is not what was recorded", b)
		}
	})
}
