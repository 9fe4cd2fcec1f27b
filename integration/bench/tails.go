package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tails measures how long the updates of one source take while informd works on another one with
// many objects.
type tails struct {
	at    site
	scale scale
	turns []*tail
	err   bool
}

// tail is one turn of a round, with its results.
type tail struct {
	rate int // updates per second that are measured
	work work
	took []latency
	done []workDone
}

// work is what informd does meanwhile.
type work string

const (
	noWork   work = "nothing else"
	collects work = "garbage collections: 3000 others change a second"
	flushes  work = "flushes of the state: 10000 others change a second"
	lists    work = "a list of all others"
	resyncs  work = "resyncs of all others, one after the other"
)

// busyRates are how many of the others change per second.
var busyRates = map[work]int{collects: 3000, flushes: 10_000}

// tailObjects is how many objects the measured source has.
const tailObjects = 500

// workDone counts what informd has done.
type workDone struct {
	deltas      int // of the others, handed to rules
	collections int // of garbage
	logs        int // of the state, begun
}

func newTails(at site, s scale) section {
	t := &tails{at: at, scale: s}
	for _, rate := range []int{aloneRate, 1000} {
		for _, w := range []work{noWork, collects, flushes, lists, resyncs} {
			t.turns = append(t.turns, &tail{rate: rate, work: w})
		}
	}
	return t
}

func (t *tails) jobs() []job {
	return []job{{name: "tails", do: func(ctx context.Context) error {
		err := errors.Join(
			t.measure(ctx, "", func(w work) bool { return w != resyncs }),
			t.measure(ctx, ", resync: 1s", func(w work) bool { return w == resyncs }))
		t.err = t.err || err != nil
		return err
	}}}
}

// measure takes the chosen turns with one informd, whose source of the others has more fields.
func (t *tails) measure(ctx context.Context, fields string, chosen func(work) bool) (err error) {
	l, err := startLoad(ctx, t.at, population{t.scale.listed(), 0, tailObjects})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	d, err := startDaemon(ctx, t.at, l, setup{
		handlers: 1, resources: []string{configmaps}, events: []string{"updated"}, state: true,
		more: fmt.Sprintf(tailManifests, fields),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	changing, n := l.resources[1], t.scale.timed(1000)
	if _, err := l.timed(ctx, d.handler().ask, changing, n, 1000, n); err != nil { // to warm up
		return err
	}
	for _, turn := range t.turns {
		if !chosen(turn.work) {
			continue
		}
		if err := t.take(ctx, d, l, turn); err != nil {
			return fmt.Errorf("%s, %d/s: %w", turn.work, turn.rate, err)
		}
	}
	return nil
}

// tailManifests hold the other source, with a rule that looks at each object and selects none.
const tailManifests = `---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: pods},
 spec: {resource: v1/pods%s}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: others},
 spec: {source: pods, handler: handler-0, when: 'object.status.phase == "none"'}}
`

// take measures the updates of one turn, while informd does its work.
func (t *tails) take(ctx context.Context, d *daemon, l *load, turn *tail) error {
	before, err := d.workDone(ctx)
	if err != nil {
		return err
	}
	if turn.work == lists {
		if _, err := l.ask(question{Ask: askReplace, Resource: pods}); err != nil {
			return err
		}
	}
	busy := question{Ask: askBusy, Resource: pods, Rate: busyRates[turn.work]}
	if _, err := l.ask(busy); err != nil {
		return err
	}
	n := t.scale.timed(turn.rate)
	took, err := l.timed(ctx, d.handler().ask, l.resources[1], n, turn.rate, n)
	if err != nil {
		return err
	}
	after, err := d.workDone(ctx)
	if err != nil {
		return err
	}
	turn.took, turn.done = append(turn.took, took), append(turn.done, after.less(before))
	if _, err := l.ask(question{Ask: askBusy, Resource: pods}); err != nil { // ends it
		return err
	}
	return t.awaitRest(ctx, d, turn, before)
}

// awaitRest waits until informd has handed all changes of the others to rules: after a list those of
// all objects. Resyncs go on.
func (t *tails) awaitRest(ctx context.Context, d *daemon, turn *tail, before workDone) error {
	if turn.work == resyncs {
		return nil
	}
	least := before.deltas
	if turn.work == lists {
		least += t.scale.listed()
	}
	for last, quiet := 0, time.Now(); ; {
		now, err := d.workDone(ctx)
		if err != nil {
			return err
		}
		if now.deltas != last {
			last, quiet = now.deltas, time.Now()
		}
		rested := time.Since(quiet)
		if now.deltas >= least && rested > t.at.rest/2 {
			return nil
		}
		if rested > patience {
			return fmt.Errorf("informd has handed %d of %d changes to rules",
				now.deltas-before.deltas, least-before.deltas)
		}
		if err := pause(ctx, t.at.rest/20); err != nil {
			return err
		}
	}
}

func (w workDone) less(before workDone) workDone {
	return workDone{
		w.deltas - before.deltas, w.collections - before.collections, w.logs - before.logs,
	}
}

// workDone returns what informd has done since its start.
func (d *daemon) workDone(ctx context.Context) (w workDone, err error) {
	body, err := d.metrics(ctx)
	if err != nil {
		return w, err
	}
	w.deltas = deltas(body, pods)
	w.collections = metric(body, "go_gc_duration_seconds_count")
	logs, err := filepath.Glob(filepath.Join(d.state, "*", "cuts-*"))
	if err != nil {
		return w, err
	}
	for _, path := range logs {
		n := 0
		if _, err := fmt.Sscanf(filepath.Base(path), "cuts-%d", &n); err != nil {
			return w, fmt.Errorf("a log of the state: %w", err)
		}
		w.logs = max(w.logs, n)
	}
	return w, nil
}

func (t *tails) report() (table, []target) {
	rows := [][]string{slices.Concat([]string{"meanwhile informd does"}, latencyColumns,
		[]string{"others' changes", "collections", "logs of the state"})}
	var targets []target
	var alone *tail
	for _, turn := range t.turns {
		if turn.work == noWork {
			alone = turn
		}
		row := append([]string{fmt.Sprintf("%s, %d/s", turn.work, turn.rate)},
			latencyCells(turn.took)...)
		for _, of := range []func(workDone) float64{
			func(w workDone) float64 { return float64(w.deltas) },
			func(w workDone) float64 { return float64(w.collections) },
			func(w workDone) float64 { return float64(w.logs) },
		} {
			row = append(row, spread(turn.done, 0, of))
		}
		rows = append(rows, row)
		if turn != alone {
			targets = append(targets, t.target(turn, alone))
		}
	}
	title := fmt.Sprintf("Tails: from the load's sending of a frame to Handle, of %d config maps, "+
		"while informd works on %d pods; with a state directory", tailObjects, t.scale.listed())
	return table{title, rows}, targets
}

// gatheringBound is how long informd lets an event wait for others, in ms.
const gatheringBound = 10

func (t *tails) target(turn, alone *tail) target {
	undisturbed := median(alone.took, p99) / 1000
	what, _, _ := strings.Cut(string(turn.work), ":")
	return target{
		what:  fmt.Sprintf("p99 in ms at %d changes per second, during %s", turn.rate, what),
		limit: max(3*undisturbed, gatheringBound), value: median(turn.took, p99) / 1000,
		from: fmt.Sprintf("3 times the undisturbed %.2f, or %d", undisturbed, gatheringBound),
		err:  t.err || len(turn.took) == 0,
	}
}
