package main

import (
	"context"
	"errors"
	"fmt"
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
		informd("informd, 1 rule that matches nothing", manifests{rules: 1, noMatch: true}),
		informd("informd, 100 rules that match nothing", manifests{rules: 100, noMatch: true}),
		informd("informd, all delivered to log", manifests{rules: 1, path: "/dev/null"}),
	}
}

// run starts a contestant, waits until it has seen all objects, does something with it, and stops it.
func (c contestant) run(ctx context.Context, namespace string, objects int, do func(subject) error) (synced time.Duration, err error) {
	start := time.Now()
	s, err := c.start(ctx, namespace)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := await(ctx, s, objects, 0, 20*time.Millisecond); err != nil {
		return 0, err
	}
	synced = time.Since(start)
	return synced, do(s)
}

// patience is how long it may take until everything is seen: the initial list, or the rest after the last update.
const patience = time.Minute

// await returns when the subject has seen exactly so much. It asks every so often.
func await(ctx context.Context, s subject, objects, updates int, every time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		o, u, ok, err := s.seen(ctx)
		switch {
		case err != nil:
			return err
		case ok && (o > objects || u > updates):
			return fmt.Errorf("saw %d objects of %d and %d updates of %d: too many", o, objects, u, updates)
		case ok && o == objects && u == updates:
			return nil
		}
		if err := pause(ctx, every); err != nil {
			return fmt.Errorf("saw %d objects of %d and %d updates of %d: %w", o, objects, u, updates, err)
		}
	}
}
