package main

import (
	"context"
	"fmt"
	"slices"
)

// figures holds the results of several contestants over all rounds.
type figures struct {
	at      site
	updates int
	entries []*entry
}

type entry struct {
	contestant
	population population
	results    results
}

func newFigures(at site, updates int) *figures { return &figures{at: at, updates: updates} }

func (f *figures) add(c contestant, p population) {
	f.entries = append(f.entries, &entry{contestant: c, population: p})
}

func (f *figures) jobs() []job {
	var jobs []job
	for _, e := range f.entries {
		jobs = append(jobs, job{name: e.name, do: func(ctx context.Context) error {
			updates := e.contestant.updates(f.updates)
			s, err := measure(ctx, f.at, e.contestant, e.population, updates)
			e.results.add(s, err)
			return err
		}})
	}
	return jobs
}

// column is one figure of a sample, as a column of a table.
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
	peakRSS    = column{"RSS MiB at most listing", 0, func(s sample) float64 { return s.peak }}
	restedRSS  = column{"at rest", 0, func(s sample) float64 { return s.rested }}
	mostRSS    = column{"at most", 0, func(s sample) float64 { return s.most }}
	steadyRSS  = column{"after updates", 0, func(s sample) float64 { return s.steady }}
	laterRSS   = column{"within 30 s", 0, func(s sample) float64 { return s.later }}
	written    = column{"B written/delta", 0, func(s sample) float64 { return s.written }}
	synced     = column{"synced s", 2, func(s sample) float64 { return s.synced }}
)

func (f *figures) table(title, of string, columns ...column) table {
	head := []string{of}
	for _, c := range columns {
		head = append(head, c.name)
	}
	rows := [][]string{head}
	for _, e := range f.entries {
		row := []string{e.name}
		if e.row != "" {
			row[0] = e.row + ": " + e.name
		}
		for _, c := range columns {
			cell := "–" // does not apply
			switch {
			case e.results.err != nil:
				cell = "ERROR"
			case median(e.results.samples, c.of) != 0:
				cell = spread(e.results.samples, c.digits, c.of)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return table{title, rows}
}

// ratio returns the ratio of two contestants' figures as a target. row and to are rows or names.
func (f *figures) ratio(what string, least bool, limit float64, c column, row, to string) target {
	a, okA := f.figure(c, row)
	b, okB := f.figure(c, to)
	return target{
		what: what, least: least, limit: limit, value: a / b, err: !okA || !okB,
		from: fmt.Sprintf("%s: %.*f to %.*f", c.name, c.digits, a, c.digits, b),
	}
}

// more returns the difference of two contestants' figures as a target. row and than are rows or
// names.
func (f *figures) more(what string, limit float64, c column, row, than string) target {
	t := f.ratio(what, false, limit, c, row, than)
	a, _ := f.figure(c, row)
	b, _ := f.figure(c, than)
	t.value = a - b
	return t
}

// figure returns the median of the contestant with that row or name, and whether there is one.
func (f *figures) figure(c column, row string) (float64, bool) {
	i := slices.IndexFunc(f.entries, func(e *entry) bool { return e.row == row || e.name == row })
	r := f.entries[i].results
	value := median(r.samples, c.of)
	return value, r.err == nil && value > 0
}
