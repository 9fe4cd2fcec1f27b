package host

import (
	"context"
	"crypto/tls"
	"encoding/json"
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
	"github.com/informd/informd/plugins/host/outbox"
	"github.com/informd/informd/plugins/host/remote"
	"github.com/informd/informd/plugins/host/session"
)

// RemoteSpec says where a remote handler is and how to treat it. It is not modified after
// NewRemote.
type RemoteSpec struct {
	// Name is the Handler manifest's name, for the log and for errors.
	Name string
	// Host is an address, or a name all of whose addresses are endpoints. Port is that of all of
	// them.
	Host string
	Port uint16
	// DNS is the address and port of the DNS server that resolves Host. Empty means the system's.
	DNS string
	// CA is a PEM file with the certificates of the authorities that may have signed an endpoint's.
	// Cert and Key are PEM files with the certificate that informd shows it. All are read for each
	// connection, so they can be replaced at any time.
	CA, Cert, Key string
	// ServerName is what the certificate of each endpoint must be for. Default: Host.
	ServerName string
	// Config is the manifest's config as JSON; empty where it has none.
	Config json.RawMessage
	// Concurrency is how many events may be with one endpoint at once, if it does not ask for
	// fewer. Default 8, or 64 for a handler that takes batches.
	Concurrency int
	// Timeout is how long an endpoint has for one event, from its sending on. Default 30 s.
	Timeout time.Duration
	// Attempts is that of Spec.
	Attempts int
}

// CertificateFile returns the PEM file with the certificate that informd shows the endpoints.
func (r *Remote) CertificateFile() string { return r.spec.Cert }

// TLS reads the files and returns the configuration for connections to all endpoints.
func (s RemoteSpec) TLS() (*tls.Config, error) { return s.location().TLS() }

func (s RemoteSpec) location() remote.Location {
	return remote.Location{
		Host: s.Host, Port: s.Port, DNS: s.DNS,
		CA: s.CA, Cert: s.Cert, Key: s.Key, ServerName: s.ServerName,
	}
}

// spec returns what applies to each endpoint.
func (s RemoteSpec) spec() Spec {
	spec := Spec{
		Name: s.Name, Config: s.Config, Concurrency: s.Concurrency, Timeout: s.Timeout,
		Attempts: s.Attempts,
	}
	return spec.withDefaults()
}

// maxEndpoints bounds the endpoints of one handler. Of more addresses, the lowest are used.
const maxEndpoints = 128

// Remote is a handler that runs elsewhere: any number of endpoints behind one name. It is to the
// daemon what a [Host] is, and a handler.Handler. All methods may be called concurrently.
//
// A supervisor of its own keeps a connection to each address of the name. A connection that breaks,
// hangs or is refused is made again with growing pauses, and concerns no other. The name is looked
// up regularly, and soon after an endpoint was lost. An endpoint that left the name's addresses
// gets nothing new, and is let go when it has answered. A look-up that fails, or finds nothing,
// changes nothing.
//
// Each event goes to the endpoint that has the least to do. Events that were with an endpoint that
// is lost end with [handler.ErrLost], and the caller sends them again. A caller that never has two
// events of one object under way, as handler.Handler asks, keeps the object's order over all
// endpoints.
type Remote struct {
	spec   RemoteSpec
	opts   Options
	log    *slog.Logger
	box    *outbox.Outbox
	again  chan struct{} // asks for a look-up; one token is enough
	lookUp func(context.Context) ([]netip.AddrPort, error)

	// mu guards the fields below. The outbox's lock, and those of supervisors, are taken under it.
	mu        sync.Mutex
	state     State // Idle, Starting until the first look-up, Running, Stopped
	since     time.Time
	trouble   error  // of the last look-up
	past      Counts // of endpoints that are gone
	restarts  int    // likewise
	endpoints map[netip.AddrPort]*endpoint
}

var _ handler.Handler = (*Remote)(nil)

// endpoint is one address that is supervised.
type endpoint struct {
	*supervisor
	stop  context.CancelFunc
	going bool // it left the name's addresses; guarded by Remote.mu
	// ends is when its certificate expires, or zero; guarded by Remote.mu
	ends time.Time
}

// NewRemote returns a Remote. Run starts it. A spec that cannot work shows in Status once it runs.
func NewRemote(spec RemoteSpec, opts Options) *Remote {
	opts = opts.withDefaults()
	return &Remote{
		spec: spec, opts: opts, log: opts.Logger.With("handler", spec.Name),
		box: outbox.New(spec.spec().Timeout), again: make(chan struct{}, 1),
		lookUp: spec.location().LookUp, endpoints: make(map[netip.AddrPort]*endpoint),
		state: Idle, since: time.Now(),
	}
}

// Handle is like [Host.Handle].
func (r *Remote) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	return r.box.Handle(ctx, ev)
}

// Submit is like [Host.Submit].
func (r *Remote) Submit(
	ctx context.Context, ev *handler.Event, answered func(handler.Answer, error),
) {
	r.box.Submit(ctx, ev, answered)
}

// SubmitAll is like [Host.SubmitAll].
func (r *Remote) SubmitAll(
	ctx context.Context, events []*handler.Event, answered func(int, handler.Answer, error),
) {
	r.box.SubmitAll(ctx, events, answered)
}

// Ready waits until an endpoint takes events.
func (r *Remote) Ready(ctx context.Context) error { return r.box.Ready(ctx) }

// Limit is like [Host.Limit], for all present endpoints together. Each of them counts with what the
// operator and it itself allow, and with less if it failed or is wedged. One that is going away
// counts with what it still has. While there is no endpoint, Limit returns what the operator allows
// one.
func (r *Remote) Limit() (n int, isProbe bool) { return limit(r.box, r.spec.spec().Concurrency) }

// Grown is like [Host.Grown].
func (r *Remote) Grown() <-chan struct{} { return r.box.Grown() }

// Run keeps sessions with all endpoints until ctx ends. Then it drains and ends them. It returns
// when nothing of them is left, and always nil. Run is called once.
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
		// At least this long, however often endpoints are lost.
		sleep(ctx, min(time.Second, pause, r.opts.LookUpInterval))
		select {
		case <-ctx.Done():
		case <-r.box.Left():
			pause = time.Second / 2
		case <-r.again:
			pause = time.Second / 2
		case <-time.After(pause):
		}
	}
	running.Wait()
	r.set(Stopped, nil)
	r.box.Stop(fmt.Errorf("%s: %w", r.spec.Name, errStopped))
	return nil
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lookUpTimeout bounds one look-up.
const lookUpTimeout = 10 * time.Second

var errNoAddress = errors.New("there is no address")

// look returns the addresses to use, or an error that says why there are none. If there are too
// many, it returns both.
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
		return addresses[:maxEndpoints], fmt.Errorf("%s has %d addresses, "+
			"of which informd uses only %d", r.spec.Host, n, maxEndpoints)
	}
	return addresses, nil
}

// apply starts new endpoints, and lets those go that left the name's addresses.
func (r *Remote) apply(ctx context.Context, addresses []netip.AddrPort, running *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, address := range addresses {
		if r.endpoints[address] != nil {
			continue // one that is going comes back once it is gone
		}
		e := r.endpoint(address)
		var own context.Context
		own, e.stop = context.WithCancel(ctx)
		r.endpoints[address] = e
		running.Go(func() {
			defer e.stop()
			e.run(own)
			r.remove(address, e)
		})
	}
	for address, e := range r.endpoints {
		if e.going || slices.Contains(addresses, address) {
			continue
		}
		e.going = true
		e.log.Info("handler's endpoint is no longer among the name's addresses")
		running.Go(func() {
			select {
			case <-e.consumer.Hold(): // every event has an answer, or is past its time limit
			case <-ctx.Done():
			}
			e.stop()
		})
	}
}

// endpoint returns the supervisor of one address.
func (r *Remote) endpoint(address netip.AddrPort) *endpoint {
	opts := r.opts
	opts.Logger = opts.Logger.With("endpoint", address.String())
	e := new(endpoint)
	ends := func(at time.Time) {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.ends = at
	}
	launch := func(
		ctx context.Context, _ Spec, opts Options, log *slog.Logger,
	) (*session.Session, error) {
		return dial(ctx, r.spec, address, true, ends, opts, log)
	}
	e.supervisor = newSupervisor(r.spec.spec(), opts, launch, r.box.NewConsumer())
	return e
}

// dial begins a session with an endpoint. It hands over the config if configure is set. It calls ends
// with the time at which the endpoint's certificate expires.
func dial(
	ctx context.Context, spec RemoteSpec, address netip.AddrPort, configure bool,
	ends func(time.Time), opts Options, log *slog.Logger,
) (*session.Session, error) {
	c, err := remote.New(spec.location(), address, opts.StartTimeout, ends)
	if err != nil {
		return nil, err
	}
	terms := opts.terms(spec.spec())
	terms.Sees = true // over an earlier connection
	return session.Begin(ctx, c, terms, configure, log)
}

// remove forgets an endpoint whose supervisor has returned.
func (r *Remote) remove(address netip.AddrPort, e *endpoint) {
	s := e.snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.Add(s.Counts)
	r.restarts += s.Restarts
	delete(r.endpoints, address)
	select {
	case r.again <- struct{}{}: // its address may have come back meanwhile
	default:
	}
}

func (r *Remote) set(state State, trouble error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != state {
		r.state, r.since = state, time.Now()
	}
	r.trouble = trouble
}

// Status describes the handler: it runs if one of its endpoints does, and otherwise is in the best
// state of any endpoint. The endpoints' own status is part of it.
func (r *Remote) Status() Status {
	r.mu.Lock()
	s := Status{State: r.state, Since: r.since, Counts: r.past, Restarts: r.restarts}
	trouble := r.trouble
	for _, address := range slices.SortedFunc(maps.Keys(r.endpoints), netip.AddrPort.Compare) {
		e := r.endpoints[address]
		s.Endpoints = append(s.Endpoints, Endpoint{address.String(), e.snapshot(), e.ends})
	}
	r.mu.Unlock()
	s.Waiting = r.box.Waiting()
	for _, e := range s.Endpoints {
		s.Restarts += e.Status.Restarts
		s.Failures = max(s.Failures, e.Status.Failures)
		s.Waiting += e.Status.Waiting
		s.InFlight += e.Status.InFlight
		s.Slow.Add(e.Status.Slow)
		s.Counts.Add(e.Status.Counts)
	}
	if s.State == Running { // the Remote itself runs
		s.sumUp(trouble)
	}
	return s
}

// TryRemote connects to all endpoints and lets them describe themselves. It hands them no config,
// because they may be at work with another one. The error says of each endpoint what is wrong with
// it.
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
	var texts []string
	for _, err := range problems {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("handler %q: %s", spec.Name, strings.Join(texts, "; "))
}

func tryEndpoint(ctx context.Context, spec RemoteSpec, address netip.AddrPort, opts Options) error {
	s, err := dial(ctx, spec, address, false, func(time.Time) {}, opts, opts.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	s.End(0)
	return nil
}
