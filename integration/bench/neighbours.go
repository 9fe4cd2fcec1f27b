package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/informd/informd/integration/bench/fleet"
)

// neighbours measures how bad handlers affect a healthy one.
type neighbours struct {
	at    site
	scale scale
	runs  []*beside
	err   bool
}

// beside holds the healthy handler's results beside a neighbour with a vice. The first one has no
// vice.
type beside struct {
	name, vice string // vice is "" if all are well
	bound      bool   // whether there is a target for it
	took       []latency
	worse      []float64 // p99, divided by that of the turn before, when all were well
	restarts   []float64 // of that neighbour during the turn
}

// In each turn there are neighbourRate updates per second for neighbourTime. Each neighbour has
// neighbourTurns turns in a round.
const (
	neighbourRate  = 2000
	neighbourTime  = 1500 * time.Millisecond
	neighbourTurns = 2
)

func newNeighbours(at site, s scale) section {
	return &neighbours{at: at, scale: s, runs: []*beside{
		{name: "all are well"},
		{name: "one crashes, over and over", vice: exits, bound: true},
		{name: "one is stopped (SIGSTOP)", vice: stops, bound: true},
		{name: "one floods its log", vice: floods, bound: true},
		{name: "one burns a core, without limits", vice: burns},
	}}
}

// updates returns the number of updates in a turn: half as many as latencies makes at the same
// rate, but at most those of neighbourTime.
func (n *neighbours) updates() int {
	return min(n.scale.timed(neighbourRate)/2, int(neighbourTime.Seconds()*neighbourRate))
}

func (n *neighbours) jobs() []job {
	first := 0
	return []job{{name: "bad neighbours", do: func(ctx context.Context) error {
		err := n.measure(ctx, first)
		first++ // so that another one is first in the next round
		n.err = n.err || err != nil
		return err
	}}}
}

// measure runs a daemon with all neighbours. One after the other gives in to its vice.
func (n *neighbours) measure(ctx context.Context, first int) (err error) {
	l, err := startLoad(ctx, n.at, onlyPods(n.scale.watched()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	dir, err := os.MkdirTemp(n.at.dir, "n")
	if err != nil {
		return err
	}
	how := setup{handlers: 1, events: []string{"updated"}, more: n.manifests(dir)}
	d, err := startDaemon(ctx, n.at, l, how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if _, err := n.timed(ctx, d, l, min(n.updates(), neighbourRate)); err != nil { // for warming up
		return err
	}
	vices := n.runs[1:]
	for i := range neighbourTurns * len(vices) {
		well, bad := n.runs[0], vices[(first+i)%len(vices)]
		if err := n.turn(ctx, d, l, well, "", dir); err != nil {
			return fmt.Errorf("%s: %w", well.name, err)
		}
		if err := n.turn(ctx, d, l, bad, named(bad.vice, i/len(vices)), dir); err != nil {
			return fmt.Errorf("%s: %w", bad.name, err)
		}
		bad.worse = append(bad.worse, bad.took[len(bad.took)-1].P99/well.took[len(well.took)-1].P99)
	}
	return nil
}

// named returns the name of a neighbour. Each turn has another one, because a handler that has
// crashed is restarted with growing delays.
func named(vice string, turn int) string { return fmt.Sprintf("%s-%d", vice, turn) }

// names returns the names of all neighbours.
func (n *neighbours) names() (all []string) {
	for _, run := range n.runs[1:] {
		for turn := range neighbourTurns {
			all = append(all, named(run.vice, turn))
		}
	}
	return all
}

// manifests returns the neighbours' manifests. Neighbours get about one update in two hundred.
func (n *neighbours) manifests(dir string) string {
	var b strings.Builder
	for _, name := range n.names() {
		vice, _, _ := strings.Cut(name, "-")
		fmt.Fprintf(&b, "---\n{apiVersion: informd.dev/v1alpha1, kind: Handler,"+
			" metadata: {name: %[1]s}, spec: {command: [%[2]q, neighbour, %[3]s, %[4]q]}}\n"+
			"---\n{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: %[1]s},\n"+
			" spec: {source: pods, handler: %[1]s, where: 'object.metadata.labels.app == %[5]q'}}\n",
			name, n.at.self, vice, filepath.Join(dir, name), fleet.AppAt(0).Name)
	}
	return b.String()
}

// turn measures the healthy handler while the named neighbour gives in to its vice. If name is "",
// none does.
func (n *neighbours) turn(
	ctx context.Context, d *daemon, l *load, run *beside, name, dir string) error {
	for _, other := range n.names() {
		ready := fmt.Sprintf("informd_handler_ready{handler=%q}", other)
		if err := d.awaitMetric(ctx, ready, 1); err != nil {
			return err
		}
	}
	if err := pause(ctx, n.at.rest/2); err != nil {
		return err
	}
	before, err := d.restarts(ctx, name)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name)
	if name != "" {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		if err := awaitFile(ctx, given(file)); err != nil {
			return err
		}
	}
	took, err := n.timed(ctx, d, l, n.updates())
	if err != nil {
		return err
	}
	after, err := d.restarts(ctx, name)
	if err != nil {
		return err
	}
	run.took, run.restarts = append(run.took, took), append(run.restarts, float64(after-before))
	if name == "" {
		return nil
	}
	return errors.Join(os.Remove(file), n.release(run.vice, file))
}

// release brings back a neighbour that cannot come back by itself.
func (n *neighbours) release(vice, file string) error {
	text, err := os.ReadFile(given(file))
	if err != nil {
		return err
	}
	if vice == stops {
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("the stopped neighbour: %w", err)
		}
	}
	return os.Remove(given(file))
}

// timed makes updates and returns how long they took to the healthy handler.
func (n *neighbours) timed(
	ctx context.Context, d *daemon, l *load, updates int) (took latency, err error) {
	took, err = l.timed(ctx, d.handler().ask, l.resources[0], updates, neighbourRate, updates)
	if err != nil {
		return took, err
	}
	want := due{objects: &tally{}, updates: l.updated()}
	return took, (&measurement{subject: d, load: l}).await(ctx, want)
}

func (d *daemon) restarts(ctx context.Context, handler string) (int, error) {
	body, err := d.metrics(ctx)
	return metric(body, fmt.Sprintf("informd_handler_restarts_total{handler=%q}", handler)), err
}

// awaitMetric waits until a series has a value.
func (d *daemon) awaitMetric(ctx context.Context, series string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := d.metrics(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s to be %d: %w", series, want, err)
		}
		if metric(body, series) == want {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s to be %d: %w", series, want, err)
		}
	}
}

func awaitFile(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s: %w", path, err)
		}
	}
}

func (n *neighbours) report() (table, []target) {
	rows := [][]string{slices.Concat([]string{""}, latencyColumns,
		[]string{"restarts meanwhile", "p99 to that before"})}
	itself := func(f float64) float64 { return f }
	var targets []target
	for _, run := range n.runs {
		row := append([]string{run.name}, latencyCells(run.took)...)
		worse := ""
		if run.vice != "" {
			worse = spread(run.worse, 2, itself)
		}
		rows = append(rows, append(row, spread(run.restarts, 0, itself), worse))
		if run.bound {
			targets = append(targets, target{
				what:  "p99 of a handler beside others of which " + run.name + ", to when all are well",
				limit: 2, value: median(run.worse, itself),
				from: "of each turn, to the one before: " + worse,
				err:  n.err || len(run.worse) == 0,
			})
		}
	}
	title := fmt.Sprintf("Bad neighbours: from the load's sending of a frame to Handle "+
		"in a handler that is well, beside %d others; %d pods, %d updates a turn, no state",
		len(n.names()), n.scale.watched(), n.updates())
	return table{title, rows}, targets
}
