package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/host"
)

// reloader restarts a handler with its current manifest: its process and its rights, nothing else
// of the plan. It works beside current, whose reload takes up everything: reloads of several
// handlers run at the same time, and none waits for informers.
type reloader struct {
	// load reads the manifests.
	load    func(context.Context) (*config.Config, error)
	running func() *running
	process func(name string) (reloadable, bool)
	allow   func(config.Handler) (done func(stands bool))
	// reloaded notes the manifest with which a handler was reloaded.
	reloaded func(config.Handler)
	folders  *launch.Folders
	dryRun   bool
	log      *slog.Logger

	mu    sync.Mutex               // guards turns
	turns map[string]chan struct{} // by handler; holds a token during a reload
}

// reloadable is a handler whose process can be replaced.
type reloadable interface {
	Reload(context.Context, host.Spec) error
	Status() host.Status
}

// reload reads the manifests and replaces the handler's process by one that they describe. An error
// changes nothing. Reloads of one handler run one after the other, and each reads the manifests
// when its turn comes, so the last one gets the newest.
func (r *reloader) reload(ctx context.Context, name string) (control.Reloaded, error) {
	began := r.running()
	before, isRunning := began.plan.Handler(name)
	if isRunning {
		turn := r.turn(name)
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return control.Reloaded{}, r.failed(name, errCalledOff)
		}
	}
	cfg, err := r.load(ctx)
	if err != nil {
		return control.Reloaded{}, mistaken(err)
	}
	now, written := cfg.Handler(name)
	process, ok := r.process(name)
	switch {
	case !isRunning && !written:
		return control.Reloaded{}, control.ErrNotFound
	case !isRunning:
		return control.Reloaded{}, refuse("handler %s does not run: no rule named it when informd "+
			"read its manifests; informd reload takes up new rules and handlers", name)
	case !written:
		return control.Reloaded{}, refuse("handler %s is no longer in the manifests: "+
			"it goes on as it is; informd reload ends it", name)
	case before.Remote != nil:
		return control.Reloaded{}, refuse("handler %s runs elsewhere: roll it out there; "+
			"informd reload takes up another address, tls or config", name)
	case now.Remote != nil:
		return control.Reloaded{}, refuse("handler %s was not reloaded: it is remote now, "+
			"and was not before; informd reload takes that up", name)
	case !ok || r.dryRun && now.Builtin != "log":
		return control.Reloaded{}, refuse("handler %s was not reloaded: "+
			"this informd is a dry run, which starts no handler but log", name)
	case !r.folders.Admit(now):
		return control.Reloaded{}, refuse("handler %s was not reloaded: it has a user now, "+
			"and no handler had one when informd started, "+
			"so informd's folders are closed to other users; restart informd", name)
	}
	spec, err := launch.Spec(now)
	if err != nil {
		return control.Reloaded{}, err
	}
	allowed := r.allow(now)
	err = process.Reload(ctx, spec)
	allowed(err == nil)
	if err != nil {
		if ctx.Err() != nil {
			err = errCalledOff
		}
		return control.Reloaded{}, r.failed(name, err)
	}
	r.reloaded(now)
	pid := process.Status().PID
	r.log.Info("handler reloaded", "handler", name, "pid", pid)
	said := notes(before, now, began.plan)
	if changes := config.Changes(began.cfg, cfg); len(changes) > 0 {
		said = append(said, "a reload of a handler changes that one; informd reload takes up these, too: "+
			atMost(5, changes))
	}
	return control.Reloaded{PID: pid, Notes: said}, nil
}

// failed logs and returns that the handler was not reloaded.
func (r *reloader) failed(name string, why error) error {
	r.log.Warn("handler was not reloaded and goes on as it was", "handler", name, "error", why)
	return refuse("handler %s was not reloaded and goes on as it was: %v", name, why)
}

// turn returns the channel that serializes reloads of a handler.
func (r *reloader) turn(name string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == nil {
		r.turns = make(map[string]chan struct{})
	}
	if r.turns[name] == nil {
		r.turns[name] = make(chan struct{}, 1)
	}
	return r.turns[name]
}

var errCalledOff = errors.New("called off: the command that asked for it has ended")

// notes returns what a reload did not apply, and which variables are missing.
func notes(before, now config.Handler, running *plan.Plan) (notes []string) {
	var fields []string
	if before.Concurrency != now.Concurrency {
		fields = append(fields, "concurrency")
	}
	if before.Timeout != now.Timeout {
		fields = append(fields, "timeout")
	}
	if before.Retry != now.Retry {
		fields = append(fields, "retry")
	}
	if len(fields) > 0 {
		notes = append(notes, strings.Join(fields, ", ")+": informd reload takes that up")
	}
	for _, source := range now.Read {
		name := source.String()
		isNamed := func(s *plan.Source) bool { return s.Name == name }
		if !slices.ContainsFunc(running.Sources, isNamed) {
			notes = append(notes, "access.read: source "+name+
				" is new: informd reload takes that up")
		}
	}
	if len(before.Write) == 0 && len(now.Write) > 0 {
		notes = append(notes,
			"access.write: the handler had none before: informd reload takes that up")
	}
	if names := launch.Unset(now.Env); len(names) > 0 {
		notes = append(notes, "env: not set in informd's environment: "+strings.Join(names, ", "))
	}
	return notes
}

// atMost joins n texts, and says how many more there are.
func atMost(n int, texts []string) string {
	if more := len(texts) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:n], ", "), more)
	}
	return strings.Join(texts, ", ")
}

func refuse(format string, args ...any) error {
	return &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf(format, args...)}
}

// mistaken returns that the manifests cannot be used, with all that is wrong in the report.
func mistaken(err error) error {
	why := "the manifests cannot be read"
	if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
		n := len(mistakes)
		why = fmt.Sprintf("%d %s in the manifests", n, cli.Plural(n, "mistake"))
	}
	return &control.Error{
		Code: http.StatusConflict, Message: why + ": nothing was changed", Report: err.Error(),
	}
}
