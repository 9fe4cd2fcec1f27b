package main

import (
	"context"
	"fmt"
	"slices"
)

// figures are what several contestants have come to, over all rounds.
type figures struct {
	at          site
	updates     int
	contestants []contestant
	populations []population // of each
	results     []results
}

func newFigures(at site, updates int) *figures { return &figures{at: at, updates: updates} }

func (f *figures) add(c contestant, p population) {
	f.contestants, f.populations, f.results = append(f.contestants, c), append(f.populations, p), append(f.results, results{})
}

func (f *figures) jobs() []job {
	var jobs []job
	for i, c := range f.contestants {
		p := f.populations[i]
		jobs = append(jobs, job{c.name, func(ctx context.Context) error {
			s, err := measure(ctx, f.at, c, p, c.updates(f.updates))
			f.results[i].add(s, err)
			return err
		}})
	}
	return jobs
}

// column is a figure in a table.
type column struct {
	name   string
	digits int
	of     func(sample) float64
}

var (
	cpuDelta   = column{"CPU µs/delta", 1, func(s sample) float64 { return s.cpuDelta }}
	cpuObject  = column{"CPU µs/object listed", 1, func(s sample) float64 { return s.cpuObject }}
	deltaRate  = column{"deltas/s", 0, func(s sample) float64 { return s.rate }}
	heapObject = column{"heap B/object", 0, func(s sample) float64 { return s.heapObject }}
	rssObject  = column{"RSS B/object", 0, func(s sample) float64 { return s.rssObject }}
	peakRSS    = column{"RSS MiB listing, peak", 0, func(s sample) float64 { return s.peak }}
	steadyRSS  = column{"steady", 0, func(s sample) float64 { return s.steady }}
	synced     = column{"synced s", 2, func(s sample) float64 { return s.synced }}
)

func (f *figures) table(title, of string, columns ...column) table {
	head := []string{of}
	for _, c := range columns {
		head = append(head, c.name)
	}
	rows := [][]string{head}
	for i, r := range f.results {
		row := []string{f.contestants[i].name}
		if n := f.contestants[i].row; n != "" {
			row[0] = n + ": " + row[0]
		}
		for _, c := range columns {
			cell := "–" // does not apply
			switch {
			case r.err != nil:
				cell = "ERROR"
			case median(r.samples, c.of) != 0:
				cell = spread(r.samples, c.digits, c.of)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return table{title, rows}
}

// ratio is one figure to another, each of the contestant of that row or name, as a target.
func (f *figures) ratio(what string, least bool, limit float64, c column, row, to string) target {
	a, okA := f.figure(c, row)
	b, okB := f.figure(c, to)
	return target{
		what: what, least: least, limit: limit, value: a / b, err: !okA || !okB,
		from: fmt.Sprintf("%s: %.*f to %.*f", c.name, c.digits, a, c.digits, b),
	}
}

func (f *figures) figure(c column, row string) (float64, bool) {
	i := slices.IndexFunc(f.contestants, func(c contestant) bool { return c.row == row || c.name == row })
	r := f.results[i]
	value := median(r.samples, c.of)
	return value, r.err == nil && value > 0
}

// rows are the table of contestants.
type rows struct {
	*figures
	scale scale
}

func newRows(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, c := range contestants() {
		f.add(c, mixed(s.objects))
	}
	return &rows{f, s}
}

func (r *rows) report() (table, []target) {
	p := mixed(r.scale.objects)
	title := fmt.Sprintf("%d pods, %d deployments, %d config maps; %d updates (rows 3 and 4: %d, row 5: %d); median (least–most) of %d",
		p[0], p[1], p[2], r.scale.updates, times(3)(r.scale.updates), r.contestants[len(r.contestants)-1].updates(r.scale.updates), r.scale.rounds)
	t := r.table(title, "", cpuDelta, deltaRate, cpuObject, heapObject, peakRSS, steadyRSS)
	return t, []target{
		r.ratio("CPU per delta: row 3 to row 1", false, 1./10, cpuDelta, "3", "1"),
		r.ratio("heap per object: row 3 to row 1", false, 1./5, heapObject, "3", "1"),
		r.ratio("heap per object: row 3 to row 2", false, 1./4, heapObject, "3", "2"),
		r.ratio("heap per object: row 3b to row 1", false, 1./15, heapObject, "3b", "1"),
		r.ratio("deliveries per second: row 4 to row 1", true, 4, deltaRate, "4", "1"),
		r.ratio("deliveries per second: row 4 to row 5", true, 25, deltaRate, "4", "5"),
	}
}

// listing is about the memory that the first list takes.
type listing struct {
	*figures
	pods int
}

func newListing(at site, s scale) section {
	f := newFigures(at, s.updates)
	f.add(inProcess("", fmt.Sprintf("informd, %d pods", s.listed()), about(pods, typical), "whole"), onlyPods(s.listed()))
	return &listing{f, s.listed()}
}

func (l *listing) report() (table, []target) {
	t := l.table("The first list", "", cpuObject, synced, heapObject, rssObject, peakRSS, steadyRSS)
	peak, _ := l.figure(peakRSS, l.contestants[0].name)
	steady, ok := l.figure(steadyRSS, l.contestants[0].name)
	return t, []target{{
		what: fmt.Sprintf("resident while listing %d pods, at most, to steady", l.pods), limit: 1.5,
		value: peak / steady, err: !ok, from: fmt.Sprintf("RSS MiB: %.0f to %.0f", peak, steady),
	}}
}

// ruled is about the number of rules.
type ruled struct {
	*figures
}

func newRules(at site, s scale) section {
	f := newFigures(at, s.updates)
	counts := []int{10, 1000}
	if s.full {
		counts = []int{1, 10, 100, 1000}
	}
	for _, n := range counts {
		rules, matching := alike(n)
		f.add(inProcess("", ruleCount(n, matching), rules, "whole"), onlyPods(s.objects))
	}
	return &ruled{f}
}

func ruleCount(n, matching int) string {
	if n == 1 {
		return "1 rule, which matches"
	}
	return fmt.Sprintf("%d rules of which %d match", n, matching)
}

func (r *ruled) report() (table, []target) {
	return r.table("Many rules, each about a tier, a namespace or an application", "", cpuDelta, deltaRate), []target{
		r.ratio("1000 rules of which 5 match to 10 of which 5 match", false, 2, cpuDelta, ruleCount(1000, 5), ruleCount(10, 5)),
	}
}

// handlers is about several handlers that each get everything.
type handlers struct{ *figures }

func newHandlers(at site, s scale) section {
	f := newFigures(at, s.updates)
	for _, n := range []int{1, 2, 4} {
		f.add(contestant{
			name: fmt.Sprintf("informd to %d", n), updates: times(2),
			start: func(ctx context.Context, at site, l *load) (subject, error) {
				return startDaemon(ctx, at, l, n, "synced", "updated")
			},
		}, mixed(s.objects))
	}
	return &handlers{f}
}

func (h *handlers) report() (table, []target) {
	return h.table("Handler processes, each of which gets every delta", "handlers", cpuDelta, deltaRate, steadyRSS), nil
}

// sizes is about the number of objects.
type sizes struct {
	*figures
	large, most string // names
	objects     int
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
	return z
}

func (z *sizes) report() (table, []target) {
	t := z.table("Pods in the cluster", "", heapObject, rssObject, cpuObject, cpuDelta, synced, peakRSS, steadyRSS)
	peak, ok := z.figure(peakRSS, z.most)
	compare := fmt.Sprintf("of %d pods to %d", z.objects, z.objects/10)
	return t, []target{
		{what: fmt.Sprintf("%d pods, GiB resident, at most", z.objects), limit: 4, value: peak / 1024, err: !ok, from: fmt.Sprintf("RSS MiB: %.0f", peak)},
		z.ratio("heap per object, "+compare, false, 1.2, heapObject, z.most, z.large),
		z.ratio("resident per object, "+compare, false, 1.2, rssObject, z.most, z.large),
		z.ratio("CPU per object listed, "+compare, false, 1.5, cpuObject, z.most, z.large),
		z.ratio("CPU per delta, "+compare, false, 1.5, cpuDelta, z.most, z.large),
	}
}

// latencies is from the load's sending a frame to the handler's Handle.
type latencies struct {
	at     site
	scale  scale
	series []series
}

type series struct {
	name  string
	rate  int
	start func(context.Context, site, *load) (waiter, error)
	took  []latency
	err   bool
}

func newLatencies(at site, s scale) section {
	l := &latencies{at: at, scale: s}
	rates := []int{1000}
	if s.full {
		rates = []int{100, 1000, 10_000}
	}
	for _, rate := range rates {
		l.series = append(l.series,
			series{name: fmt.Sprintf("informd, %d/s", rate), rate: rate, start: startWaiting},
			series{name: fmt.Sprintf("echo, %d/s", rate), rate: rate, start: startEcho})
	}
	return l
}

func (l *latencies) jobs() []job {
	var jobs []job
	for i := range l.series {
		s := &l.series[i]
		jobs = append(jobs, job{"latency of " + s.name, func(ctx context.Context) error {
			took, err := measureLatency(ctx, l.at, s.start, l.scale.watched(), l.scale.timed(s.rate), s.rate)
			if err != nil {
				s.err = true
				return err
			}
			s.took = append(s.took, took)
			return nil
		}})
	}
	return jobs
}

func (l *latencies) report() (table, []target) {
	rows := [][]string{{"", "p50 µs", "p99 µs", "p99.9 µs", "most µs", "changes/s", "of them"}}
	for _, s := range l.series {
		row := []string{s.name}
		for _, of := range []func(latency) float64{
			p50, func(t latency) float64 { return t.P99 }, func(t latency) float64 { return t.P999 }, func(t latency) float64 { return t.Most },
			func(t latency) float64 { return t.Rate },
		} {
			if s.err {
				row = append(row, "ERROR")
			} else {
				row = append(row, spread(s.took, 0, of))
			}
		}
		rows = append(rows, append(row, fmt.Sprint(l.scale.timed(s.rate))))
	}
	title := fmt.Sprintf("From the load's sending of a frame to Handle in the handler's process; %d pods", l.scale.watched())
	return table{title, rows}, []target{l.ratio(1000)}
}

// ratio is informd's median at a rate to the echo's.
func (l *latencies) ratio(rate int) target {
	own := slices.IndexFunc(l.series, func(s series) bool { return s.rate == rate })
	informd, echo := l.series[own], l.series[own+1]
	a, b := median(informd.took, p50), median(echo.took, p50)
	return target{
		what: fmt.Sprintf("latency at %d changes per second, p50, to the echo's", rate), limit: 3, value: a / b,
		from: fmt.Sprintf("µs: %.0f to %.0f", a, b), err: informd.err || echo.err,
	}
}

func p50(t latency) float64 { return t.P50 }
