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
	cpu, handler     float64 // µs per update: of all processes, and of informd's handler
	rss              float64 // KiB per object
	empty, afterward float64 // MiB in all: without objects, and after the updates
	synced           float64 // seconds
	rate             float64 // updates per second
}

// results are all rounds of one contestant.
type results struct {
	samples []sample
	err     error
}

func (r *results) add(s sample, err error) {
	r.samples = append(r.samples, s)
	r.err = errors.Join(r.err, err)
}

func measure(ctx context.Context, c contestant, l *load, updates int) (sample, error) {
	var empty, before, after usage
	var took time.Duration
	_, err := c.run(ctx, emptyNamespace, 0, func(s subject) (err error) {
		empty, err = settled(ctx, s.pid())
		return err
	})
	if err != nil {
		return sample{}, fmt.Errorf("%s, without objects: %w", c.name, err)
	}
	synced, err := c.run(ctx, fullNamespace, l.objects, func(s subject) (err error) {
		if before, err = settled(ctx, s.pid()); err != nil {
			return err
		}
		if took, err = l.update(ctx, updates, 0); err != nil {
			return err
		}
		if err := await(ctx, s, l.objects, updates, 100*time.Millisecond); err != nil {
			return err
		}
		if after, err = used(s.pid()); err == nil && !slices.Equal(before.pids, after.pids) {
			err = fmt.Errorf("processes came or went: %v, then %v", before.pids, after.pids)
		}
		return err
	})
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, err)
	}
	perUpdate := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(updates) }
	return sample{
		cpu:     perUpdate(after.cpu - before.cpu),
		handler: perUpdate(after.children - before.children),
		rss:     float64(before.rss-empty.rss) / float64(l.objects),
		empty:   float64(empty.rss) / 1024, afterward: float64(after.rss) / 1024,
		synced: synced.Seconds(),
		rate:   float64(updates) / took.Seconds(),
	}, nil
}
