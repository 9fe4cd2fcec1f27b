package main

import (
	"fmt"
	"slices"
)

// rows is the section that compares the contestants.
type rows struct {
	*figures
	scale scale
}

func newRows(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, c := range contestants() {
		c.relaxes = slices.Contains([]string{"3", "4", "4b"}, c.row)
		f.add(c, mixed(s.objects))
	}
	return &rows{f, s}
}

func (r *rows) report() (table, []target) {
	p := mixed(r.scale.objects)
	updates, last := r.scale.updates, r.entries[len(r.entries)-1].contestant
	title := fmt.Sprintf("%d pods, %d deployments, %d config maps; "+
		"%d updates (rows 3: %d, rows 4: %d, row 5: %d); median (least–most) of %d",
		p[0], p[1], p[2], updates, moreInProcess*updates, moreDelivered*updates,
		last.updates(updates), r.scale.rounds)
	t := r.table(title, "",
		cpuDelta, deltaRate, cpuObject, heapObject, peakRSS, restedRSS, steadyRSS, laterRSS, written)
	return t, []target{
		r.ratio("CPU per delta: row 3 to row 1", false, 1./15, cpuDelta, "3", "1"),
		r.ratio("heap per object: row 3 to row 1", false, 1./5, heapObject, "3", "1"),
		r.ratio("heap per object: row 3 to row 2", false, 1./4, heapObject, "3", "2"),
		r.ratio("heap per object: row 3b to row 1", false, 1./15, heapObject, "3b", "1"),
		r.relaxed("3"), r.relaxed("4"), r.relaxed("4b"),
		r.ratio("deliveries per second: row 4 to row 1", true, 4, deltaRate, "4", "1"),
		r.ratio("deliveries per second: row 4 to row 5", true, 25, deltaRate, "4", "5"),
		r.more("CPU µs per delta that keeping state takes, at full speed: row 4b less row 4", 15,
			cpuDelta, "4b", "4"),
		r.writing("4b"),
	}
}

// writing is the target for the bytes that a contestant writes to the disk for a delta.
func (f *figures) writing(row string) target {
	bytes, ok := f.figure(written, row)
	packed := packedPod()
	return target{
		what:  "bytes written per delta, to the packed object: row " + row,
		limit: 2, value: bytes / packed, err: !ok || packed == 0,
		from: fmt.Sprintf("B: %.0f to %.0f", bytes, packed),
	}
}

// relaxed is the target that a contestant gives memory back.
func (f *figures) relaxed(row string) target {
	rested, _ := f.figure(restedRSS, row)
	later, ok := f.figure(laterRSS, row)
	return target{
		what:  "resident within 30 s after the updates, to at rest before them: row " + row,
		limit: relaxedTo, value: later / rested, err: !ok,
		from: fmt.Sprintf("RSS MiB: %.0f to %.0f", later, rested),
	}
}

func (r *rows) charts() []chart {
	drawing := func(name, title, unit string, c column, rows ...string) chart {
		d := chart{name: name, title: title, unit: unit}
		for _, e := range r.entries {
			if slices.Contains(rows, e.row) {
				ours := e.row[0] == '3' || e.row[0] == '4'
				d.bars = append(d.bars, barOf(short[e.row], ours, e.results.samples, c.of))
			}
		}
		return d
	}
	return []chart{
		drawing("cpu", "CPU for one change of an object", "µs; less is better",
			cpuDelta, "1", "2", "3", "3b", "4", "4b"),
		drawing("heap", "Heap for one object in the cache", "bytes; less is better",
			heapObject, "1", "2", "3", "3b"),
		drawing("rate", "Changes per second, at full speed", "more is better",
			deltaRate, "1", "2", "3", "3b", "4", "4b", "5"),
	}
}

// short holds the rows' names in charts.
var short = map[string]string{
	"1": "client-go, empty handler", "2": "client-go, no managedFields",
	"3": "informd, 10 rules", "3b": "informd, 5 rules, keep: needed",
	"4": "informd to a handler process", "4b": "the same, with a state directory",
	"5": "a process per change",
}

// listing measures the memory that the first list takes.
type listing struct {
	*figures
	pods int
}

func newListing(at site, s scale) section {
	f := newFigures(at, s.updates)
	name := fmt.Sprintf("informd, %d pods", s.listed())
	c := inProcess("", name, about(pods, typical), "whole")
	c.relaxes = true
	f.add(c, onlyPods(s.listed()))
	return &listing{f, s.listed()}
}

func (l *listing) report() (table, []target) {
	t := l.table("The first list", "",
		cpuObject, synced, heapObject, rssObject, peakRSS, restedRSS, steadyRSS, laterRSS)
	name := l.entries[0].name
	peak, _ := l.figure(peakRSS, name)
	rested, _ := l.figure(restedRSS, name)
	steady, ok := l.figure(steadyRSS, name)
	steady = min(steady, rested)
	return t, []target{{
		what: fmt.Sprintf("resident while listing %d pods, at most, to steady", l.pods), limit: 1.5,
		value: peak / steady, err: !ok, from: fmt.Sprintf("RSS MiB: %.0f to %.0f", peak, steady),
	}}
}

// ruled measures the effect of the number of rules.
type ruled struct {
	*figures
}

func newRules(at site, s scale) section {
	f := newFigures(at, s.updates)
	counts := []int{10, 1000, 10_000}
	if s.full {
		counts = []int{1, 10, 100, 1000, 10_000}
	}
	add := func(name string, rules []rule, matching int) {
		c := inProcess("", name, rules, "whole")
		// checking each rule for each update would take too long; TestRulesSelect checks some
		c.handled = func(change) int { return matching }
		f.add(c, onlyPods(s.objects))
	}
	for _, n := range counts {
		rules, matching := alike(n)
		add(ruleCount(n, matching), rules, matching)
	}
	for _, n := range []int{10, 1000} {
		rules, matching := overlapping(n)
		add(overlap+ruleCount(n, matching), rules, matching)
	}
	return &ruled{f}
}

// timed measures what rules about time cost.
type timed struct {
	*figures
}

// The contestants of timed. Those that wait deliver nothing.
const (
	untimed = "10 rules of which 5 match"
	isDue   = "the same, due long ago"
	waits   = "the same, for an hour, so that all objects wait"
)

func newTimed(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, c := range []struct {
		name, time string
		isTold     bool
	}{
		{untimed, "", true},
		{isDue, "due: time(object.metadata.creationTimestamp)", true},
		{waits, "for: 1h", false},
	} {
		rules, matching := alike(10)
		for i := range rules {
			rules[i].time = c.time
		}
		if !c.isTold {
			matching = 0
		}
		contestant := inProcess("", c.name, rules, "whole")
		contestant.handled = func(change) int { return matching }
		f.add(contestant, onlyPods(s.objects))
	}
	return &timed{f}
}

func (r *timed) report() (table, []target) {
	return r.table("Rules about time", "", cpuDelta, deltaRate, restedRSS, steadyRSS), []target{
		r.ratio("CPU per delta with due to without", false, 1.2, cpuDelta, isDue, untimed),
		r.ratio("CPU per delta with for to without", false, 1.2, cpuDelta, waits, untimed),
	}
}

// overlap begins the names of the contestants whose rules overlap.
const overlap = "overlapping: "

func ruleCount(n, matching int) string {
	if n == 1 {
		return "1 rule, which matches"
	}
	return fmt.Sprintf("%d rules of which %d match", n, matching)
}

func (r *ruled) report() (table, []target) {
	const title = "Many rules, each about a tier, a namespace, an application or its part on a rack"
	return r.table(title, "", cpuDelta, deltaRate, restedRSS, steadyRSS), []target{
		r.ratio("1000 rules of which 5 match to 10 of which 5 match", false, 1.5,
			cpuDelta, ruleCount(1000, 5), ruleCount(10, 5)),
		r.ratio("10000 rules of which 5 match to 10 of which 5 match", false, 1.5,
			cpuDelta, ruleCount(10_000, 5), ruleCount(10, 5)),
		r.ratio("1000 rules that overlap to 10, 5 of each match", false, 1.5,
			cpuDelta, overlap+ruleCount(1000, 5), overlap+ruleCount(10, 5)),
	}
}

// durability measures what it costs to keep state while the handler keeps up. Delivered events then
// need not be written.
type durability struct {
	*figures
	scale scale
}

const without, with = "informd, no state", "informd with a state directory"

func newDurability(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, name := range []string{without, with} {
		c := delivered("", name, setup{handlers: 1, state: name == with})
		c.rate, c.updates = evenRate, times(1)
		f.add(c, onlyPods(s.objects))
	}
	return &durability{f, s}
}

// evenRate is the number of changes per second.
const evenRate = 5000

func (d *durability) report() (table, []target) {
	title := fmt.Sprintf("To a handler process that keeps up: "+
		"%d updates per second, in %d bursts; %d pods, %d updates",
		evenRate, bursts, d.scale.objects, d.scale.updates)
	more := fmt.Sprintf("CPU µs per delta that keeping state takes, at %d per second", evenRate)
	t := d.table(title, "", cpuDelta, deltaRate, peakRSS, restedRSS, steadyRSS, written)
	return t, []target{
		d.more(more, 20, cpuDelta, with, without),
	}
}

// handlers measures several handlers that each get all events.
type handlers struct{ *figures }

func newHandlers(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, n := range []int{1, 2, 4} {
		c := delivered("", fmt.Sprintf("informd to %d", n), setup{handlers: n})
		c.updates = times(2)
		f.add(c, mixed(s.objects))
	}
	return &handlers{f}
}

func (h *handlers) report() (table, []target) {
	const title = "Handler processes, each of which gets every delta; no state"
	return h.table(title, "handlers", cpuDelta, deltaRate, restedRSS, steadyRSS), nil
}

// sizes measures the effect of the number of objects.
type sizes struct {
	*figures
	large, most, kept string // names
	objects           int
}

func newSizes(at site, s scale) section {
	f := newFigures(at, s.updates)
	z := &sizes{figures: f, objects: 50 * s.objects}
	name := func(who string, n int) string { return fmt.Sprintf("%s, %d", who, n) }
	for _, n := range []int{s.objects / 2, 5 * s.objects, 50 * s.objects} {
		if n < z.objects {
			f.add(stock("", name("stock", n), "whole"), onlyPods(n))
		}
		f.add(inProcess("", name("informd", n), about(pods, typical), "whole"), onlyPods(n))
	}
	z.large, z.most = name("informd", 5*s.objects), name("informd", z.objects)
	z.kept = name("informd to a handler, with a state directory", z.objects)
	f.add(delivered("", z.kept, setup{handlers: 1, state: true}), onlyPods(z.objects))
	return z
}

func (z *sizes) report() (table, []target) {
	t := z.table("Pods in the cluster", "", heapObject, rssObject, cpuObject, cpuDelta,
		synced, peakRSS, restedRSS, steadyRSS)
	resident := func(name string, limit float64) target {
		peak, ok := z.figure(mostRSS, name)
		return target{
			what:  "GiB resident, at most: " + name,
			limit: limit, value: peak / 1024, err: !ok,
			from: fmt.Sprintf("RSS MiB, updates included: %.0f", peak),
		}
	}
	compare := fmt.Sprintf("of %d pods to %d", z.objects, z.objects/10)
	return t, []target{
		resident(z.most, 3), resident(z.kept, 3),
		z.ratio("heap per object, "+compare, false, 1.2, heapObject, z.most, z.large),
		z.ratio("resident per object, "+compare, false, 1.2, rssObject, z.most, z.large),
		z.ratio("CPU per object listed, "+compare, false, 1.5, cpuObject, z.most, z.large),
		z.ratio("CPU per delta, "+compare, false, 1.5, cpuDelta, z.most, z.large),
	}
}
