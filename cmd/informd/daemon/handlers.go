package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// handlers are the processes behind a plan's handlers, or what stands in for them in a dry run.
type handlers struct {
	byName map[string]engine.Handler
	hosts  []*namedHost
}

type namedHost struct {
	runner
	name string
}

// runner keeps a handler running: a host.Host or a host.Remote.
type runner interface {
	engine.Handler
	Run(context.Context) error
	Status() host.Status
}

func newHandlers(configured []config.Handler, folders *launch.Folders, dryRun bool, cache *cached, log *slog.Logger) (*handlers, error) {
	h := &handlers{byName: make(map[string]engine.Handler)}
	for _, c := range configured {
		if dryRun && c.Builtin != "log" {
			h.byName[c.Name] = dryRunner{log.With("handler", c.Name)}
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
		if names := launch.Missing(c.Env); len(names) > 0 {
			log.Warn("variables that are to be passed on are not set", "handler", c.Name, "env", names)
		}
		options := folders.Options(log)
		options.Cache = cache
		h.add(c.Name, host.New(spec, options))
	}
	return h, nil
}

func (h *handlers) add(name string, r runner) {
	h.byName[name] = r
	h.hosts = append(h.hosts, &namedHost{r, name})
}

// reloadable is the process behind a handler, if there is one here.
func (h *handlers) reloadable(name string) (reloadable, bool) {
	if n, ok := h.process(name); ok {
		process, ok := n.runner.(reloadable)
		return process, ok
	}
	return nil, false
}

// process is what is behind a handler, if anything is.
func (h *handlers) process(name string) (*namedHost, bool) {
	i := slices.IndexFunc(h.hosts, func(n *namedHost) bool { return n.name == name })
	if i < 0 {
		return nil, false
	}
	return h.hosts[i], true
}

// run keeps the processes running until ctx ends, and ends them.
func (h *handlers) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, process := range h.hosts {
		group.Go(func() error { return process.Run(ctx) })
	}
	return group.Wait()
}

// dryRunner stands in for a handler and says what it would have been sent.
type dryRunner struct{ log *slog.Logger }

func (dryRunner) Ready(ctx context.Context) error { return ctx.Err() }

func (dryRunner) Limit() int { return 1 }

func (d dryRunner) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	d.log.Info("would deliver", "rule", ev.Rule, "event", ev.Event, "resource", ev.Resource.Resource,
		"namespace", ev.Namespace, "name", ev.Name, "id", ev.ID)
	return handler.Answer{}, nil
}
