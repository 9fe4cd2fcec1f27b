package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// sample is one contestant's round.
type sample struct {
	cpuObject  float64 // µs of CPU per object of the first list; 0: not known
	cpuDelta   float64 // and per update
	rate       float64 // updates per second
	heapObject float64 // bytes per object, after garbage collection; 0: not known
	rssObject  float64 // resident bytes per object, beyond those without objects; 0: not known
	peak       float64 // MiB resident at most until synced
	rested     float64 // MiB resident then, at rest
	steady     float64 // MiB resident after the updates, at rest
	most       float64 // MiB resident at any time
	synced     float64 // seconds
	written    float64 // bytes sent to the disk per update
}

// results has all rounds of one contestant.
type results struct {
	samples []sample
	err     error
}

func (r *results) add(s sample, err error) {
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.samples = append(r.samples, s)
}

// patience is how long it may take until anything more is seen.
const patience = time.Minute

// outstanding is how many updates the load is ahead of a contestant at most, so that what is
// measured is a stream and not a pile.
const outstanding = 20_000

// bursts are how often per second those get their updates that have a rate. One by one they would
// cost more to wake up for than to take.
const bursts = 10

// measure runs a contestant over a load of its own: the first list, and then so many updates at
// full speed.
func measure(
	ctx context.Context, at site, c contestant, p population, updates int) (s sample, err error) {
	l, err := startLoad(ctx, at, p)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	sub, err := c.start(ctx, at, l)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, sub.stop()) }()
	m := &measurement{contestant: c, subject: sub, load: l, objects: p.total(), rest: at.rest}
	return m.run(ctx, updates)
}

// measurement is a measure under way.
type measurement struct {
	contestant
	subject subject
	load    *load
	objects int
	rest    time.Duration // how long memory is to be still before it is looked at
}

func (m *measurement) run(ctx context.Context, updates int) (s sample, err error) {
	emptyHeap, err := m.heap()
	if err != nil {
		return s, err
	}
	empty, err := used(m.subject.pid())
	if err != nil {
		return s, err
	}
	start := time.Now()
	if err := m.subject.begin(); err != nil {
		return s, err
	}
	want := due{objects: m.load.objects(), updates: &tally{}}
	if err := m.await(ctx, want); err != nil {
		return s, err
	}
	s.synced = time.Since(start).Seconds()
	listed, err := used(m.subject.pid())
	if err != nil {
		return s, err
	}
	s.peak = mib(listed.peak)
	before, err := settled(ctx, m.subject.pid(), m.rest)
	if err != nil {
		return s, err
	}
	s.rested = mib(before.rss)

	took, err := m.feed(ctx, updates)
	if err != nil {
		return s, err
	}
	want.updates = m.load.updated()
	if m.handled != nil {
		want.handled = m.load.selected(m.handled)
	}
	if err := m.await(ctx, want); err != nil {
		return s, err
	}
	after, err := settled(ctx, m.subject.pid(), m.rest)
	if err != nil {
		return s, err
	}
	if !slices.Equal(before.pids, after.pids) {
		return s, fmt.Errorf("processes came or went: %v, then %v", before.pids, after.pids)
	}
	s.rate = float64(updates) / took.Seconds()
	s.cpuDelta = per(after.cpu-before.cpu, updates)
	s.steady, s.most = mib(after.rss), mib(after.peak)
	s.written = float64(after.disk-before.disk) / float64(updates)
	if err := m.subject.verify(ctx, &m.load.ledger, want); err != nil {
		return s, err
	}
	fullHeap, err := m.heap()
	if fullHeap > 0 { // it began when it was told to
		s.cpuObject = per(before.cpu-empty.cpu, m.objects)
		s.heapObject = (float64(fullHeap) - float64(emptyHeap)) / float64(m.objects)
		s.rssObject = float64(after.rss-empty.rss) * 1024 / float64(m.objects)
	}
	return s, err
}

func mib(kib int) float64 { return float64(kib) / 1024 }

func per(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }

func (m *measurement) heap() (uint64, error) {
	if h, ok := m.subject.(measuring); ok {
		return h.heap()
	}
	return 0, nil
}

// feed makes updates at the contestant's rate, or as fast as it takes them, until it has seen them
// all, and tells how long that took.
func (m *measurement) feed(ctx context.Context, updates int) (time.Duration, error) {
	start, made := time.Now(), 0
	for ; m.rate > 0 && made < updates; made += min(m.rate/bursts, updates-made) {
		if err := m.load.update(min(m.rate/bursts, updates-made)); err != nil {
			return 0, err
		}
		if err := pause(ctx, time.Second/bursts); err != nil {
			return 0, err
		}
	}
	last := time.Now()
	for before := 0; ; {
		now, err := m.subject.seen()
		if err != nil {
			return 0, err
		}
		n := now.Updates.N
		if n >= updates {
			return time.Since(start), nil
		}
		for made < updates && made-n <= outstanding/2 {
			batch := min(outstanding/2, updates-made)
			if err := m.load.update(batch); err != nil {
				return 0, err
			}
			made += batch
		}
		if n > before {
			before, last = n, time.Now()
		} else if time.Since(last) > patience {
			return 0, m.missing(ctx, now, due{updates: &tally{N: updates}})
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// await returns when exactly what is due has been seen.
func (m *measurement) await(ctx context.Context, want due) error {
	var before seen
	for last := time.Now(); ; {
		now, err := m.subject.seen()
		if err != nil {
			return err
		}
		if all, err := now.meets(want); all || err != nil {
			return err
		}
		if now != before {
			before, last = now, time.Now()
		} else if time.Since(last) > patience {
			return m.missing(ctx, now, want)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (m *measurement) missing(ctx context.Context, now seen, want due) error {
	why := ""
	if e, ok := m.subject.(explaining); ok {
		why = "\n" + e.explain(ctx)
	}
	return fmt.Errorf("saw %v of %v and nothing more for %v%s", now, want, patience, why)
}
