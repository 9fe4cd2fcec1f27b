package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// backlogs are of a handler that is away: its rule has every update delivered, and informd keeps
// state.
type backlogs struct {
	at      site
	objects int
	deltas  []int
	results [][]backlog // by deltas
	err     []bool
}

// backlog is what became of one.
type backlog struct {
	taken   float64 // updates per second, while the handler is away
	waiting float64 // MiB resident at most until it comes back
	disk    float64 // MiB of the state then
	away    float64 // how many of what waits are on the disk alone
	rate    float64 // deliveries per second, from when it is back until all are acknowledged
	most    float64 // MiB resident at any time
}

// backlogLimit is what is to be resident at most, in MiB, however much waits.
const backlogLimit = 768

func newBacklogs(at site, s scale) section {
	b := &backlogs{at: at, objects: s.objects, deltas: []int{10 * s.updates}}
	if s.full {
		b.deltas = append(b.deltas, 200*s.updates/3)
	}
	b.results, b.err = make([][]backlog, len(b.deltas)), make([]bool, len(b.deltas))
	return b
}

func (b *backlogs) jobs() []job {
	var jobs []job
	for i, n := range b.deltas {
		jobs = append(jobs, job{name: fmt.Sprintf("a backlog of %d", n), once: true, do: func(ctx context.Context) error {
			result, err := measureBacklog(ctx, b.at, b.objects, n)
			if err != nil {
				b.err[i] = true
				return err
			}
			b.results[i] = append(b.results[i], result)
			return nil
		}})
	}
	return jobs
}

func (b *backlogs) report() (table, []target) {
	rows := [][]string{{"", "deltas/s taken", "on disk alone", "MiB of state", "RSS MiB at most, handler away", "deliveries/s when it is back", "RSS MiB at most"}}
	var targets []target
	for i, n := range b.deltas {
		row := []string{fmt.Sprintf("%d deltas", n)}
		for _, of := range []func(backlog) float64{
			func(r backlog) float64 { return r.taken }, func(r backlog) float64 { return r.away }, func(r backlog) float64 { return r.disk },
			func(r backlog) float64 { return r.waiting }, func(r backlog) float64 { return r.rate }, func(r backlog) float64 { return r.most },
		} {
			row = append(row, spread(b.results[i], 0, of))
		}
		rows = append(rows, row)
		most := median(b.results[i], func(r backlog) float64 { return r.most })
		targets = append(targets, target{
			what: fmt.Sprintf("MiB resident with a backlog of %d deltas, at most", n), limit: backlogLimit, value: most, err: b.err[i] || most == 0,
			from: "all of them delivered, in order, none merged",
		})
	}
	return table{fmt.Sprintf("A handler that is away, and comes back; %d config maps, delivery: every, a state directory; once", b.objects), rows}, targets
}

func measureBacklog(ctx context.Context, at site, objects, n int) (r backlog, err error) {
	l, err := startLoad(ctx, at, population{2: objects}) // of which a million updates fit into what a rule may have on disk
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	away := filepath.Join(at.dir, "away")
	if err := os.WriteFile(away, nil, 0o600); err != nil {
		return r, err
	}
	d, err := startDaemon(ctx, at, l, setup{handlers: 1, events: []string{"updated"}, state: true, handler: handlerConfig{Away: away, Ordered: true}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return r, err
	}
	start := time.Now()
	if err := d.take(ctx, l, n); err != nil {
		return r, err
	}
	r.taken = float64(n) / time.Since(start).Seconds()
	u, err := settled(ctx, d.pid(), at.rest)
	if err != nil {
		return r, err
	}
	r.waiting = mib(u.peak)
	body, err := d.metrics(ctx)
	if err != nil {
		return r, err
	}
	if merged := metric(body, `informd_rule_queue_shortened_total{rule="configmaps-0"}`); merged > 0 {
		return r, fmt.Errorf("%d of %d deltas were merged: the disk is in trouble, or what a rule may have there is used up", merged, n)
	}
	r.away = float64(metric(body, `informd_rule_queue_away{rule="configmaps-0"}`))
	r.disk = float64(metric(body, "informd_state_bytes")) / (1 << 20)

	if err := os.Remove(away); err != nil {
		return r, err
	}
	if err := d.meet(); err != nil {
		return r, err
	}
	start = time.Now()
	want := due{objects: &tally{}, updates: l.updated()}
	if err := (&measurement{subject: d, load: l}).await(ctx, want); err != nil {
		return r, err
	}
	r.rate = float64(n) / time.Since(start).Seconds()
	if err := d.verify(ctx, &l.ledger, want); err != nil {
		return r, err
	}
	if u, err = used(d.pid()); err != nil {
		return r, err
	}
	r.most = mib(u.peak)
	return r, nil
}

// take makes updates of config maps as fast as informd evaluates them.
func (d *daemon) take(ctx context.Context, l *load, updates int) error {
	last := time.Now()
	for made, before := 0, 0; ; {
		body, err := d.metrics(ctx)
		if err != nil {
			return err
		}
		n := metric(body, `informd_source_deltas_total{event="updated",source="configmaps"}`)
		if n >= updates {
			return nil
		}
		for made < updates && made-n <= outstanding/2 {
			batch := min(outstanding/2, updates-made)
			if err := l.update(batch); err != nil {
				return err
			}
			made += batch
		}
		if n > before {
			before, last = n, time.Now()
		} else if time.Since(last) > patience {
			return fmt.Errorf("%d of %d updates were evaluated, and nothing more for %v\n%s", n, updates, patience, d.explain(ctx))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
