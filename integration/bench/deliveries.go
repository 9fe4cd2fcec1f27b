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

// pace is the updates per second of the latency that is not at full speed.
const pace = 200

// deliveries is the way from the API server to the line that informd's log builtin writes into a pipe, by round.
type deliveries struct {
	rate             []float64 // per second, of a backlog
	paced, fullSpeed []latency
	err              error
}

// latency is from sending an update to its line, in milliseconds.
type latency struct{ p50, p90, p99, most float64 }

func (d *deliveries) add(one deliveries, err error) {
	d.rate = append(d.rate, one.rate...)
	d.paced, d.fullSpeed = append(d.paced, one.paced...), append(d.fullSpeed, one.fullSpeed...)
	d.err = errors.Join(d.err, err)
}

func measureDeliveries(ctx context.Context, at site, l *load, updates int) (d deliveries, err error) {
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
		if err = errors.Join(err, s.stop()); err != nil {
			err = fmt.Errorf("deliveries: %w", err)
		}
	}()

	// Nobody reads the pipe yet: the handler is stuck in a write, and a backlog builds up behind it.
	if err := await(ctx, s, l.objects, 0, 20*time.Millisecond); err != nil {
		return d, err
	}
	body, err := s.get(ctx, "/metrics")
	if err != nil {
		return d, err
	}
	lines, start := &lines{read, bufio.NewReaderSize(read, 1<<20)}, time.Now()
	if _, err := lines.read(l.objects, "synced"); err != nil {
		return d, err
	}
	d.rate = []float64{float64(l.objects-metric(body, doneSeries)) / time.Since(start).Seconds()}

	for _, phase := range []struct {
		updates, rate int
		to            *[]latency
	}{{min(updates, 5*pace), pace, &d.paced}, {updates, 0, &d.fullSpeed}} {
		written := make(chan error, 1)
		go func() {
			_, err := l.update(ctx, phase.updates, phase.rate)
			written <- err
		}()
		got, err := lines.read(phase.updates, "updated")
		if err := errors.Join(<-written, err); err != nil {
			return d, err
		}
		*phase.to = append(*phase.to, percentiles(got))
	}
	return d, nil
}

// lines are what the log builtin writes, of up to 1 MiB each.
type lines struct {
	pipe     *os.File
	buffered *bufio.Reader
}

// read reads n lines, all of one kind of event, and returns how long each took since its object was sent. The object's
// `sent` comes before that of the old state.
func (l *lines) read(n int, event string) ([]time.Duration, error) {
	if err := l.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	out := make([]time.Duration, 0, n)
	for range n {
		line, err := l.buffered.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("%d of %d %s events came: %w", len(out), n, event, err)
		}
		_, rest, _ := bytes.Cut(line, []byte(`"sent":"`))
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		sent, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil || !bytes.Contains(line, []byte(`"event":"`+event+`"`)) {
			return nil, fmt.Errorf("not one of the %s events: %.100q", event, line)
		}
		out = append(out, time.Since(time.Unix(0, sent)))
	}
	return out, nil
}

func percentiles(d []time.Duration) latency {
	slices.Sort(d)
	at := func(q float64) float64 { return d[int(q*float64(len(d)-1))].Seconds() * 1000 }
	return latency{at(0.5), at(0.9), at(0.99), at(1)}
}
