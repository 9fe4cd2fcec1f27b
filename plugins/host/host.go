package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/outbox"
	"github.com/informd/informd/plugins/host/process"
	"github.com/informd/informd/plugins/host/session"
)

// Host runs one handler on this machine. It is itself a [handler.Handler]. All methods may be
// called concurrently.
type Host struct {
	box       *outbox.Outbox
	processes *supervisor
	reloading chan struct{} // holds one token while a Reload is under way
}

var _ handler.Handler = (*Host)(nil)

// New returns a Host. Run starts it. A spec that cannot work shows in Status once it runs.
func New(spec Spec, opts Options) *Host {
	return newHost(spec, opts, launch)
}

// launch is the launcher of processes. After an error nothing is left.
func launch(
	ctx context.Context, spec Spec, opts Options, log *slog.Logger,
) (*session.Session, error) {
	p, err := process.New(ctx, spec.command(), opts.surroundings(), spec.processLog(log))
	if err != nil {
		return nil, err
	}
	return session.Begin(ctx, p, opts.terms(spec), true, log)
}

func newHost(spec Spec, opts Options, launch launcher) *Host {
	spec, opts = spec.withDefaults(), opts.withDefaults()
	box := outbox.New(spec.Timeout)
	return &Host{
		box:       box,
		processes: newSupervisor(spec, opts, launch, box.NewConsumer()),
		reloading: make(chan struct{}, 1),
	}
}

// Launch launches a process that Run begins with: it has described itself, has accepted its config
// and is healthy. After an error nothing is left of it, and [Refuses] says whether the handler will
// not run as it is configured. Call Launch at most once, and before Run. A Host that is then not
// run must be abandoned.
func (h *Host) Launch(ctx context.Context) error { return h.processes.launchFirst(ctx) }

// Abandon ends the process that Launch has launched, if Run has not begun with it.
func (h *Host) Abandon() { h.processes.abandonFirst() }

// Refuses reports whether an error of [Host.Launch] or [Try] says that the handler will not run as
// it is configured, as opposed to one that fails.
func Refuses(err error) bool { return isRefusal(err) }

// Run keeps the handler running until ctx ends. Then it drains and ends the process. It returns
// when nothing of it is left, and always nil: whatever goes wrong with a handler is a state of it.
// Run is called once.
func (h *Host) Run(ctx context.Context) error {
	h.processes.run(ctx)
	h.box.Stop(h.processes.stoppedError())
	return nil
}

// Handle delivers ev and returns the handler's answer. It blocks while no process is ready or the
// window is full. The spec's time limit counts from the sending on. After it, or when ctx ends, the
// host cancels the event at the handler. The error wraps [handler.ErrLost] if the process went away
// with the event. The handler may have handled it then, and the caller sends it again with a higher
// Attempt. ev's JSON is not copied and must never be changed.
func (h *Host) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	return h.box.Handle(ctx, ev)
}

// Submit does what Handle does and returns at once. answered is called once with what Handle would
// return, from any goroutine and perhaps before Submit returns. It must not block. ev must never be
// changed.
func (h *Host) Submit(
	ctx context.Context, ev *handler.Event, answered func(handler.Answer, error),
) {
	h.box.Submit(ctx, ev, answered)
}

// SubmitAll submits events together: they go to the handler in one message if it has room for them,
// and a message has at most 32. answered is called once for each event, with its index, as Submit
// calls it.
func (h *Host) SubmitAll(
	ctx context.Context, events []*handler.Event, answered func(int, handler.Answer, error),
) {
	h.box.SubmitAll(ctx, events, answered)
}

// Ready waits until a process takes events.
func (h *Host) Ready(ctx context.Context) error { return h.processes.waitReady(ctx) }

// Limit returns how many events the process takes at once: the lower of the operator's and the
// handler's limit, and slow events in addition. isProbe says that only places are left that find
// out whether the handler still answers anything; package outbox explains both. While no process
// takes events, n is what the operator allows.
func (h *Host) Limit() (n int, isProbe bool) { return limit(h.box, h.processes.concurrency()) }

func limit(box *outbox.Outbox, concurrency int) (n int, isProbe bool) {
	if n, isProbe = box.Room(); n == 0 {
		return cmp.Or(concurrency, handlerpb.DefaultConcurrency), false
	}
	return n, isProbe
}

// Grown returns a channel that delivers a token when Limit has grown, other than by an answer.
func (h *Host) Grown() <-chan struct{} { return h.box.Grown() }

// Status describes the handler.
func (h *Host) Status() Status {
	s := h.processes.snapshot()
	s.Waiting += h.box.Waiting()
	return s
}

// Try launches a handler, lets it describe itself and check its config, and ends it again. The
// error is a *RefusedError if the handler refuses the config, and otherwise says why it does not
// work.
func Try(ctx context.Context, spec Spec, opts Options) (Description, error) {
	spec, opts = spec.withDefaults(), opts.withDefaults()
	s, err := launcher(launch).abandoning(launchGrace)(ctx, spec, opts, opts.Logger.With("handler", spec.Name))
	if err != nil {
		return Description{}, fmt.Errorf("handler %q: %w", spec.Name, err)
	}
	s.End(opts.StopTimeout)
	return s.Description(), nil
}
