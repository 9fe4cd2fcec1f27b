package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// replicas measures what three replicas cost beside one process, at several rates.
type replicas struct {
	at    site
	scale scale
	turns []*replicasTurn

	deposed int // how many measurements ended because another replica took over
}

// errDeposed says that another replica took over during a measurement, on a busy machine.
var errDeposed = errors.New("another replica leads")

// replicasTurn holds the results of one process, or of three replicas, at a rate.
type replicasTurn struct {
	rate         int // deltas per second
	isReplicated bool
	took         []outlay
	err          bool
}

// outlay is what a delta took, in µs of CPU.
type outlay struct {
	latency
	own      float64 // of the informd that delivers, without its handler
	handler  float64 // of the handler
	follower float64 // of a replica that follows
	written  float64 // bytes to the disk, of the informd that delivers
	handled  float64 // deltas per second that the handler got
}

func newReplicas(at site, s scale) section {
	r := &replicas{at: at, scale: s}
	rates := []int{1000, 5000, 20_000}
	if s.isTiny() {
		rates = rates[:1]
	}
	for _, rate := range rates {
		r.turns = append(r.turns, &replicasTurn{rate: rate},
			&replicasTurn{rate: rate, isReplicated: true})
	}
	return r
}

func (t *replicasTurn) String() string {
	who := "one process"
	if t.isReplicated {
		who = "three replicas"
	}
	return fmt.Sprintf("%s, %d/s", who, t.rate)
}

func (r *replicas) jobs() (jobs []job) {
	for _, t := range r.turns {
		jobs = append(jobs, job{name: "replicas: cost of " + t.String(),
			do: func(ctx context.Context) error {
				took, err := r.measure(ctx, t)
				for try := 1; errors.Is(err, errDeposed) && try < 3; try++ {
					r.deposed++
					fmt.Fprintln(os.Stderr, "bench: measured again:", err)
					took, err = r.measure(ctx, t)
				}
				if err != nil {
					t.err = true
					return err
				}
				t.took = append(t.took, took)
				return nil
			}})
	}
	return jobs
}

func (r *replicas) measure(ctx context.Context, t *replicasTurn) (took outlay, err error) {
	l, err := startLoad(ctx, r.at, onlyPods(r.scale.watched()))
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	how := setup{handlers: 1, events: []string{"updated"}, state: true}
	if !t.isReplicated {
		d, err := startDaemon(ctx, r.at, l, how)
		if err != nil {
			return took, err
		}
		defer func() { err = errors.Join(err, d.stop()) }()
		if err := d.awaitReady(ctx); err != nil {
			return took, err
		}
		return r.deliver(ctx, l, t.rate, d, nil)
	}
	three, err := startTrio(ctx, r.at, l, how)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, three.stop()) }()
	leader, err := three.leads(ctx)
	if err != nil {
		return took, err
	}
	if err := three.meets(leader); err != nil {
		return took, err
	}
	var followers []*daemon
	for _, m := range three.members {
		if m != leader {
			followers = append(followers, m.daemon)
		}
	}
	took, err = r.deliver(ctx, l, t.rate, leader.daemon, followers)
	if err != nil && ctx.Err() == nil && !leader.isLeader(ctx) {
		err = fmt.Errorf("%w: %w", errDeposed, err)
	}
	return took, err
}

// deliver makes updates at a rate, first some to warm up. d delivers them.
func (r *replicas) deliver(
	ctx context.Context, l *load, rate int, d *daemon, followers []*daemon) (o outlay, err error) {
	all := r.scale.timed(rate)
	for _, n := range []int{max(1, min(all, rate)), all} {
		before, err := consumed(d, followers)
		if err != nil {
			return o, err
		}
		start := time.Now()
		took, err := l.timed(ctx, d.handler().ask, l.resources[0], n, rate, n)
		if err != nil {
			return o, err
		}
		elapsed := time.Since(start)
		want := due{objects: &tally{}, updates: l.updated()}
		if err := (&measurement{subject: d, load: l}).await(ctx, want); err != nil {
			return o, err
		}
		after, err := consumed(d, followers)
		if err != nil {
			return o, err
		}
		if err := d.verify(ctx, &l.ledger, want); err != nil {
			return o, err
		}
		o = outlay{
			latency: took, own: per(after.own-before.own, n),
			handler:  per(after.handler-before.handler, n),
			follower: per(after.followers-before.followers, n*max(1, len(followers))),
			written:  float64(after.disk-before.disk) / float64(n),
			handled:  float64(n) / elapsed.Seconds(),
		}
	}
	return o, nil
}

// consumption is the processor time that one informd, its handler and all that follow it have
// used, and the bytes that the one has written.
type consumption struct {
	own, handler, followers time.Duration
	disk                    int
}

func consumed(d *daemon, followers []*daemon) (c consumption, err error) {
	u, err := used(d.pid())
	if err != nil {
		return c, err
	}
	c.own, c.disk = ownCPU(d.pid()), u.disk
	c.handler = u.cpu - c.own
	for _, f := range followers {
		u, err := used(f.pid())
		if err != nil {
			return c, err
		}
		c.followers += u.cpu
	}
	return c, nil
}

func (r *replicas) report() (table, []target) {
	columns := []struct {
		name   string
		digits int
		of     func(outlay) float64
	}{
		{"CPU µs/delta", 0, ownCost},
		{"its handler's", 0, func(o outlay) float64 { return o.handler }},
		{"a follower's", 0, followerCost},
		{"cores in use", 2, func(o outlay) float64 { return o.own * o.handled / 1e6 }},
		{"by its handler", 2, func(o outlay) float64 { return o.handler * o.handled / 1e6 }},
		{"by a follower", 2, func(o outlay) float64 { return o.follower * o.handled / 1e6 }},
		{"p50 ms", 1, func(o outlay) float64 { return o.P50 / 1000 }},
		{"p99 ms", 1, tailOf},
		{"deltas/s", 0, func(o outlay) float64 { return o.handled }},
		{"B written/delta", 0, func(o outlay) float64 { return o.written }},
	}
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.name)
	}
	rows := [][]string{append(head, "of them")}
	for _, t := range r.turns {
		if t.err {
			t.took = nil
		}
		row := []string{t.String()}
		for _, c := range columns {
			cell := spread(t.took, c.digits, c.of)
			if len(t.took) > 0 && median(t.took, c.of) == 0 { // one process has no follower
				cell = "–"
			}
			row = append(row, cell)
		}
		rows = append(rows, append(row, fmt.Sprint(r.scale.timed(t.rate))))
	}
	title := fmt.Sprintf("Three replicas and one process, each with a state directory on the same "+
		"machine: from the load's sending of a frame to Handle; %d pods", r.scale.watched())
	if r.deposed > 0 {
		title += fmt.Sprintf("; %d times another replica took over, and it was measured again",
			r.deposed)
	}
	return table{title, rows}, r.targets()
}

func ownCost(o outlay) float64      { return o.own }
func followerCost(o outlay) float64 { return o.follower }
func tailOf(o outlay) float64       { return o.P99 / 1000 }

// targets compare three replicas with the one process before them.
func (r *replicas) targets() (targets []target) {
	for i := 0; i < len(r.turns); i += 2 {
		one, three := r.turns[i], r.turns[i+1]
		more := func(what string, limit, scale float64, of func(outlay) float64, unit string) {
			a, b := scale*median(three.took, of), scale*median(one.took, of)
			targets = append(targets, target{
				what: fmt.Sprintf("%s at %d deltas per second: three replicas less one process",
					what, one.rate),
				limit: limit, value: a - b, err: one.err || three.err,
				from: fmt.Sprintf("%s: %.1f to %.1f", unit, a, b),
			})
		}
		// At so many µs, a delta takes so many ms of each second.
		perSecond := float64(one.rate) / 1000
		if one.rate > 1000 {
			more("CPU µs of the leader per delta", 15, 1, ownCost, "µs")
			more("p99 in ms", 10, 1, tailOf, "ms")
			continue
		}
		more("CPU ms of the leader per second", 80, perSecond, ownCost, "ms")
		targets = append(targets, target{
			what:  fmt.Sprintf("CPU ms of a follower per second at %d deltas per second", one.rate),
			limit: 30, value: perSecond * median(three.took, followerCost), err: three.err,
			from: three.String(),
		})
		more("p99 in ms", 20, 1, tailOf, "ms")
	}
	return targets
}
