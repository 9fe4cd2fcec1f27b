package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// handlers holds what delivers to each handler of the plan: a host, or a dryRunner in a dry run.
type handlers struct {
	folders *launch.Folders
	dryRun  bool
	cache   *cached
	log     *slog.Logger
	// isConfidential reports whether events of a rule may quote a Secret. It is set before the
	// engine runs.
	isConfidential func(rule string) bool
	// seesSecrets reports whether a handler may have seen text of a Secret. It is set before the
	// hosts run.
	seesSecrets func(engine.Handler) bool

	mu    sync.Mutex // guards all fields below
	all   handlerSet
	group sync.WaitGroup
	ctx   context.Context // of run; nil before it, and once it ends
}

// handlerSet are the handlers of one plan, in its order.
type handlerSet []*runningHandler

// runningHandler is what delivers to a handler.
type runningHandler struct {
	name   string
	digest plan.Digest // of its manifest in the plan
	// hasOther says that the process was reloaded with another manifest; guarded by handlers.mu.
	hasOther bool
	engine.Handler
	host *namedHost // nil in a dry run
	end  func()     // ends the host, and waits for that; nil before it runs
}

type namedHost struct {
	hosted
	name string
}

// hosted keeps a handler running. It is a host.Host or a host.Remote.
type hosted interface {
	engine.Handler
	Run(context.Context) error
	Status() host.Status
}

func newHandlers(
	configured []config.Handler, folders *launch.Folders, dryRun bool, cache *cached,
	log *slog.Logger) (*handlers, error) {
	h := &handlers{folders: folders, dryRun: dryRun, cache: cache, log: log}
	var err error
	h.all, err = h.next(configured, true)
	return h, err
}

func (s handlerSet) byName() map[string]engine.Handler {
	all := make(map[string]engine.Handler, len(s))
	for _, one := range s {
		all[one.name] = one.Handler
	}
	return all
}

func (s handlerSet) named(name string) *runningHandler {
	i := slices.IndexFunc(s, func(one *runningHandler) bool { return one.name == name })
	if i < 0 {
		return nil
	}
	return s[i]
}

// next returns what delivers to the handlers of another plan: what there is for those whose
// manifests have not changed. areRead says that the manifests were read just now: then a process
// that was reloaded with another manifest is replaced, too. next starts nothing.
func (h *handlers) next(configured []config.Handler, areRead bool) (next handlerSet, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range configured {
		digest := plan.DigestOf(c)
		if is := h.all.named(c.Name); is != nil && is.digest == digest && !(areRead && is.hasOther) {
			next = append(next, is)
			continue
		}
		made, err := h.make(c)
		if err != nil {
			return nil, fmt.Errorf("handler %q: %w", c.Name, err)
		}
		made.name, made.digest = c.Name, digest
		next = append(next, made)
	}
	return next, nil
}

func (h *handlers) make(c config.Handler) (*runningHandler, error) {
	if h.dryRun && c.Builtin != "log" {
		return &runningHandler{Handler: dryRunner{h.log.With("handler", c.Name), h}}, nil
	}
	var made hosted
	options := h.folders.Options(h.log)
	options.Confidential = func() bool { return h.seesSecrets(made) }
	if c.Remote != nil {
		spec, err := launch.RemoteSpec(c)
		if err != nil {
			return nil, err
		}
		made = host.NewRemote(spec, options)
	} else {
		spec, err := launch.Spec(c)
		if err != nil {
			return nil, err
		}
		if names := launch.Unset(c.Env); len(names) > 0 {
			h.log.Warn("environment variables that the handler's env names are not set",
				"handler", c.Name, "env", names)
		}
		options.Cache = h.cache
		made = host.New(spec, options)
	}
	return &runningHandler{Handler: made, host: &namedHost{made, c.Name}}, nil
}

// adopt makes next the handlers, and starts those that are new. It ends the others in the
// background, once ended has returned. It returns the names of what is started, replaced and ended.
func (h *handlers) adopt(next handlerSet, ended func()) (changes control.Changes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var over []*runningHandler
	for _, was := range h.all {
		switch is := next.named(was.name); {
		case is == was:
			continue
		case is == nil:
			changes.Gone = append(changes.Gone, was.name)
		default:
			changes.Changed = append(changes.Changed, was.name)
		}
		over = append(over, was)
	}
	for _, is := range next {
		if h.all.named(is.name) == nil {
			changes.Added = append(changes.Added, is.name)
		}
	}
	h.all = next
	h.start()
	if h.ctx == nil || h.ctx.Err() != nil {
		return changes
	}
	h.group.Go(func() {
		ended()
		for _, was := range over {
			if was.end != nil {
				was.end()
			}
		}
	})
	return changes
}

// start starts the hosts that do not run. The caller holds mu.
func (h *handlers) start() {
	if h.ctx == nil || h.ctx.Err() != nil {
		return
	}
	for _, one := range h.all {
		if one.host == nil || one.end != nil {
			continue
		}
		ctx, cancel := context.WithCancel(h.ctx)
		done := make(chan struct{})
		h.group.Go(func() {
			defer close(done)
			_ = one.host.Run(ctx) // always nil
		})
		one.end = func() {
			cancel()
			<-done
		}
	}
}

// reloadable returns the host of a handler if its process can be replaced.
func (h *handlers) reloadable(name string) (reloadable, bool) {
	if n, ok := h.host(name); ok {
		process, ok := n.hosted.(reloadable)
		return process, ok
	}
	return nil, false
}

// reloaded notes that the process of a handler has been reloaded with a manifest. If that is not
// the plan's, the next reload of all manifests replaces the process, even if it finds the plan's.
func (h *handlers) reloaded(c config.Handler) {
	digest := plan.DigestOf(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if is := h.all.named(c.Name); is != nil {
		is.hasOther = digest != is.digest
	}
}

// host returns the host of a handler. ok is false if there is none, as in a dry run.
func (h *handlers) host(name string) (*namedHost, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if is := h.all.named(name); is != nil && is.host != nil {
		return is.host, true
	}
	return nil, false
}

// hosts returns all hosts, in the order of the plan.
func (h *handlers) hosts() (all []*namedHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		if one.host != nil {
			all = append(all, one.host)
		}
	}
	return all
}

// run keeps all hosts running until ctx ends, and waits for them.
func (h *handlers) run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	h.start()
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.ctx = nil // nothing starts from now on
	for _, one := range h.all {
		if process := one.process(); process != nil && one.end == nil {
			process.Abandon()
		}
	}
	h.mu.Unlock()
	h.group.Wait()
	return nil
}

// dryRunner takes the place of a handler and logs what informd would deliver to it, with the
// payload unless that may quote a Secret.
type dryRunner struct {
	log *slog.Logger
	of  *handlers
}

// maxPayload bounds the bytes of a payload that a dryRunner logs.
const maxPayload = 4 << 10

func (dryRunner) Ready(ctx context.Context) error { return ctx.Err() }

func (dryRunner) Limit() (int, bool) { return 1, false }

func (dryRunner) Grown() <-chan struct{} { return nil }

func (d dryRunner) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	attrs := []any{
		"rule", ev.Rule, "event", ev.Event,
		"resource", ev.Resource.Resource, "namespace", ev.Namespace, "name", ev.Name, "id", ev.ID,
	}
	if len(ev.Items) > 0 {
		attrs = append(attrs, "items", len(ev.Items))
	}
	if ev.Payload != nil {
		attrs = append(attrs, "payload", d.payload(ev))
	}
	d.log.Info("would deliver", attrs...)
	return handler.Answer{}, nil
}

// payload returns an event's payload as people read it.
func (d dryRunner) payload(ev handler.Event) string {
	if d.of.isConfidential(ev.Rule) {
		return "not shown: it may quote a Secret"
	}
	var text bytes.Buffer
	if json.Indent(&text, ev.Payload, "", "  ") != nil {
		return "not valid JSON"
	}
	if text.Len() > maxPayload {
		return printable.Cut(text.String(), maxPayload) + "…"
	}
	return text.String()
}
