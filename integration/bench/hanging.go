package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// hanging measures what objects for which a handler hangs do to the others, with all settings at
// their defaults.
type hanging struct {
	at    site
	scale scale
	kinds []*hangingKind
}

// hangingKind is a kind of handler with its results, by round.
type hangingKind struct {
	name  string
	start func(ctx context.Context, at site, l *load) (*hangingDaemon, error)
	took  [len(hangingObjects)][]latency
	worse [len(hangingObjects)][]float64 // p99 of the others to that of all, when none hangs
	err   bool
	lacks unavailable // why there are no figures; "" if there are
}

// hangingObjects are the numbers of objects, of hangingOf, for which the handler hangs.
var hangingObjects = [...]int{0, 10, 100}

const (
	hangingOf   = 1000
	hangingRate = 1000 // updates per second, of all objects in turn
	hangingFor  = 20 * time.Second
)

func newHanging(at site, s scale) section {
	return &hanging{at: at, scale: s, kinds: []*hangingKind{
		{name: "webhook (builtin)", start: startWebhook},
		{name: "handler in Go", start: startHangs},
		{name: "handler in Python", start: startPython},
		{name: "remote handler", start: startRemote},
	}}
}

// updates returns the number of updates of a turn, a multiple of hangingOf.
func (h *hanging) updates() int {
	return max(1, h.scale.timed(hangingRate)/hangingOf) * hangingOf
}

func (h *hanging) jobs() (jobs []job) {
	for _, k := range h.kinds {
		jobs = append(jobs, job{name: "hanging objects, " + k.name,
			do: func(ctx context.Context) error {
				err := k.measure(ctx, h.at, h.updates())
				if errors.As(err, &k.lacks) {
					return nil
				}
				k.err = k.err || err != nil
				return err
			}})
	}
	return jobs
}

func (k *hangingKind) measure(ctx context.Context, at site, updates int) (err error) {
	l, err := startLoad(ctx, at, onlyPods(hangingOf))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	d, err := k.start(ctx, at, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitUp(ctx); err != nil {
		return err
	}
	if _, err := d.turn(ctx, l, hangingOf, 0); err != nil { // for warming up
		return err
	}
	for i, n := range hangingObjects {
		took, err := d.turn(ctx, l, updates, n)
		if err != nil {
			return fmt.Errorf("%d objects hang: %w", n, err)
		}
		k.took[i] = append(k.took[i], took)
		alone := k.took[0][len(k.took[0])-1]
		k.worse[i] = append(k.worse[i], took.P99/alone.P99)
	}
	return nil
}

// hangingDaemon is a daemon whose handler is a hangs.
type hangingDaemon struct {
	*daemon
	ask  func(question) (answer, error) // asks the hangs
	free func() error
}

func (d *hangingDaemon) stop() error { return errors.Join(d.daemon.stop(), d.free()) }

// awaitUp waits until the handler runs and all objects are in the cache.
func (d *hangingDaemon) awaitUp(ctx context.Context) error {
	for end := time.Now().Add(patience); ; {
		// At first it serves no metrics yet.
		body, err := d.metrics(ctx)
		if err == nil && metric(body, `informd_source_objects{source="pods"}`) == hangingOf &&
			metric(body, `informd_handler_ready{handler="hanging"}`) == 1 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("informd has not come up: %v", err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// turn makes updates while the handler hangs with n objects, and returns how long those of the
// others took to the handler. All of them must have come before the first of the n is answered.
func (d *hangingDaemon) turn(
	ctx context.Context, l *load, updates, n int) (took latency, err error) {
	if _, err := d.ask(question{Ask: askHang, N: n}); err != nil {
		return took, err
	}
	began, others := time.Now(), updates/hangingOf*(hangingOf-n)
	took, err = l.timed(ctx, d.ask, l.resources[0], updates, hangingRate, others)
	if err == nil && time.Since(began) > hangingFor {
		err = errors.New("updates of the others came only after those that hang were answered")
	}
	if err != nil {
		return took, err
	}
	if _, err := d.ask(question{Ask: askHang}); err != nil { // lets go of all
		return took, err
	}
	for _, series := range []string{
		`informd_rule_queue_depth{rule="hanging"}`, `informd_handler_in_flight{handler="hanging"}`,
	} {
		if err := d.awaitMetric(ctx, series, 0); err != nil {
			return took, err
		}
	}
	return took, nil
}

func serveHangs(context.Context, []string) error {
	serve.Main(newHangs())
	return nil
}

// hangs is a handler that hangs with some objects, until their time limit or until the benchmark
// asks it to let go. It notes how long updates of the others took to it.
type hangs struct {
	mu   sync.Mutex // guards the rest
	most int        // objects to hang with
	hung map[string]bool
	free chan struct{} // closed to let go
	took []time.Duration
}

func newHangs() *hangs { return &hangs{hung: map[string]bool{}, free: make(chan struct{})} }

// Configure implements handler.Configurer.
func (h *hangs) Configure(_ context.Context, text json.RawMessage) error {
	var c handlerConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	conn, err := net.Dial("unix", c.Socket)
	if err != nil {
		return err
	}
	go func() { _ = answerQuestions(conn, conn, h.reply) }() // until one side is gone
	return nil
}

// Handle implements handler.Handler.
func (h *hangs) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	return handler.Answer{}, h.handle(ctx, ev.Namespace+"/"+ev.Name, ev.Object)
}

// ServeHTTP answers the webhook builtin.
func (h *hangs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct {
		Data struct {
			Namespace, Name string
			Object          json.RawMessage
		}
	}
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	if err == nil {
		err = h.handle(r.Context(), event.Data.Namespace+"/"+event.Data.Name, event.Data.Object)
	}
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
	}
}

func (h *hangs) handle(ctx context.Context, name string, object []byte) error {
	now := time.Now()
	h.mu.Lock()
	if !h.hung[name] && len(h.hung) < h.most && isChosen(name) {
		h.hung[name] = true
	}
	if h.hung[name] {
		free := h.free
		h.mu.Unlock()
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(hangingFor):
			return errors.New("it hung")
		}
	}
	defer h.mu.Unlock()
	sent, err := sentAt(object)
	if err == nil {
		h.took = append(h.took, now.Sub(sent))
	}
	return err
}

// isChosen reports whether the handler hangs with an object, if it is to hang with any more. It is
// about one in five.
func isChosen(name string) bool {
	sum := fnv.New32a()
	_, _ = io.Copy(sum, strings.NewReader(name))
	return sum.Sum32()%5 == 0
}

func (h *hangs) reply(q question) (answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch q.Ask {
	case askHang:
		close(h.free)
		h.most, h.hung, h.free = q.N, map[string]bool{}, make(chan struct{})
		return answer{}, nil
	case askTime:
		h.took = nil
		return answer{}, nil
	case askLatency:
		return answer{Latency: summary(h.took, q.N)}, nil
	}
	return answer{}, errors.New("not of a handler that hangs")
}

func (h *hanging) report() (table, []target) {
	rows := [][]string{
		slices.Concat([]string{""}, latencyColumns, []string{"p99 to that when none hangs"}),
	}
	itself := func(f float64) float64 { return f }
	var targets []target
	for _, k := range h.kinds {
		if k.lacks != "" {
			rows = append(rows, []string{k.name + ": not measured, " + string(k.lacks)})
			continue
		}
		for i, n := range hangingObjects {
			row := append([]string{fmt.Sprintf("%s, %d hang", k.name, n)},
				latencyCells(k.took[i])...)
			if n == 0 {
				rows = append(rows, append(row, ""))
				continue
			}
			worse := spread(k.worse[i], 2, itself)
			rows = append(rows, append(row, worse))
			targets = append(targets, target{
				what: fmt.Sprintf("p99 of the others if a %s hangs with %d of %d objects, "+
					"to when it hangs with none", k.name, n, hangingOf),
				limit: 2, value: median(k.worse[i], itself), from: "of each round: " + worse,
				err: k.err || len(k.worse[i]) == 0,
			})
		}
	}
	title := fmt.Sprintf("Objects for which a handler hangs, and the others: from the load's "+
		"sending of a frame to the handler; %d pods, %d updates a turn, no state",
		hangingOf, h.updates())
	return table{title, rows}, targets
}
