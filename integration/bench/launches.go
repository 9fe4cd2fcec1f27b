package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/informd/informd/internal/procfs"
	"github.com/informd/informd/plugins/host"
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// launches measures what it costs to launch a handler's process.
type launches struct {
	at site
	// ready is the time in ms from a launch until the process takes events: the check of the file,
	// the shim, handshake, describe and configure.
	ready []float64
	shims []float64 // KiB of private memory of a shim, the process between informd and a handler
	err   bool
}

// launchCount is how many launches there are per round, and shimCount how many shims.
const (
	launchCount = 10
	shimCount   = 4
)

func newLaunches(at site, _ scale) section { return &launches{at: at} }

func (l *launches) jobs() []job {
	return []job{{name: "launches", do: func(ctx context.Context) error {
		err := l.measure(ctx)
		l.err = l.err || err != nil
		return err
	}}}
}

func (l *launches) measure(ctx context.Context) error {
	for range launchCount {
		took, err := timeLaunch(ctx, l.at)
		if err != nil {
			return err
		}
		l.ready = append(l.ready, float64(took.Microseconds())/1000)
	}
	return l.weighShims(ctx)
}

// weighShims measures the memory of the shims of an informd with a few handlers.
func (l *launches) weighShims(ctx context.Context) (err error) {
	load, err := startLoad(ctx, l.at, onlyPods(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.stop()) }()
	d, err := startDaemon(ctx, l.at, load, setup{handlers: shimCount, events: []string{"updated"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	for _, shim := range procfs.Below(d.pid()) {
		if shim.Parent == d.pid() && len(procfs.Below(shim.PID)) > 0 { // it has a handler
			private := numberIn(shim.PID, "smaps_rollup", "Private_Clean") +
				numberIn(shim.PID, "smaps_rollup", "Private_Dirty")
			l.shims = append(l.shims, float64(private))
		}
	}
	if len(l.shims)%shimCount != 0 {
		return fmt.Errorf("%d shims in all, want %d of each informd", len(l.shims), shimCount)
	}
	return nil
}

// timeLaunch launches informd's log handler from this process, and returns how long that took.
func timeLaunch(ctx context.Context, at site) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(at.dir, "l")
	if err != nil {
		return 0, err
	}
	spec := host.Spec{
		Name: "log", Path: at.informd, Args: []string{"handler", "serve", "log"},
		Config: []byte(`{"path":"/dev/null"}`),
	}
	h := host.New(spec, host.Options{RunDir: dir})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		_ = h.Run(running) // it never fails
	}()
	defer func() {
		stop()
		<-ended
	}()
	ready, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.Ready(ready); err != nil {
		return 0, fmt.Errorf("%w: %s", err, h.Status().Reason)
	}
	return time.Since(began), nil
}

func (l *launches) report() (table, []target) {
	row := []string{"ERROR", "ERROR"}
	if !l.err {
		itself := func(f float64) float64 { return f }
		row = []string{spread(l.ready, 1, itself), spread(l.shims, 0, itself)}
	}
	return table{
		fmt.Sprintf("A handler's process; %d launches of the log handler, %d shims",
			len(l.ready), len(l.shims)),
		[][]string{{"ms from launch to ready", "KiB of a shim's own"}, row},
	}, nil
}
