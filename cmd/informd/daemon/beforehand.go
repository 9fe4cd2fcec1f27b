package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
)

// launchedAtOnce bounds how many handlers a reload launches at a time.
const launchedAtOnce = 4

// launchable is a handler whose process can be launched before it runs: a host.Host.
type launchable interface {
	Launch(context.Context) error
	Abandon()
	Status() host.Status
}

// process returns the handler's process, or nil if it has none here.
func (r *runningHandler) process() launchable {
	if r == nil || r.host == nil {
		return nil
	}
	process, _ := r.host.hosted.(launchable)
	return process
}

// launch launches the processes of those handlers of next that are new or have changed, before
// anything is touched. next has the handlers configured, in the same order. It returns an error if
// one refuses to run as it is configured, or if one fails that is to replace one that works. A new
// one that fails is tried again once it runs. After an error, no process of next is left.
func (h *handlers) launch(
	ctx context.Context, next handlerSet, configured []config.Handler,
) error {
	h.mu.Lock()
	all := h.all
	h.mu.Unlock()
	var (
		mu       sync.Mutex // guards mistakes and failures
		mistakes config.Mistakes
		failures []error
		group    errgroup.Group
	)
	group.SetLimit(launchedAtOnce)
	for i, c := range configured {
		is, was := next[i], all.named(c.Name)
		if is == was || is.process() == nil {
			continue
		}
		group.Go(func() error {
			err := is.process().Launch(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
			case host.Refuses(err):
				mistakes = append(mistakes, launch.MistakesOf(c, fmt.Errorf("handler %q: %w", c.Name, err))...)
			case works(was):
				failures = append(failures, fmt.Errorf("handler %s cannot be started as the manifests "+
					"have it now: %w", c.Name, err))
			}
			return nil
		})
	}
	_ = group.Wait() // always nil
	if len(mistakes) == 0 && len(failures) == 0 {
		return nil
	}
	h.abandon(next)
	if len(mistakes) > 0 {
		mistakes.Sort()
		return mistaken(mistakes)
	}
	err := errors.Join(failures...)
	if ctx.Err() != nil {
		err = errCalledOff
	}
	return &control.Error{Code: mayPass, Message: "nothing was changed: " + err.Error()}
}

// works reports whether a handler runs.
func works(r *runningHandler) bool {
	if r == nil || r.host == nil {
		return false
	}
	state := r.host.Status().State
	return state == host.Running || state == host.Wedged
}

// abandon ends the processes that launch has launched for next, which does not come into force.
func (h *handlers) abandon(next handlerSet) {
	h.mu.Lock()
	all := h.all
	h.mu.Unlock()
	for _, is := range next {
		if process := is.process(); process != nil && all.named(is.name) != is {
			process.Abandon()
		}
	}
}
