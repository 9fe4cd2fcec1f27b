package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// gets measures informd get of many objects, in JSON and in YAML, and what it does to the rules
// about other objects meanwhile.
type gets struct {
	at    site
	scale scale
	forms []getForm
	alone []trickle
	err   bool
}

// getForm holds the results of one output form.
type getForm struct {
	name   string
	took   []seconds // from the start of the command to its end
	beside []trickle
	worse  []float64 // p99 with one get after the other, divided by that without
}

// seconds are the times of one command.
type seconds struct{ wall, cpu float64 }

func newGets(at site, s scale) section {
	return &gets{at: at, scale: s, forms: []getForm{{name: "json"}, {name: "yaml"}}}
}

func (g *gets) jobs() []job {
	return []job{{name: "informd get", do: func(ctx context.Context) error {
		err := g.measure(ctx)
		g.err = g.err || err != nil
		return err
	}}}
}

func (g *gets) measure(ctx context.Context) (err error) {
	l, err := startLoad(ctx, g.at, population{g.scale.listed(), 0, trickleObjects})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	d, err := startDaemon(ctx, g.at, l, setup{
		handlers: 1, resources: []string{configmaps}, events: []string{"updated"}, state: true,
		more: "---\n{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: pods}, " +
			"spec: {resource: v1/pods}}\n",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	n := g.scale.timed(trickleRate)
	if _, err := trickled(ctx, d, l, min(n, trickleRate)); err != nil { // to warm up
		return err
	}
	for i := range g.forms {
		form := &g.forms[i]
		took, err := g.get(ctx, d, form.name)
		if err != nil {
			return err
		}
		form.took = append(form.took, took)
		alone, err := trickled(ctx, d, l, n)
		if err != nil {
			return err
		}
		beside, err := g.beside(ctx, d, l, n, form.name)
		if err != nil {
			return err
		}
		g.alone, form.beside = append(g.alone, alone), append(form.beside, beside)
		form.worse = append(form.worse, beside.P99/alone.P99)
	}
	return nil
}

// get runs the command once and counts its output.
func (g *gets) get(ctx context.Context, d *daemon, form string) (took seconds, err error) {
	cmd := exec.CommandContext(ctx, g.at.informd, "get", pods, "-o", form, "--state-dir", d.state)
	var size counted
	cmd.Stdout = &size
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return took, fmt.Errorf("informd get -o %s: %w", form, err)
	}
	if least := 1000 * g.scale.listed(); int(size) < least { // a pod has some 2 KB
		return took, fmt.Errorf("informd get -o %s wrote %d bytes, want %d or more",
			form, size, least)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return seconds{time.Since(start).Seconds(), used.Seconds()}, nil
}

type counted int

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

var _ io.Writer = (*counted)(nil)

// beside measures n updates while one get follows the other.
func (g *gets) beside(
	ctx context.Context, d *daemon, l *load, n int, form string) (trickle, error) {
	during, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			_, err := g.get(during, d, form)
			if during.Err() != nil {
				err = nil
			}
			if err != nil || during.Err() != nil {
				ended <- err
				return
			}
		}
	}()
	took, err := trickled(ctx, d, l, n)
	end()
	return took, errors.Join(err, <-ended)
}

func (g *gets) report() (table, []target) {
	rows := [][]string{{
		"", "s", "CPU s of the command", "p50 µs of a rule meanwhile", "p99 µs", "most µs",
		"p99 to that alone",
	}}
	latencies := func(took []trickle) (cells []string) {
		for _, of := range []func(trickle) float64{
			func(t trickle) float64 { return t.P50 }, func(t trickle) float64 { return t.P99 },
			func(t trickle) float64 { return t.Most },
		} {
			cells = append(cells, spread(took, 0, of))
		}
		return cells
	}
	wall := func(s seconds) float64 { return s.wall }
	itself := func(f float64) float64 { return f }
	rows = append(rows, append(append([]string{"no get", "–", "–"}, latencies(g.alone)...), ""))
	for _, form := range g.forms {
		row := []string{"-o " + form.name, spread(form.took, 2, wall),
			spread(form.took, 2, func(s seconds) float64 { return s.cpu })}
		row = append(append(row, latencies(form.beside)...), spread(form.worse, 2, itself))
		rows = append(rows, row)
	}
	n := g.scale.listed()
	a, b := median(g.forms[1].took, wall), median(g.forms[0].took, wall)
	targets := []target{{
		what:  fmt.Sprintf("informd get -o yaml of %d pods, to -o json", n),
		limit: 3, value: a / b, from: fmt.Sprintf("s: %.2f to %.2f", a, b), err: g.err,
	}}
	for _, form := range g.forms {
		targets = append(targets, target{
			what: fmt.Sprintf("p99 to the acknowledgement beside informd get -o %s of %d pods, "+
				"to alone", form.name, n),
			limit: 3, value: median(form.worse, itself),
			from: "of each turn, to the one before: " + spread(form.worse, 2, itself),
			err:  g.err,
		})
	}
	title := fmt.Sprintf("informd get of %d pods, one after the other, and a rule about %d config "+
		"maps of which %d change per second, with a state directory",
		n, trickleObjects, trickleRate)
	return table{title, rows}, targets
}
