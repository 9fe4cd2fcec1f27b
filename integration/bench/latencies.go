package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// latencies measures the time from when the load sends a frame until the handler's Handle gets it.
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

// aloneRate is a number of updates per second at which informd gathers none.
const aloneRate = 50

// updates returns how many updates to make at a rate.
func (l *latencies) updates(rate int) int {
	if rate == aloneRate {
		rate *= 2 // for twice as long: there are few
	}
	return l.scale.timed(rate)
}

func newLatencies(at site, s scale) section {
	l := &latencies{at: at, scale: s}
	rates := []int{aloneRate, 1000}
	if s.full {
		rates = []int{aloneRate, 100, 1000, 10_000}
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
		jobs = append(jobs, job{name: "latency of " + s.name, do: func(ctx context.Context) error {
			took, err := measureLatency(ctx, l.at, s.start, l.scale.watched(),
				l.updates(s.rate), s.rate)
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
	rows := [][]string{slices.Concat([]string{""}, latencyColumns, []string{"of them", "CPU µs/change"})}
	for _, s := range l.series {
		if s.err {
			s.took = nil
		}
		row := append([]string{s.name}, latencyCells(s.took)...)
		cpu := spread(s.took, 0, func(t latency) float64 { return t.CPU })
		rows = append(rows, append(row, fmt.Sprint(l.updates(s.rate)), cpu))
	}
	title := fmt.Sprintf("From the load's sending of a frame to Handle in the handler's process; "+
		"%d pods, no state", l.scale.watched())
	gathered := &l.series[slices.IndexFunc(l.series, func(s series) bool { return s.rate == 1000 })]
	tail := median(gathered.took, p99) / 1000
	return table{title, rows}, []target{
		l.ratio("p50", 1.3, p50),
		l.ratio("p99.9", 2, p999),
		{
			what:  "latency at 1000 changes per second, where informd gathers, p99, in ms",
			limit: 20, value: tail, err: gathered.err, from: gathered.name,
		},
	}
}

func (l *latencies) charts() []chart {
	drawing := chart{
		name: "latency", title: fmt.Sprintf("From a change to its handler, %d changes per second", aloneRate),
		unit: "µs; less is better",
	}
	for _, percentile := range []struct {
		name string
		of   func(latency) float64
	}{{"p50", p50}, {"p99", p99}} {
		for _, s := range l.series {
			if who, ok := strings.CutSuffix(s.name, fmt.Sprintf(", %d/s", aloneRate)); ok {
				one := barOf(who+", "+percentile.name, who == "informd", s.took, percentile.of)
				drawing.bars = append(drawing.bars, one)
			}
		}
	}
	return []chart{drawing}
}

// ratio returns the ratio of informd's figure to the echo's, at aloneRate.
func (l *latencies) ratio(name string, limit float64, of func(latency) float64) target {
	own := slices.IndexFunc(l.series, func(s series) bool { return s.rate == aloneRate })
	informd, echo := l.series[own], l.series[own+1]
	a, b := median(informd.took, of), median(echo.took, of)
	return target{
		what: fmt.Sprintf("latency at %d changes per second, %s, to the echo's",
			aloneRate, name),
		limit: limit, value: a / b,
		from: fmt.Sprintf("µs: %.0f to %.0f", a, b), err: informd.err || echo.err,
	}
}
