package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/informd/informd/integration/bench/fleet"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// serveHandler is a handler process that acknowledges every event at once. Its config names a
// socket, on which it reports what it has seen.
func serveHandler(context.Context, []string) error {
	serve.Main(&acknowledger{})
	return nil
}

type acknowledger struct {
	objects, updates counter

	mu     sync.Mutex
	timing bool
	took   []time.Duration // from sending to Handle, of updates

	came  *arrivals // of updates; nil: none are noted
	cache handler.Cache
	echo  string
}

// handlerConfig is the config in the handler's manifest.
type handlerConfig struct {
	Socket string `json:",omitempty"`
	// Echo is a socket of a server that answers empty calls.
	Echo string `json:",omitempty"`
	// Arrivals says that it notes them for askArrivals.
	Arrivals bool `json:",omitempty"`
}

func (a *acknowledger) UseCache(c handler.Cache) { a.cache = c }

func (a *acknowledger) Configure(ctx context.Context, text json.RawMessage) error {
	var c handlerConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	a.echo = c.Echo
	if c.Arrivals {
		a.came = new(arrivals)
	}
	conn, err := net.Dial("unix", c.Socket)
	if err != nil {
		return err
	}
	go func() { _ = answerQuestions(conn, conn, a.reply) }() // until one side is gone
	return nil
}

func (a *acknowledger) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	now := time.Now()
	if ev.Event == handler.Synced {
		a.objects.add(ev.ResourceVersion)
		return handler.Answer{}, nil
	}
	a.updates.add(ev.ResourceVersion)
	if a.came != nil {
		a.came.note(ev.Object)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timing {
		sent, err := sentAt(ev.Object)
		if err != nil {
			return handler.Answer{}, handler.Reject(err)
		}
		a.took = append(a.took, now.Sub(sent))
	}
	return handler.Answer{}, nil
}

func (a *acknowledger) reply(q question) (answer, error) {
	switch q.Ask {
	case askSeen:
		return answer{Seen: seen{Objects: a.objects.tally(), Updates: a.updates.tally()}}, nil
	case askTime:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.timing, a.took = true, make([]time.Duration, 0, 1<<17)
		return answer{}, nil
	case askLatency:
		a.mu.Lock()
		defer a.mu.Unlock()
		return answer{Latency: summary(a.took, q.N)}, nil
	case askArrivals:
		return answer{Arrivals: a.came.take()}, nil
	}
	if q.Ask == askReads {
		found, err := look(context.Background(), a.cache, a.echo, q.N)
		return answer{Reads: found}, err
	}
	return answer{}, errors.New("not of a handler")
}

var sentMark = []byte(fleet.SentAnnotation + `":"`)

// sentAt returns when the load sent an object or a frame.
func sentAt(text []byte) (time.Time, error) {
	i := bytes.Index(text, sentMark)
	if i < 0 {
		return time.Time{}, errors.New("nothing says when it was sent")
	}
	digits, _, _ := bytes.Cut(text[i+len(sentMark):], []byte(`"`))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, n), err
}

// latency summarizes N measurements, in microseconds, at a rate of changes per second.
type latency struct {
	N                    int
	P50, P99, P999, Most float64
	Rate                 float64
	CPU                  float64 // µs per change, of all processes; 0 if unknown
}

// summary returns the percentiles, or only how many there are if there are fewer than n: to sort
// them takes time.
func summary(took []time.Duration, n int) latency {
	if len(took) < n {
		return latency{N: len(took)}
	}
	return percentiles(took)
}

func percentiles(took []time.Duration) latency {
	if len(took) == 0 {
		return latency{}
	}
	sorted := slices.Sorted(slices.Values(took))
	at := func(q float64) float64 {
		return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1000
	}
	return latency{N: len(took), P50: at(0.5), P99: at(0.99), P999: at(0.999), Most: at(1)}
}
