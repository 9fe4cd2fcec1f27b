package main

import (
	"context"
	"fmt"
	"time"
)

// site is where contestants run.
type site struct {
	self    string        // this program
	informd string        // the binary
	dir     string        // for their files; its path is short enough for sockets
	rest    time.Duration // see measurement
}

// contestant is one program to measure.
type contestant struct {
	row, name string
	start     func(ctx context.Context, at site, l *load) (subject, error)
	// updates returns how many updates it gets. Fast contestants get more than asked for and slow
	// ones fewer, so that all take about as long.
	updates func(asked int) int
	// relaxes says that it is to give memory back once the updates are over.
	relaxes bool
	// rate is how many updates it gets per second; 0 means as many as it can take.
	rate int
	// handled returns how many deliveries a change makes. It is nil if the contestant has no
	// handlers that count by themselves.
	handled func(change) int
}

// subject is a contestant's process.
type subject interface {
	pid() int
	begin() error // to watch
	seen() (seen, error)
	// verify checks, at the end, what would be too expensive to check all the time.
	verify(ctx context.Context, l *ledger, want due) error
	stop() error
}

// measuring is a subject that can report its heap.
type measuring interface{ heap() (uint64, error) }

// explaining is a subject that can report why something is missing.
type explaining interface{ explain(context.Context) string }

func times(n int) func(int) int { return func(asked int) int { return n * asked } }

// How many times the updates of the stock informers a contestant gets, so that all run for about
// the same time.
const (
	moreInProcess = 10
	moreDelivered = 6
)

// contestants are the rows of the table.
func contestants() []contestant {
	return []contestant{
		stock("1", "stock dynamicinformer, empty handler", "whole"),
		stock("2", "the same, managedFields cut out by a transform", "strip"),
		inProcess("3", "informd in process: 2 indexes, 10 rules, keep: whole", typical, "whole"),
		inProcess("3b", "the same with 5 rules, keep: needed", typical[:5], "needed"),
		delivered("4", "informd to a handler process, all acknowledged, no state",
			setup{handlers: 1}),
		delivered("4b", "the same with a state directory", setup{handlers: 1, state: true}),
		{
			row:     "5",
			name:    "a process per event behind a stock informer",
			updates: func(asked int) int { return max(1, asked/30) },
			start:   startStock("fork"),
		},
	}
}

func stock(row, name, beside string) contestant {
	return contestant{row: row, name: name, updates: times(1), start: startStock(beside)}
}

func startStock(beside string) func(context.Context, site, *load) (subject, error) {
	return func(ctx context.Context, at site, l *load) (subject, error) {
		args := []string{l.url, beside}
		for _, e := range l.resources {
			args = append(args, e.resource)
		}
		c, err := at.start(ctx, "stock", args...)
		return inside{c}, err
	}
}

func inProcess(row, name string, rules []rule, keep string) contestant {
	return contestant{
		row:     row,
		name:    name,
		updates: times(moreInProcess),
		handled: selected(rules),
		start: func(ctx context.Context, at site, l *load) (subject, error) {
			paths, err := writeManifests(at.dir, rules, keep)
			if err != nil {
				return nil, err
			}
			c, err := at.start(ctx, "engine", append([]string{l.url}, paths...)...)
			return inside{c}, err
		},
	}
}

// delivered returns informd as a contestant, with handlers that acknowledge everything.
func delivered(row, name string, how setup) contestant {
	how.events = []string{"synced", "updated"}
	return contestant{
		row:     row,
		name:    name,
		updates: times(moreDelivered),
		start: func(ctx context.Context, at site, l *load) (subject, error) {
			return startDaemon(ctx, at, l, how)
		},
	}
}

// inside is a contestant that runs in a process of this program.
type inside struct{ *child }

func (c inside) begin() error {
	_, err := c.ask(question{Ask: askBegin})
	return err
}

func (c inside) seen() (seen, error) {
	a, err := c.ask(question{Ask: askSeen})
	return a.Seen, err
}

func (c inside) heap() (uint64, error) {
	a, err := c.ask(question{Ask: askHeap})
	return a.Heap, err
}

// verify compares the cache.
func (c inside) verify(_ context.Context, l *ledger, _ due) error {
	a, err := c.ask(question{Ask: askCache})
	if err != nil {
		return err
	}
	if want := l.cached(); a.Cache != want {
		return fmt.Errorf("the cache has %+v; due are %+v", a.Cache, want)
	}
	return nil
}

var (
	_ subject    = inside{}
	_ subject    = (*daemon)(nil)
	_ measuring  = inside{}
	_ explaining = (*daemon)(nil)
)
