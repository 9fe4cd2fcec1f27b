package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// handlers holds what delivers to each handler of a plan: a host, or a dryRunner in a dry run.
type handlers struct {
	byName map[string]engine.Handler
	hosts  []*namedHost // those of byName that are hosts
	// isConfidential reports whether events of a rule may quote a Secret. It is set before the
	// engine runs.
	isConfidential func(rule string) bool
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
	h := &handlers{byName: make(map[string]engine.Handler)}
	for _, c := range configured {
		if dryRun && c.Builtin != "log" {
			h.byName[c.Name] = dryRunner{log.With("handler", c.Name), h}
			continue
		}
		if c.Remote != nil {
			spec, err := launch.RemoteSpec(c)
			if err != nil {
				return nil, fmt.Errorf("handler %q: %w", c.Name, err)
			}
			h.add(c.Name, host.NewRemote(spec, folders.Options(log)))
			continue
		}
		spec, err := launch.Spec(c)
		if err != nil {
			return nil, fmt.Errorf("handler %q: %w", c.Name, err)
		}
		if names := launch.Unset(c.Env); len(names) > 0 {
			log.Warn("environment variables that the handler's env names are not set",
				"handler", c.Name, "env", names)
		}
		options := folders.Options(log)
		options.Cache = cache
		h.add(c.Name, host.New(spec, options))
	}
	return h, nil
}

func (h *handlers) add(name string, r hosted) {
	h.byName[name] = r
	h.hosts = append(h.hosts, &namedHost{r, name})
}

// reloadable returns the host of a handler if its process can be replaced.
func (h *handlers) reloadable(name string) (reloadable, bool) {
	if n, ok := h.host(name); ok {
		process, ok := n.hosted.(reloadable)
		return process, ok
	}
	return nil, false
}

// host returns the host of a handler. ok is false if there is none, as in a dry run.
func (h *handlers) host(name string) (*namedHost, bool) {
	i := slices.IndexFunc(h.hosts, func(n *namedHost) bool { return n.name == name })
	if i < 0 {
		return nil, false
	}
	return h.hosts[i], true
}

// run keeps all hosts running until ctx ends, and waits for them.
func (h *handlers) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, named := range h.hosts {
		group.Go(func() error { return named.Run(ctx) })
	}
	return group.Wait()
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
