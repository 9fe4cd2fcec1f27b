package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/informd/informd/integration/bench/fleet"
)

// rates measures what an update costs, and how long it takes, at several rates. A stock informer
// and informd with its log builtin watch the same config maps of a real control plane at the same
// time. Updates go straight to etcd: the API server could not take as many.
type rates struct {
	at    site
	scale scale
	plane *plane
	rates []int
	runs  map[string][]paced // by contestant and rate
	err   bool
}

// paced holds what one contestant took at one rate.
type paced struct {
	cpu   float64 // µs per update; of informd and its handler together
	own   float64 // of cpu, what informd's own process took
	rate  float64 // updates per second that etcd took
	delay latency // from etcd's answer
}

const (
	rateObjects = 5000
	rateTime    = 6 * time.Second
	leastPaced  = 100 // updates at the lowest rates, which take longer for it

	pacedStock, pacedOurs = "stock dynamicinformer, empty handler", "informd and its log handler"
)

func newRates(at site, s scale) section {
	return &rates{
		at: at, scale: s, rates: []int{10, 100, 300, 1000, 3000}, runs: make(map[string][]paced),
		plane: &plane{dir: filepath.Join(at.dir, "q"), configMaps: min(rateObjects, s.objects)},
	}
}

// updates returns how many updates to make at a rate.
func (r *rates) updates(rate int) int {
	n := max(leastPaced, int(rateTime.Seconds()*float64(rate)))
	return max(20, min(n, r.scale.updates*2))
}

func (r *rates) jobs() []job {
	return []job{{name: "rates", do: func(ctx context.Context) error {
		err := r.measure(ctx)
		r.err = r.err || err != nil
		return err
	}}}
}

func of(who string, rate int) string { return fmt.Sprintf("%s, %d/s", who, rate) }

// pacedManifests hold one rule, whose handler writes every update to informd's standard output.
const pacedManifests = `
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: configmaps},
 spec: {resource: v1/configmaps}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: print}, spec: {builtin: log}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: changed},
 spec: {source: configmaps, events: [updated], delivery: every, handler: print}}
`

func (r *rates) measure(ctx context.Context) (err error) {
	if err := r.plane.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.plane.Stop()) }()
	if err := r.plane.ready(ctx); err != nil {
		return err
	}
	etcd, err := r.plane.etcd()
	if err != nil {
		return err
	}
	defer etcd.Close()
	c, err := r.at.start(ctx, "stock", r.plane.Kubeconfig(), "timed", configmaps)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := (inside{c}).begin(); err != nil {
		return err
	}
	lines, d, err := r.startInformd(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	if _, err := settled(ctx, d.pid(), r.at.rest); err != nil {
		return err
	}
	made := 0
	for _, warm := range []bool{true, false} {
		for _, rate := range r.rates {
			n := r.updates(rate)
			if warm {
				if rate < 1000 {
					continue
				}
				n = min(n, rate/2)
			}
			took, err := r.pace(ctx, etcd, made, n, rate, c, d, lines)
			if err != nil {
				return fmt.Errorf("%d per second: %w", rate, err)
			}
			made += n
			if warm {
				continue
			}
			for who, one := range took {
				r.runs[of(who, rate)] = append(r.runs[of(who, rate)], one)
			}
		}
	}
	return nil
}

// startInformd runs informd without state. The arrivals are those of the lines that it writes.
func (r *rates) startInformd(ctx context.Context) (*arrivals, *daemon, error) {
	dir, err := os.MkdirTemp(r.at.dir, "r")
	if err != nil {
		return nil, nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	d := &daemon{ended: make(chan struct{}), stdout: out}
	err = d.start(ctx, r.at, dir, r.plane.Kubeconfig(), pacedManifests, noState)
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	lines := new(arrivals)
	go func() {
		defer in.Close()
		text := bufio.NewScanner(bufio.NewReaderSize(in, 1<<20))
		text.Buffer(nil, 1<<20)
		for text.Scan() {
			lines.note(text.Bytes())
		}
	}()
	return lines, d, nil
}

// pace makes n updates at a rate, after made others, and returns what they took of each contestant.
func (r *rates) pace(
	ctx context.Context, etcd *grpc.ClientConn, made, n, rate int, c *child, d *daemon,
	lines *arrivals,
) (map[string]paced, error) {
	if _, err := c.ask(question{Ask: askArrivals}); err != nil { // drops the former ones
		return nil, err
	}
	lines.take()
	pids := map[string]int{pacedStock: c.pid(), pacedOurs: d.pid()}
	before, own := make(map[string]usage), make(map[string]time.Duration)
	for who, pid := range pids {
		u, err := used(pid)
		if err != nil {
			return nil, err
		}
		before[who], own[who] = u, ownCPU(pid)
	}
	answered, took, err := r.plane.update(ctx, etcd, made, n, rate)
	if err != nil {
		return nil, err
	}
	came := map[string][]arrival{}
	for start := time.Now(); ; {
		a, err := c.ask(question{Ask: askArrivals})
		if err != nil {
			return nil, err
		}
		came[pacedStock] = append(came[pacedStock], a.Arrivals...)
		came[pacedOurs] = append(came[pacedOurs], lines.take()...)
		if len(came[pacedStock]) >= n && len(came[pacedOurs]) >= n {
			break
		}
		if time.Since(start) > patience {
			return nil, fmt.Errorf("of %d updates, the stock informer saw %d and informd wrote %d",
				n, len(came[pacedStock]), len(came[pacedOurs]))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	out := make(map[string]paced)
	for who, pid := range pids {
		after, err := used(pid)
		if err != nil {
			return nil, err
		}
		var delays []time.Duration
		for _, one := range came[who] {
			at, ok := answered[one.Sent]
			if !ok {
				return nil, fmt.Errorf("%s: saw an update that nobody made", who)
			}
			delays = append(delays, time.Duration(one.Came-at))
		}
		if len(delays) != n {
			return nil, fmt.Errorf("%s: saw %d updates of %d", who, len(delays), n)
		}
		perUpdate := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
		out[who] = paced{
			cpu: perUpdate(after.cpu - before[who].cpu), own: perUpdate(ownCPU(pid) - own[who]),
			rate: float64(n) / took.Seconds(), delay: percentiles(delays),
		}
	}
	return out, nil
}

// arrival is one update as a contestant saw it: when it was sent, as its annotation says, and when
// it came. Both are in Unix nanoseconds. No two updates are sent at the same time.
type arrival struct{ Sent, Came int64 }

// arrivals collects them. It is safe for concurrent use.
type arrivals struct {
	mu  sync.Mutex
	all []arrival
}

// note notes the arrival of an object's text. What carries no time is ignored.
func (a *arrivals) note(text []byte) {
	if sent, err := sentAt(text); err == nil {
		a.add(sent.UnixNano())
	}
}

func (a *arrivals) add(sent int64) {
	now := time.Now().UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, arrival{sent, now})
}

// take returns what came since the last call.
func (a *arrivals) take() (all []arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, a.all = a.all, nil
	return all
}

// writers is how many updates may be with etcd at once.
const writers = 8

// update makes n updates of config maps, evenly at a rate per second, after made others. It returns
// when etcd answered each, by the time in its annotation, and how long all took.
func (p *plane) update(ctx context.Context, etcd *grpc.ClientConn, made, n, rate int) (
	answered map[int64]int64, took time.Duration, err error,
) {
	answered = make(map[int64]int64, n)
	var mu sync.Mutex // guards answered, err and last
	last := int64(0)
	objects := fleet.NewConfigMaps(p.configMaps)
	room := make(chan struct{}, writers)
	var writing sync.WaitGroup
	runtime.LockOSThread() // for nap
	defer runtime.UnlockOSThread()
	start := time.Now()
	for i := range n {
		nap(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		room <- struct{}{}
		writing.Go(func() {
			defer func() { <-room }()
			number := (made + i) % p.configMaps
			value := configMapValue(objects, number, 1+(made+i)/p.configMaps)
			sent, failure := sentAt(value)
			if failure == nil {
				failure = put(ctx, etcd, configMapKey(objects, number), value)
			}
			now := time.Now().UnixNano()
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failure)
			last = max(last, now)
			answered[sent.UnixNano()] = now
		})
	}
	writing.Wait()
	if err == nil && len(answered) != n {
		err = errors.New("two updates were sent at the same time")
	}
	return answered, time.Unix(0, last).Sub(start), err
}

func (r *rates) report() (table, []target) {
	rows := [][]string{{
		"", "CPU µs/update", "of it the process", "p50 ms", "p99 ms", "updates/s", "of them",
	}}
	cpu := func(p paced) float64 { return p.cpu }
	p99 := func(p paced) float64 { return p.delay.P99 / 1000 }
	var targets []target
	for _, rate := range r.rates {
		for _, who := range []string{pacedStock, pacedOurs} {
			took := r.runs[of(who, rate)]
			rows = append(rows, []string{
				of(who, rate), spread(took, 0, cpu),
				spread(took, 0, func(p paced) float64 { return p.own }),
				spread(took, 2, func(p paced) float64 { return p.delay.P50 / 1000 }),
				spread(took, 2, p99),
				spread(took, 0, func(p paced) float64 { return p.rate }),
				fmt.Sprint(r.updates(rate)),
			})
		}
		ours, stock := r.runs[of(pacedOurs, rate)], r.runs[of(pacedStock, rate)]
		if rate >= 100 {
			limit := 1.
			if rate >= 1000 {
				limit = 1. / 2
			}
			a, b := median(ours, cpu), median(stock, cpu)
			targets = append(targets, target{
				what: fmt.Sprintf("CPU per update at %d per second on a real control plane: "+
					"informd and its handler to the stock informer", rate),
				limit: limit, value: a / b, err: r.err, from: fmt.Sprintf("µs: %.0f to %.0f", a, b),
			})
		}
		if rate == 10 {
			a, b := median(ours, p99), median(stock, p99)
			targets = append(targets, target{
				what: "p99 from etcd's answer to the log builtin's line at 10 per second, " +
					"where nothing gathers, to the stock informer's",
				limit: 2, value: a / b, err: r.err, from: fmt.Sprintf("ms: %.2f to %.2f", a, b),
			})
		}
		if rate == 1000 {
			targets = append(targets, target{
				what:  "p99 from etcd's answer to the log builtin's line at 1000 per second, in ms",
				limit: 20, value: median(ours, p99), err: r.err,
				from: fmt.Sprintf("the stock informer's: %.2f", median(stock, p99)),
			})
		}
	}
	title := fmt.Sprintf("Rates, on a real control plane with %d config maps of 1.3 KB: "+
		"both watch at the same time; no state", r.plane.configMaps)
	return table{title, rows}, targets
}
