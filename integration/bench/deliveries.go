package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// deliveries is the way from informd's queue, and from the API server, to the line that the log builtin writes into a
// pipe.
type deliveries struct {
	rate             []float64      // per second, of a backlog
	paced, fullSpeed []distribution // of latency
	err              error
}

// distribution is of milliseconds.
type distribution struct{ p50, p90, p99, max float64 }

func measureDeliveries(ctx context.Context, at site, l *load) (d deliveries, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return d, err
	}
	defer read.Close()
	s, err := startInformd(ctx, at, fullNamespace, manifests{rules: 1}, write)
	_ = write.Close() // ours; informd and its handler have theirs
	if err != nil {
		return d, err
	}
	defer func() {
		if err = firstOf(err, s.stop()); err != nil {
			err = fmt.Errorf("deliveries: %w", err)
		}
	}()

	// Nobody reads the pipe yet: the handler is stuck in a write, and a backlog builds up behind it.
	s.delivers = false
	if err := await(ctx, s, l.objects, 0, 20*time.Millisecond); err != nil {
		return d, err
	}
	_, body, err := s.get(ctx, "/metrics")
	if err != nil {
		return d, err
	}
	before := metric(body, `informd_handler_deliveries_total{handler="log",result="done",rule="rule-0"}`)
	lines := &lines{pipe: read, buffered: bufio.NewReaderSize(read, 1<<20)}
	start := time.Now()
	if _, err := lines.latencies(l.objects, "synced"); err != nil {
		return d, err
	}
	d.rate = []float64{float64(l.objects-before) / time.Since(start).Seconds()}

	for _, phase := range []struct {
		updates, rate int
		to            *[]distribution
	}{{min(l.updates, 5*l.sizes.rate), l.sizes.rate, &d.paced}, {l.updates / 2, 0, &d.fullSpeed}} {
		written := make(chan error, 1)
		go func() {
			_, err := l.update(ctx, phase.updates, phase.rate)
			written <- err
		}()
		got, err := lines.latencies(phase.updates, "updated")
		if err = errors.Join(<-written, err); err != nil {
			return d, err
		}
		*phase.to = []distribution{distributionOf(got)}
	}
	return d, nil
}

// lines are what the log builtin writes.
type lines struct {
	pipe     *os.File
	buffered *bufio.Reader
}

// latencies reads n lines, all of one kind of event, and returns how long each took since its object was sent. The
// objects' `sent` comes before that of the old state.
func (l *lines) latencies(n int, event string) ([]time.Duration, error) {
	if err := l.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	out := make([]time.Duration, 0, n)
	for range n {
		line, err := l.buffered.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("%d of %d %s events came: %w", len(out), n, event, err)
		}
		_, rest, found := bytes.Cut(line, []byte(`"sent":"`))
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		sent, err := strconv.ParseInt(string(digits), 10, 64)
		if !found || err != nil || !bytes.Contains(line, []byte(`"event":"`+event+`"`)) {
			return nil, fmt.Errorf("not an %s event of ours: %.100q", event, line)
		}
		out = append(out, time.Since(time.Unix(0, sent)))
	}
	return out, nil
}

func distributionOf(d []time.Duration) distribution {
	slices.Sort(d)
	at := func(q float64) float64 { return d[int(q*float64(len(d)-1))].Seconds() * 1000 }
	return distribution{at(0.5), at(0.9), at(0.99), at(1)}
}

func (d *deliveries) add(one deliveries, err error) {
	d.rate = append(d.rate, one.rate...)
	d.paced, d.fullSpeed = append(d.paced, one.paced...), append(d.fullSpeed, one.fullSpeed...)
	d.err = errors.Join(d.err, err)
}
