package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// timed makes n updates of a resource at a rate per second. It returns how long they took to a
// handler, which ask asks and which gets due of them.
func (l *load) timed(
	ctx context.Context, ask func(question) (answer, error), e *entries, n, rate, due int,
) (took latency, err error) {
	if _, err := ask(question{Ask: askTime}); err != nil {
		return took, err
	}
	made, err := l.updateOne(e, n, rate)
	if err != nil {
		return took, err
	}
	for before, last := 0, time.Now(); ; {
		a, err := ask(question{Ask: askLatency, N: due})
		if err != nil {
			return took, err
		}
		if took = a.Latency; took.N == due {
			break
		}
		if took.N > before {
			before, last = took.N, time.Now()
		}
		if took.N > due || time.Since(last) > patience {
			return took, fmt.Errorf("%d of %d updates came", took.N, due)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return took, err
		}
	}
	took.Rate = float64(n) / made.Seconds()
	return took, nil
}

// latencyColumns are the columns that latencyCells fills.
var latencyColumns = []string{"p50 µs", "p99 µs", "p99.9 µs", "most µs", "changes/s"}

func latencyCells(took []latency) (cells []string) {
	for _, of := range []func(latency) float64{
		p50, p99, p999,
		func(t latency) float64 { return t.Most }, func(t latency) float64 { return t.Rate },
	} {
		cells = append(cells, spread(took, 0, of))
	}
	return cells
}

func p50(t latency) float64  { return t.P50 }
func p99(t latency) float64  { return t.P99 }
func p999(t latency) float64 { return t.P999 }

// waiter stands between the load and the handler. It is informd or the echo.
type waiter interface {
	subject
	handler() *asked
}

func (d *daemon) handler() *asked { return d.handlers[0] }

// measureLatency makes n updates of pods at a rate per second. It returns how long they took from
// the load to Handle in the handler process.
func measureLatency(
	ctx context.Context, at site, start func(context.Context, site, *load) (waiter, error),
	objects, n, rate int) (took latency, err error) {
	l, err := startLoad(ctx, at, onlyPods(objects))
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	w, err := start(ctx, at, l)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.begin(); err != nil {
		return took, err
	}
	m := &measurement{subject: w, load: l}
	// The first updates warm up. They also show that the waiter has synced.
	for _, n := range []int{max(1, min(n, rate)), n} {
		before, err := used(w.pid())
		if err != nil {
			return took, err
		}
		if took, err = l.timed(ctx, w.handler().ask, l.resources[0], n, rate, n); err != nil {
			return took, err
		}
		want := due{objects: &tally{}, updates: l.updated()}
		if _, ok := w.(*echoing); ok {
			want.updates.Sum = 0 // it knows no resourceVersions
		}
		if err := m.await(ctx, want); err != nil {
			return took, err
		}
		after, err := used(w.pid())
		if err != nil {
			return took, err
		}
		took.CPU = per(after.cpu-before.cpu, n)
		if err := w.verify(ctx, &l.ledger, want); err != nil {
			return took, err
		}
	}
	return took, nil
}

// startWaiting starts an informd whose handler gets updates only.
func startWaiting(ctx context.Context, at site, l *load) (waiter, error) {
	return startDaemon(ctx, at, l, setup{handlers: 1, events: []string{"updated"}})
}

// echoing is the echo's process.
type echoing struct {
	inside
	conn  net.Conn
	asked *asked // its handler
}

func startEcho(ctx context.Context, at site, l *load) (w waiter, err error) {
	dir, err := os.MkdirTemp(at.dir, "e")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "h")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	e := l.resources[0]
	c, err := at.start(ctx, "echo", l.url, fmt.Sprint(e.first+int64(e.objects)-1), dir, socket)
	if err != nil {
		return nil, err
	}
	conn, err := accept(listener, nil) // at once: it is ready, so its handler has been configured
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return &echoing{inside{c}, conn, newAsked("echo's handler", conn)}, nil
}

func (e *echoing) handler() *asked { return e.asked }

func (e *echoing) seen() (seen, error) {
	a, err := e.asked.ask(question{Ask: askSeen})
	return a.Seen, err
}

// verify has nothing more to check.
func (e *echoing) verify(context.Context, *ledger, due) error { return nil }

func (e *echoing) stop() error {
	defer e.conn.Close()
	return e.inside.stop()
}
