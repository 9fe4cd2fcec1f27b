package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// contestant is something to be measured.
type contestant struct {
	name  string
	start func(ctx context.Context, namespace string) (subject, error)
}

// subject is a contestant's process.
type subject interface {
	pid() int
	// seen tells how many objects of the initial list, and how many updates after it, have come all the way to where
	// the contestant takes them. It is not ok before the contestant is synced.
	seen(ctx context.Context) (objects, updates int, ok bool, err error)
	stop() error
}

// site is where contestants run.
type site struct{ kubeconfig, binary, dir string }

func contestants(at site) []contestant {
	informd := func(name string, m manifests) contestant {
		return contestant{name, func(ctx context.Context, namespace string) (subject, error) {
			return startInformd(ctx, at, namespace, m, nil)
		}}
	}
	return []contestant{
		{"client-go dynamicinformer, empty handler", func(ctx context.Context, namespace string) (subject, error) {
			return startClientGo(ctx, at.kubeconfig, namespace)
		}},
		informd("informd, 1 rule that matches nothing", manifests{rules: 1, kind: "none"}),
		informd("informd, 100 rules that match nothing", manifests{rules: 100, kind: "none"}),
		informd("informd, all delivered to log", manifests{rules: 1, path: "/dev/null"}),
	}
}

// patience is how long a contestant may take for the rest after the last update, or to get synced.
const patience = time.Minute

// await returns when the subject has seen so much.
func await(ctx context.Context, s subject, objects, updates int, every time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		o, u, ok, err := s.seen(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("saw %d of %d objects and %d of %d updates: %w", o, objects, u, updates, ctx.Err())
		case err != nil:
			return err
		case ok && (o > objects || u > updates):
			return fmt.Errorf("saw %d objects where there are %d, and %d updates of %d", o, objects, u, updates)
		case ok && o == objects && u == updates:
			return nil
		}
		_ = pause(ctx, every) // the next turn sees an end of ctx, with what was seen
	}
}

// sample is one contestant's round.
type sample struct {
	cpu, handler     float64 // µs per update: of all processes, and of those that informd started
	rss              float64 // KiB per object
	empty, afterward float64 // MiB in all: without objects, and after the updates
	synced           float64 // seconds
	rate             float64 // updates per second
}

func measure(ctx context.Context, c contestant, l *load) (sample, error) {
	var out sample
	failed := func(err error) (sample, error) { return sample{}, fmt.Errorf("%s: %w", c.name, err) }
	empty, _, err := begin(ctx, c, emptyNamespace, 0)
	if err != nil {
		return failed(err)
	}
	base, err := settled(ctx, empty.pid())
	if err := firstOf(err, empty.stop()); err != nil {
		return failed(err)
	}
	s, synced, err := begin(ctx, c, fullNamespace, l.objects)
	if err != nil {
		return failed(err)
	}
	before, after, took, err := underLoad(ctx, s, l)
	if err := firstOf(err, s.stop()); err != nil {
		return failed(err)
	}
	perUpdate := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(l.updates) }
	out.handler = perUpdate(after.children - before.children)
	out.cpu = perUpdate(after.cpu-before.cpu) + out.handler
	out.rss = float64(before.rss-base.rss) / float64(l.objects)
	out.empty, out.afterward = float64(base.rss)/1024, float64(after.rss)/1024
	out.synced = synced.Seconds()
	out.rate = float64(l.updates) / took.Seconds()
	return out, nil
}

// begin starts a contestant and returns how long it took to see every object.
func begin(ctx context.Context, c contestant, namespace string, objects int) (subject, time.Duration, error) {
	start := time.Now()
	s, err := c.start(ctx, namespace)
	if err != nil {
		return nil, 0, err
	}
	if err := await(ctx, s, objects, 0, 20*time.Millisecond); err != nil {
		return nil, 0, firstOf(err, s.stop())
	}
	return s, time.Since(start), nil
}

func underLoad(ctx context.Context, s subject, l *load) (before, after usage, took time.Duration, err error) {
	if before, err = settled(ctx, s.pid()); err != nil {
		return before, after, took, err
	}
	if took, err = l.update(ctx, l.updates, 0); err != nil {
		return before, after, took, err
	}
	if err = await(ctx, s, l.objects, l.updates, 100*time.Millisecond); err != nil {
		return before, after, took, err
	}
	after, err = used(s.pid())
	if err == nil && !slices.Equal(before.pids, after.pids) {
		err = fmt.Errorf("processes came or went: %v, then %v", before.pids, after.pids)
	}
	return before, after, took, err
}

// firstOf is what went wrong first, with what came of it.
func firstOf(err, then error) error {
	if err != nil && then != nil {
		return fmt.Errorf("%w (then: %s)", err, strings.TrimSpace(then.Error()))
	}
	if err == nil {
		return then
	}
	return err
}
