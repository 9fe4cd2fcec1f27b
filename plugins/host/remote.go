package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Remote is a handler that runs elsewhere, as any number of endpoints behind one name. It is what a [Host] is to the
// daemon, and a handler.Handler.
//
// Each address that the name resolves to is supervised by a Host of its own, with a connection in the place of a process: one
// that breaks, hangs or is refused is made again with growing pauses, and concerns no other. The name is looked up
// regularly, and soon after an endpoint was lost. One that is not among its addresses any more gets nothing new and is let
// go of when it has answered; a look-up that fails, or finds nothing, changes nothing.
//
// Each event goes to the endpoint that has the least to do. What was with one that is lost is reported as
// [handler.ErrLost], for the caller to send again. Who has no two events of one object under way at once, as handler.Handler
// asks for, keeps its order over all endpoints.
type Remote struct {
	spec RemoteSpec
	opts Options
	log  *slog.Logger
	pool *pool

	lookUp func(context.Context) ([]netip.AddrPort, error)

	mu        sync.Mutex
	state     State // Idle, Starting until the first look-up, Running, Stopped; what is more endpoints say
	since     time.Time
	trouble   error // of the last look-up
	past      Counts
	restarts  int // of endpoints that are gone
	endpoints map[netip.AddrPort]*endpoint
}

var _ handler.Handler = (*Remote)(nil)

// endpoint is one address, as long as it is supervised.
type endpoint struct {
	*Host
	stop    context.CancelFunc
	letting bool // it is being let go of
}

// NewRemote makes a Remote; Run starts it. A spec that cannot work shows in Status once it runs.
func NewRemote(spec RemoteSpec, opts Options) *Remote {
	opts = opts.withDefaults()
	return &Remote{
		spec: spec, opts: opts, log: opts.Logger.With("handler", spec.Name),
		pool: newPool(spec.spec().Timeout), lookUp: spec.lookUp,
		state: Idle, since: time.Now(), endpoints: make(map[netip.AddrPort]*endpoint),
	}
}

// Handle is as [Host.Handle].
func (r *Remote) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	answered := make(chan outcome, 1) // comes once
	r.Submit(ctx, &ev, func(a handler.Answer, err error) { answered <- outcome{answer: a, err: err} })
	o := <-answered
	return o.answer, o.err
}

// Submit is as [Host.Submit].
func (r *Remote) Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	r.pool.submit(ctx, ev, answered)
}

// Ready waits until an endpoint takes events.
func (r *Remote) Ready(ctx context.Context) error { return r.pool.wait(ctx) }

// Limit is how many events the endpoints that are there take at once: of each the least of what the operator and it itself
// allow, or less of one that failed or is wedged; and what is still with those that are going away. While there is none, it
// is what the operator allows one.
func (r *Remote) Limit() int {
	return cmp.Or(r.pool.room(), r.spec.spec().Concurrency)
}

// Run keeps sessions with all endpoints until ctx ends; then it drains and ends them. It returns when all is gone, and
// always nil. Run is called once.
func (r *Remote) Run(ctx context.Context) error {
	r.set(Starting, nil)
	var running sync.WaitGroup
	complaints := complaints{log: r.log}
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, r.opts.LookUpInterval) {
		addresses, err := r.look(ctx)
		if ctx.Err() != nil {
			break
		}
		r.set(Running, err)
		if len(addresses) > 0 {
			r.apply(ctx, addresses, &running)
		} else {
			complaints.about(BackingOff, err, pause, time.Now())
		}
		sleep(ctx, min(time.Second, pause, r.opts.LookUpInterval)) // however often endpoints are lost
		select {
		case <-ctx.Done():
		case <-r.pool.left:
			pause = time.Second / 2
		case <-time.After(pause):
		}
	}
	running.Wait()
	r.set(Stopped, nil)
	r.pool.stop(fmt.Errorf("%s: %w", r.spec.Name, errStopped))
	return nil
}

// lookUpTimeout bounds one look-up.
const lookUpTimeout = 10 * time.Second

// look returns the addresses that are to be used: some, or an error that says why there are none. There may be both.
func (r *Remote) look(ctx context.Context) ([]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	addresses, err := r.lookUp(ctx)
	switch n := len(addresses); {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errNoAddress
	case n > maxEndpoints:
		return addresses[:maxEndpoints], fmt.Errorf("%s has %d addresses, and no more than %d are used", r.spec.Host, n, maxEndpoints)
	}
	return addresses, nil
}

var errNoAddress = errors.New("there is no address")

// apply begins with the endpoints that are new, and lets go of those that are none any more.
func (r *Remote) apply(ctx context.Context, addresses []netip.AddrPort, running *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, address := range addresses {
		if r.endpoints[address] != nil {
			continue // one that is being let go of comes back when it is gone
		}
		e := r.endpoint(address)
		var own context.Context
		own, e.stop = context.WithCancel(ctx)
		r.endpoints[address] = e
		running.Go(func() {
			defer e.stop()
			_ = e.Run(own)
			r.remove(address, e)
		})
	}
	for address, e := range r.endpoints {
		if e.letting || slices.Contains(addresses, address) {
			continue
		}
		e.letting = true
		e.log.Info("handler's endpoint is gone from the name's addresses")
		running.Go(func() {
			select {
			case <-e.deliveries.hold(): // every event has an answer, or is past its time limit
			case <-ctx.Done():
			}
			e.stop()
		})
	}
}

// endpoint makes the Host of one address.
func (r *Remote) endpoint(address netip.AddrPort) *endpoint {
	opts := r.opts
	opts.Logger = opts.Logger.With("endpoint", address.String())
	launch := func(ctx context.Context, _ Spec, opts Options, log *slog.Logger) (*session, error) {
		return dial(ctx, r.spec, address, true, opts, log)
	}
	return &endpoint{Host: newHost(r.spec.spec(), opts, launch, r.pool.member())}
}

func (r *Remote) remove(address netip.AddrPort, e *endpoint) {
	s := e.Host.Status()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.add(s.Counts)
	r.restarts += s.Restarts
	delete(r.endpoints, address)
	r.pool.lookAgain() // its address may have come back meanwhile
}

func (r *Remote) set(state State, trouble error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != state {
		r.state, r.since = state, time.Now()
	}
	r.trouble = trouble
}

// Status tells how the handler is: it runs if one of its endpoints does, and else is in the best state that one of them is
// in. Each of them is told of as well.
func (r *Remote) Status() Status {
	r.mu.Lock()
	s := Status{State: r.state, Since: r.since, Counts: r.past, Restarts: r.restarts}
	trouble := r.trouble
	for _, address := range slices.SortedFunc(maps.Keys(r.endpoints), netip.AddrPort.Compare) {
		s.Endpoints = append(s.Endpoints, Endpoint{address.String(), r.endpoints[address].Host.Status()})
	}
	r.mu.Unlock()
	s.Waiting = r.pool.waiting()
	for _, e := range s.Endpoints {
		s.Restarts += e.Status.Restarts
		s.Failures = max(s.Failures, e.Status.Failures)
		s.Waiting += e.Status.Waiting
		s.InFlight += e.Status.InFlight
		s.Counts.add(e.Status.Counts)
	}
	if s.State == Running { // the Remote itself does
		s.sumUp(trouble)
	}
	return s
}

// EndpointsIn is how many of the endpoints are in that state.
func (s Status) EndpointsIn(state State) (n int) {
	for _, e := range s.Endpoints {
		if e.Status.State == state {
			n++
		}
	}
	return n
}

// better has the states of an endpoint, the best first.
var better = []State{Running, Wedged, Starting, BackingOff, Refused, Idle, Stopped}

// sumUp has the status say what those of the endpoints do. trouble is that of the last look-up.
func (s *Status) sumUp(trouble error) {
	best := func(a, b Endpoint) int {
		return cmp.Or(
			cmp.Compare(slices.Index(better, a.Status.State), slices.Index(better, b.Status.State)),
			a.Status.Since.Compare(b.Status.Since))
	}
	if len(s.Endpoints) == 0 {
		s.State = BackingOff
		if trouble != nil {
			s.Reason = trouble.Error()
		}
		return
	}
	first := slices.MinFunc(s.Endpoints, best)
	s.State, s.Since, s.Next, s.Handler = first.Status.State, first.Status.Since, first.Status.Next, first.Status.Handler
	if first.Status.Reason != "" {
		s.Reason = first.Address + ": " + first.Status.Reason
	}
	var problems []string
	for _, e := range s.Endpoints {
		switch {
		case e.Status.Problem != "":
			problems = append(problems, e.Address+": "+e.Status.Problem)
		case e.Status.State == Running && e.Status.Handler.Name != s.Handler.Name:
			problems = append(problems, fmt.Sprintf("%s is %q, another is %q: is the name that of one handler?", e.Address, e.Status.Handler.Name, s.Handler.Name))
		}
	}
	if trouble != nil {
		problems = append(problems, trouble.Error())
	}
	if len(problems) > 0 {
		s.Problem = problems[0]
		if more := len(problems) - 1; more > 0 {
			s.Problem += fmt.Sprintf(" (and %d more)", more)
		}
	}
}

func (c *Counts) add(other Counts) {
	c.Sent += other.Sent
	c.Batches += other.Batches
	c.Answered += other.Answered
	c.TimedOut += other.TimedOut
	c.Lost += other.Lost
	c.Late += other.Late
	c.Unknown += other.Unknown
}

// TryRemote connects to all endpoints only to have them describe themselves. They are handed no config: they may be at work
// with another. The error says of each what is wrong with it.
func TryRemote(ctx context.Context, spec RemoteSpec, opts Options) error {
	r := NewRemote(spec, opts)
	addresses, err := r.look(ctx)
	if len(addresses) == 0 {
		return fmt.Errorf("handler %q: %w", spec.Name, err)
	}
	problems := make([]error, len(addresses))
	var trying sync.WaitGroup
	for i, address := range addresses {
		trying.Go(func() { problems[i] = tryEndpoint(ctx, r.spec, address, r.opts) })
	}
	trying.Wait()
	var said []string
	for _, err := range problems {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	if len(said) == 0 {
		return nil
	}
	return errors.New(fmt.Sprintf("handler %q: ", spec.Name) + strings.Join(said, "; "))
}

func tryEndpoint(ctx context.Context, remote RemoteSpec, address netip.AddrPort, opts Options) error {
	s, err := dial(ctx, remote, address, false, opts, opts.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	s.end(0)
	return nil
}
