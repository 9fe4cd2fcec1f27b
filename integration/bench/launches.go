package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/informd/informd/plugins/host"
)

// launches are about what a handler's process costs beside itself: the shim between it and informd.
type launches struct {
	at    site
	costs []launch
	err   bool
}

// launch is one.
type launch struct {
	ready  float64 // ms from the launch until it takes events: hashing, shim, handshake, describe, configure
	memory float64 // KiB that the shim has for itself; 0: there is none
}

// launchCount is how often per round.
const launchCount = 10

func newLaunches(at site, _ scale) section { return &launches{at: at} }

func (l *launches) jobs() []job {
	return []job{{name: "launches", do: func(ctx context.Context) error {
		for range launchCount {
			cost, err := measureLaunch(ctx, l.at)
			if err != nil {
				l.err = true
				return err
			}
			l.costs = append(l.costs, cost)
		}
		return nil
	}}}
}

// measureLaunch runs a log handler of informd's for a moment, hosted by this process.
func measureLaunch(ctx context.Context, at site) (c launch, err error) {
	dir, err := os.MkdirTemp(at.dir, "l")
	if err != nil {
		return c, err
	}
	h := host.New(host.Spec{Name: "log", Path: at.informd, Args: []string{"handler", "serve", "log"}, Config: []byte(`{"path":"/dev/null"}`)},
		host.Options{RunDir: dir})
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
		return c, fmt.Errorf("%w: %s", err, h.Status().Reason)
	}
	c.ready = float64(time.Since(began).Microseconds()) / 1000
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.Status().PID))
	if err != nil {
		return c, err
	}
	p, err := parseStat(string(text))
	if err != nil {
		return c, err
	}
	if p.parent != os.Getpid() {
		c.memory = float64(numberIn(p.parent, "smaps_rollup", "Private_Clean") + numberIn(p.parent, "smaps_rollup", "Private_Dirty"))
		if c.memory == 0 {
			return c, errors.New("nothing is known of the shim's memory")
		}
	}
	return c, nil
}

func (l *launches) report() (table, []target) {
	rows := [][]string{{"", "ms from launch to ready", "KiB of the shim's own"}}
	row := []string{"the log handler", "ERROR", "ERROR"}
	if !l.err {
		row[1] = spread(l.costs, 1, func(c launch) float64 { return c.ready })
		row[2] = spread(l.costs, 0, func(c launch) float64 { return c.memory })
	}
	return table{fmt.Sprintf("A handler's process; %d launches", len(l.costs)), append(rows, row)}, nil
}
