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
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
)

// current is the configuration that the daemon runs. It takes up a changed one: all that can fail is
// done before anything that runs is touched. It has many fields because a reload concerns all parts
// of the daemon.
type current struct {
	paths    []string // of the manifests
	engine   *engine.Engine
	handlers *handlers
	folders  *launch.Folders
	fitting  *fitting
	rights   *permissions
	metrics  *metrics
	log      *slog.Logger
	loaded   string // the fingerprint of the manifests that the daemon started with
	kinds    *kinds

	running atomic.Pointer[running]            // changes only under mu
	last    atomic.Pointer[control.LastReload] // nil before the first

	mu sync.Mutex // one reload at a time; held while handlers of another plan are launched
}

// running is what the daemon runs. It is immutable.
type running struct {
	cfg  *config.Config
	plan *plan.Plan // compiled from cfg
}

// plan returns the plan that the daemon runs.
func (c *current) plan() *plan.Plan { return c.running.Load().plan }

// reloadWait bounds how long a reload waits for informers of changed rules to catch up.
const reloadWait = 30 * time.Second

// reload reads the manifests again and takes up what has changed. An error changes nothing.
func (c *current) reload(ctx context.Context) (control.ReloadedAll, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	done, err := c.attempt(ctx)
	last := &control.LastReload{At: began}
	if err != nil {
		last.Error = err.Error()
		if said, ok := err.(*control.Error); ok {
			last.Report = said.Report
		}
		c.log.Error("the manifests were not reloaded: informd goes on with those that it has",
			"error", err, "report", last.Report)
	}
	if before := c.last.Load(); before != nil {
		last.Success = before.Success
	}
	if err == nil {
		last.Success = began
		c.log.Info("manifests reloaded", "took", time.Since(began).Round(time.Millisecond),
			"added", done.Rules.Added, "changed", done.Rules.Changed, "gone", done.Rules.Gone,
			"renamed", len(done.Renamed))
	}
	c.last.Store(last)
	return done, err
}

func (c *current) attempt(ctx context.Context) (control.ReloadedAll, error) {
	cfg, compiled, err := c.load(ctx)
	if err != nil {
		return control.ReloadedAll{}, mistaken(err)
	}
	done, err := c.switchTo(ctx, cfg, compiled, true)
	if err == nil {
		c.kinds.logUnserved(compiled)
	}
	return done, err
}

// load reads and compiles the manifests.
func (c *current) load(ctx context.Context) (*config.Config, *plan.Plan, error) {
	cfg, compiled, err := manifests.LoadForCluster(c.paths)
	if err != nil {
		return nil, nil, err
	}
	return c.kinds.named(ctx, cfg, compiled)
}

// switchTo replaces what differs in a configuration. isRead says that it was read just now. The
// caller holds mu.
func (c *current) switchTo(
	ctx context.Context, cfg *config.Config, compiled *plan.Plan, isRead bool,
) (control.ReloadedAll, error) {
	if !c.folders.Admit(compiled.Handlers...) {
		return control.ReloadedAll{}, refuse("%s", usersNeedRestart)
	}
	next, err := c.handlers.next(compiled.Handlers, isRead)
	if err != nil {
		return control.ReloadedAll{}, err
	}
	if err := c.handlers.launch(ctx, next, compiled.Handlers); err != nil {
		return control.ReloadedAll{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, reloadWait)
	defer cancel()
	rules, ended, err := c.engine.Reload(ctx, compiled, next.byName())
	if err != nil {
		c.handlers.abandon(next)
		refused := &control.Error{Code: http.StatusConflict, Message: "nothing was changed: " + err.Error()}
		if errors.Is(err, engine.ErrNotRunning) || errors.Is(err, admin.ErrStopping) ||
			errors.Is(err, context.DeadlineExceeded) {
			refused.Code = mayPass
		}
		return control.ReloadedAll{}, refused
	}
	before := c.running.Swap(&running{cfg, compiled}).plan
	c.metrics.begin(compiled)
	c.fitting.set(cfg)
	replaced := c.handlers.adopt(next, func() {
		ended()
		c.forget(before)
	})
	done := control.ReloadedAll{
		Rules:   control.Changes{Added: rules.Added, Changed: rules.Changed, Gone: rules.Gone},
		Dropped: rules.Dropped, Handlers: replaced, Metrics: control.Changes(rules.Metrics),
	}
	for _, r := range rules.Renamed {
		done.Renamed = append(done.Renamed, control.Renamed(r))
	}
	for _, h := range compiled.Handlers {
		if names := launch.Unset(h.Env); len(names) > 0 {
			done.Notes = append(done.Notes, fmt.Sprintf("handler %s: env: not set in informd's "+
				"environment: %s", h.Name, strings.Join(names, ", ")))
		}
	}
	for _, name := range rules.AppliesLater {
		done.Notes = append(done.Notes, fmt.Sprintf("rule %s: %s", name, preview.AppliesLater(name)))
	}
	for _, name := range rules.Leaving {
		done.Notes = append(done.Notes, fmt.Sprintf("rule %s: %s", name, preview.Left))
	}
	for _, name := range released(before, compiled) {
		done.Notes = append(done.Notes, fmt.Sprintf("rule %s: %s", name, preview.Released))
	}
	eachUnserved(compiled, func(rule string, kind schema.GroupVersionKind) {
		done.Notes = append(done.Notes, fmt.Sprintf("rule %s: the cluster does not serve the kind %s of "+
			"%s, or does not answer; the rule's actions wait for it", rule, kind.Kind, kind.GroupVersion()))
	})
	if rules.Dropped > 0 {
		done.Notes = append(done.Notes, fmt.Sprintf("dropped %d %s that waited for rules that are gone",
			rules.Dropped, cli.Plural(rules.Dropped, "event")))
	}
	return done, nil
}

// released returns the rules that owned what they applied in the plan before, and do so no more.
func released(before, now *plan.Plan) (names []string) {
	for _, r := range now.Rules {
		owned := slices.ContainsFunc(before.Rules, func(old *plan.Rule) bool {
			return old.Owns() && (old.Name == r.Name || old.Name == r.Former)
		})
		if owned && !r.Owns() {
			names = append(names, r.Name)
		}
	}
	return names
}

// forget forgets the counts of rules and handlers that a plan had, and that are gone.
func (c *current) forget(before *plan.Plan) {
	now := c.plan()
	var rules, handlers []string
	for _, r := range before.Rules {
		is := func(other *plan.Rule) bool { return other.Name == r.Name }
		if !slices.ContainsFunc(now.Rules, is) {
			rules = append(rules, r.Name)
		}
	}
	for _, h := range before.Handlers {
		if _, ok := now.Handler(h.Name); !ok {
			handlers = append(handlers, h.Name)
		}
	}
	c.metrics.forget(rules, handlers)
}

// preview returns what a reload would change with these manifests, or with those that the daemon reads
// if there are none.
func (c *current) preview(ctx context.Context, files []control.File) (control.Planned, error) {
	var read []config.File
	for _, f := range files {
		read = append(read, config.File{Path: f.Path, Data: f.Data})
	}
	var compiled *plan.Plan
	var err error
	if len(files) == 0 {
		if _, compiled, err = c.load(ctx); err == nil {
			if err := c.tryBuiltins(ctx, compiled); err != nil {
				return control.Planned{}, err
			}
		}
	} else {
		var cfg *config.Config
		if cfg, compiled, err = manifests.CompileForCluster(read); err == nil {
			_, compiled, err = c.kinds.named(ctx, cfg, compiled)
		}
	}
	if err != nil {
		return control.Planned{}, mistaken(err)
	}
	v, err := c.engine.Preview(ctx, compiled)
	if err != nil {
		return control.Planned{}, err
	}
	out := control.Planned{
		Informers: control.Changes{
			Added: texts(v.Begun), Changed: texts(v.Widened), Gone: texts(v.Ended),
		},
		Kept: len(v.Kept), Handlers: control.Changes(v.Handlers), Metrics: control.Changes(v.Metrics),
		Rules: make([]control.PlannedRule, 0, len(v.Rules)),
	}
	if !c.folders.Admit(compiled.Handlers...) {
		out.Problem = usersNeedRestart
	}
	asking, cancel := context.WithTimeout(ctx, rightsWait)
	defer cancel()
	out.Rights, _ = c.rights.missing(asking, compiled) // which says why it is not known
	for _, r := range v.Rules {
		out.Rules = append(out.Rules, control.PlannedRule{
			Name: r.Name, Former: r.Former, Change: string(r.Change), In: r.In, Out: r.Out, Pending: r.Pending,
			Lists: r.Lists, Dropped: r.Dropped, Untold: r.AppliesLater, Leaves: r.Leaves,
			Releases: r.Releases, Does: r.Does, Text: r.String(),
		})
	}
	return out, nil
}

// texts returns selections in words.
func texts(selections []object.Selection) (out []string) {
	for _, s := range selections {
		out = append(out, s.String())
	}
	return out
}

// tryBuiltins returns the error of a reload whose builtin handlers refuse their config, or do not
// start in the place of ones that work. It leaves alone handlers with commands of their own: a plan
// changes nothing, and nobody knows what those do when they start.
func (c *current) tryBuiltins(ctx context.Context, compiled *plan.Plan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	isOther := func(h config.Handler) bool { return h.Builtin == "" }
	builtins := slices.DeleteFunc(slices.Clone(compiled.Handlers), isOther)
	next, err := c.handlers.next(builtins, true)
	if err != nil {
		return err
	}
	if err := c.handlers.launch(ctx, next, builtins); err != nil {
		return err
	}
	c.handlers.abandon(next)
	return nil
}

// rightsWait bounds how long a plan waits for the API server to say which rights would be missing.
const rightsWait = 10 * time.Second

const usersNeedRestart = "a handler has a user now, and none had one when informd started, " +
	"so informd's folders are closed to other users: restart informd"

// mayPass is the code of a reload that failed for a reason that may pass, such as an informer that
// has not caught up.
const mayPass = http.StatusServiceUnavailable

// watch reloads whenever the manifests have changed, since they were loaded, and stayed the same for
// a second. If the reason for which it fails may pass, watch tries again.
func (c *current) watch(ctx context.Context) {
	var tries tries
	manifests.Watch(ctx, c.paths, c.loaded, func() (again bool) {
		if !tries.areDue(manifests.Fingerprint(c.paths), time.Now()) {
			return true
		}
		_, err := c.reload(ctx) // which logs
		said, ok := err.(*control.Error)
		return ok && said.Code == mayPass
	})
}

// tries says when watch tries manifests again that it could not take up: after a second, and then
// later and later, up to maxPause.
type tries struct {
	of    string // the fingerprint of the manifests
	next  time.Time
	pause time.Duration
}

// These bound the pause between two tries.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// areDue reports whether manifests with a fingerprint are to be tried now, and notes that they are.
func (t *tries) areDue(of string, now time.Time) bool {
	if of != t.of {
		*t = tries{of: of, pause: minPause}
	}
	if now.Before(t.next) {
		return false
	}
	t.next, t.pause = now.Add(t.pause), min(2*t.pause, maxPause)
	return true
}

// names returns the names of the sources, sorted.
func (c *current) names() (names []string) {
	for _, s := range c.plan().Sources {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}
