package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// sample holds the figures of one contestant in one round. It has many fields because each is one
// figure.
type sample struct {
	cpuObject  float64 // µs of CPU per object of the first list; 0 if unknown
	cpuDelta   float64 // µs of CPU per update
	rate       float64 // updates per second
	heapObject float64 // bytes per object, after garbage collection; 0 if unknown
	rssObject  float64 // resident bytes per object, beyond those without objects; 0 if unknown
	peak       float64 // most MiB resident until synced
	rested     float64 // MiB resident after the first list, at rest
	restedAnon float64 // of that, MiB that belong to no file
	steady     float64 // MiB resident after the updates, at rest
	most       float64 // most MiB resident at any time
	later      float64 // MiB resident within relaxing after the updates; 0 if not measured
	synced     float64 // seconds until synced
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

// patience is how long to wait for something new to be seen.
const patience = time.Minute

// outstanding is how many updates the load may be ahead of a contestant, so that the contestant
// gets a stream and not a backlog.
const outstanding = 20_000

// bursts is how many batches per second carry the updates of a contestant with a rate. If updates
// came one by one, waking up would cost more than handling them.
const bursts = 10

// measure runs a contestant on a load of its own: the first list, and then the updates.
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

// measurement is one run of measure.
type measurement struct {
	contestant
	subject subject
	load    *load
	objects int
	rest    time.Duration // how long memory must be stable before it is read
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
	s.restedAnon = mib(before.anon)

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
	if m.relaxes {
		if s.later, err = m.relax(ctx, s.rested); err != nil {
			return s, err
		}
	}
	if err := m.subject.verify(ctx, &m.load.ledger, want); err != nil {
		return s, err
	}
	// informd packs what has changed within two seconds after the last change.
	if err := pause(ctx, 3*m.rest); err != nil {
		return s, err
	}
	fullHeap, err := m.heap()
	if fullHeap > 0 { // it waits for askBegin before it watches
		s.cpuObject = per(before.cpu-empty.cpu, m.objects)
		s.heapObject = (float64(fullHeap) - float64(emptyHeap)) / float64(m.objects)
		s.rssObject = float64(after.rss-empty.rss) * 1024 / float64(m.objects)
	}
	return s, err
}

// A contestant has the time relaxing to give memory back after the updates. Then it may have
// relaxedTo times what it had after the first list.
const (
	relaxing  = 30 * time.Second
	relaxedTo = 1.5
)

// relax waits until the contestant has given back enough memory, or its time is over. It returns
// the MiB that are resident then.
func (m *measurement) relax(ctx context.Context, rested float64) (now float64, err error) {
	for end := time.Now().Add(relaxing); ; {
		u, err := used(m.subject.pid())
		if now = mib(u.rss); err != nil || now <= relaxedTo*rested || time.Now().After(end) {
			return now, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return now, err
		}
	}
}

func mib(kib int) float64 { return float64(kib) / 1024 }

func per(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }

func (m *measurement) heap() (uint64, error) {
	if h, ok := m.subject.(measuring); ok {
		return h.heap()
	}
	return 0, nil
}

// feed makes updates at the contestant's rate, or as fast as it takes them. It waits until the
// contestant has seen them all, and returns how long that took.
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

// await waits until the contestant has seen exactly what is due.
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
