package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// costly measures how one informer affects another. One source has costly rules and a resync every
// second. The other source changes a little all the time, and its latencies are measured.
type costly struct {
	scale scale
	runs  []*costlyRun
	err   bool
}

// costlyRun holds the results of one informd, measured without and with the costly source.
type costlyRun struct {
	name          string // which informd
	at            site
	alone, beside []trickle
	worse         []float64 // p99 with the costly source, divided by that without it
}

// trickle is one measurement of the source that changes a little.
type trickle struct {
	latency
	cores float64 // processor time that informd and its handler used meanwhile, per second
}

const (
	// trickleObjects are so few that an object changes again every 8 ms. Its next event waits for
	// the acknowledgement of the one before, so an acknowledgement that comes late makes the next
	// event late, too.
	trickleObjects = 4
	trickleRate    = 500
	// costlyTurns is how often a round measures each informd.
	costlyTurns = 2
	// costlyWhen takes some 0.1 ms for an object and selects none.
	costlyWhen = `sum(map(1..300, # % 7)) < 0 or any(1..300, # == len(object.metadata.name) + 1000)`
)

func newCostly(at site, s scale) *costly {
	return &costly{scale: s, runs: []*costlyRun{{name: "informd", at: at}}}
}

// objects is how many objects the costly source has: 2,000.
func (c *costly) objects() int { return max(1, c.scale.objects/10) }

func (c *costly) updates() int { return c.scale.timed(trickleRate) }

func (c *costly) jobs() []job {
	return []job{{name: "beside a costly source", do: func(ctx context.Context) error {
		err := c.measure(ctx)
		c.err = c.err || err != nil
		return err
	}}}
}

func (c *costly) measure(ctx context.Context) error {
	for range costlyTurns {
		for _, run := range c.runs {
			alone, err := c.trickle(ctx, run.at, "")
			if err != nil {
				return fmt.Errorf("%s, alone: %w", run.name, err)
			}
			beside, err := c.trickle(ctx, run.at, c.manifests())
			if err != nil {
				return fmt.Errorf("%s, beside a costly source: %w", run.name, err)
			}
			run.alone, run.beside = append(run.alone, alone), append(run.beside, beside)
			run.worse = append(run.worse, beside.P99/alone.P99)
		}
	}
	return nil
}

// manifests returns the costly source and its rule, which looks at every object once a second.
func (c *costly) manifests() string {
	return fmt.Sprintf(`---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: pods},
 spec: {resource: v1/pods, resync: 1s}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: costly},
 spec: {source: pods, handler: handler-0, when: %q}}
`, costlyWhen)
}

// trickle runs an informd with more manifests and measures the updates of the source that changes a
// little.
func (c *costly) trickle(ctx context.Context, at site, more string) (took trickle, err error) {
	l, err := startLoad(ctx, at, population{c.objects(), 0, trickleObjects})
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	d, err := startDaemon(ctx, at, l, setup{
		handlers: 1, resources: []string{configmaps}, events: []string{"updated"},
		state: true, more: more,
	})
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return took, err
	}
	for _, n := range []int{min(c.updates(), trickleRate), c.updates()} { // the first warm up
		if took, err = trickled(ctx, d, l, n); err != nil {
			return took, err
		}
	}
	if more == "" {
		return took, nil
	}
	return took, c.awaitResync(ctx, d)
}

// trickled makes n updates of the load's last resource, which changes a little, and measures them.
func trickled(ctx context.Context, d *daemon, l *load, n int) (took trickle, err error) {
	before, err := used(d.pid())
	if err != nil {
		return took, err
	}
	changing := l.resources[len(l.resources)-1]
	took.latency, err = l.timed(ctx, d.handler().ask, changing, n, trickleRate, n)
	if err != nil {
		return took, err
	}
	after, err := used(d.pid())
	if err != nil {
		return took, err
	}
	took.cores = (after.cpu - before.cpu).Seconds() * took.Rate / float64(n)
	want := due{objects: &tally{}, updates: l.updated()}
	return took, (&measurement{subject: d, load: l}).await(ctx, want)
}

// awaitResync waits until the costly source has listed and resynced. It returns an error if the
// costly rule gets no objects.
func (c *costly) awaitResync(ctx context.Context, d *daemon) error {
	due := 2 * c.objects() // the first list, and a resync
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := d.metrics(ctx)
		if err != nil {
			return err
		}
		handed := deltas(body, pods)
		if handed >= due {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the costly rule has seen %d objects, want %d or more: "+
				"there is nothing to compare with", handed, due)
		}
	}
}

// deltas returns how many changes of a source informd has handed to rules.
func deltas(metrics, source string) (n int) {
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "informd_source_deltas_total{") &&
			strings.Contains(series, fmt.Sprintf("source=%q", source)) {
			f, _ := strconv.ParseFloat(value, 64) // Prometheus writes numbers
			n += int(f)
		}
	}
	return n
}

func (c *costly) report() (table, []target) {
	rows := [][]string{{
		"", "p50 µs", "p99 µs", "most µs", "changes/s", "cores in use", "p99 to that alone",
	}}
	var targets []target
	itself := func(f float64) float64 { return f }
	for _, run := range c.runs {
		worse := spread(run.worse, 2, itself)
		for _, one := range []struct {
			name, worse string
			took        []trickle
		}{
			{run.name + ", alone", "", run.alone},
			{run.name + ", beside a costly source", worse, run.beside},
		} {
			row := []string{one.name}
			for _, of := range []func(trickle) float64{
				func(t trickle) float64 { return t.P50 }, func(t trickle) float64 { return t.P99 },
				func(t trickle) float64 { return t.Most }, func(t trickle) float64 { return t.Rate },
			} {
				row = append(row, spread(one.took, 0, of))
			}
			row = append(row, spread(one.took, 2, func(t trickle) float64 { return t.cores }),
				one.worse)
			rows = append(rows, row)
		}
		targets = append(targets, target{
			what: run.name + ": p99 to the acknowledgement" +
				" beside a source with costly rules and a resync, to alone",
			limit: 1.5,
			value: median(run.worse, itself), from: "of each turn, to the one before: " + worse,
			err: c.err || len(run.worse) == 0,
		})
	}
	title := fmt.Sprintf("Beside a source with costly rules and a resync of %d pods every second: "+
		"%d updates of %d config maps, %d per second, with a state directory",
		c.objects(), c.updates(), trickleObjects, trickleRate)
	return table{title, rows}, targets
}

func (c *costly) charts() []chart {
	drawing := chart{
		name:  "beside",
		title: "From a change to its handler, beside a source with costly rules and a resync",
		unit:  "µs, p99; less is better",
	}
	p99 := func(t trickle) float64 { return t.P99 }
	for _, run := range c.runs {
		drawing.bars = append(drawing.bars,
			barOf(run.name+", alone", true, run.alone, p99),
			barOf(run.name+", beside it", true, run.beside, p99))
	}
	return []chart{drawing}
}
