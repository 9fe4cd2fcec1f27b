package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/host"
)

// newControl returns a server on the control socket that the flags ask for, or nil if they ask for
// none. It also returns nil if it cannot make the default socket in the state directory: the daemon
// runs without one.
func newControl(
	asked, stateDir string, replicas *control.Replicas, log *slog.Logger,
) (*control.Server, error) {
	socket := locate.SocketPath(asked, stateDir)
	if socket == "" {
		return nil, nil
	}
	server, err := control.New(socket, nil, control.Options{
		Logger: log, Daemon: os.Getpid(), Replicas: replicas,
	})
	if _, ok := errors.AsType[syscall.Errno](err); ok && asked == "" {
		log.Error("no control socket: commands such as informd status cannot ask this informd; "+
			"give --control SOCKET to put it elsewhere", "error", err)
		return nil, nil
	}
	return server, err
}

// backend shows the daemon to the commands.
type backend struct {
	version  string
	replica  string // the name of this one; "" without replicas
	engine   *engine.Engine
	handlers *handlers
	rights   *permissions
	started  time.Time
	reloader *reloader
	fitting  *fitting
	current  *current
}

// Status implements control.Backend.
func (b *backend) Status() control.Status {
	status := b.engine.Status()
	return control.Status{
		Version: b.version, PID: os.Getpid(), Started: b.started, Replica: b.replica,
		Stopping:    status.IsStopping,
		DeadLetters: status.DeadLetters.Letters,
		Sources:     b.sources(status.Sources), Rules: b.rules(status.Rules),
		Handlers: b.hosts(status.Handlers), Metrics: metricStatus(status.Metrics), Store: store(status.State, status.IsLoading),
		Reload: b.current.last.Load(),
		Rights: b.rights.status(),
		Asides: asides(status.Asides),
	}
}

// asides returns the changes that are set aside.
func asides(all []admin.AsideStatus) (out []control.AsideStatus) {
	for _, a := range all {
		out = append(out, control.AsideStatus{
			Resource: a.Resource, Object: a.Object.String(), ResourceVersion: a.Version,
			Deaths: a.Deaths, Since: a.Since, Rules: a.Rules,
		})
	}
	return out
}

func (b *backend) sources(sources []admin.SourceStatus) []control.SourceStatus {
	out := make([]control.SourceStatus, 0, len(sources))
	for _, s := range sources {
		one := control.SourceStatus{
			Name: s.Name, Resource: s.Resource,
			State: s.State.String(), Reason: s.Reason, Since: s.Since, Ready: s.Ready,
			Objects: s.Objects, ResourceVersion: s.ResourceVersion, Lag: s.Pending,
			Unreadable: s.Unreadable, IndexErrors: s.IndexErrors, Misfits: b.fitting.misfitsOf(s.Name),
		}
		if !s.LastHeard.IsZero() {
			one.LastHeard = &s.LastHeard
		}
		if view, ok := b.engine.Source(s.Name); ok {
			one.Indexes = slices.Sorted(maps.Keys(view.GetIndexers()))
		}
		out = append(out, one)
	}
	return out
}

func (b *backend) rules(rules []admin.RuleStatus) []control.RuleStatus {
	// Without the letters the count is 0; informd dead list shows the error.
	letters, _ := b.engine.Letters()
	dead, healed := countLetters(letters, b.current.plan().Rules)
	out := make([]control.RuleStatus, 0, len(rules))
	for _, r := range rules {
		one := control.RuleStatus{
			Name: r.Name, Former: r.Former, Source: r.Source, Handler: r.Handler,
			Paused: r.Paused, State: string(r.State), Reason: r.Reason, Failure: r.Failure,
			Matches: r.Matches, Acted: r.Acted, Idle: r.Idle, Errors: r.Errors, Targets: r.Targets,
			Dead: dead[r.Name], Healed: healed[r.Name],
			Waiting: r.Queue.Waiting + r.Queue.Away, Away: r.Queue.Away,
			OldestSeconds: r.Queue.OldestAge.Seconds(),
			Shortened:     r.Queue.Shortened, Dropped: r.Queue.Dropped,
			Pending: r.Pending, NextDue: r.NextDue, NextRound: r.NextRound, Scheduled: r.IsScheduled,
			Gathered: r.Gathered, NextEvent: r.NextEvent,
			Windows: r.Windows, Misfits: b.fitting.misfits(r.Name),
		}
		one.LastError = expressionError(r.LastError)
		out = append(out, one)
	}
	return out
}

// countLetters counts the dead letters of each rule, and those that a later event makes up for: see
// control.RuleStatus.
func countLetters(letters []delivery.Letter, rules []*plan.Rule) (dead, healed map[string]int) {
	dead, healed = make(map[string]int), make(map[string]int)
	for i := range letters {
		l := &letters[i]
		dead[l.Rule]++
		if !l.Delivered.IsZero() && !l.IsGroup { // an event of one object makes up for no group
			healed[l.Rule]++
		}
	}
	for _, r := range rules {
		if r.Every {
			delete(healed, r.Name)
		}
	}
	return dead, healed
}

// expressionError returns nil for nil.
func expressionError(e *engine.ExpressionFailure) *control.ExpressionError {
	if e == nil {
		return nil
	}
	return &control.ExpressionError{
		Reason: e.Reason, Object: e.Key.String(), At: e.At, Fault: string(e.Fault), Over: e.IsOver,
	}
}

func (b *backend) hosts(handlers []admin.HandlerStatus) []control.HandlerStatus {
	out := make([]control.HandlerStatus, 0, len(handlers))
	for _, h := range handlers {
		if h.Name == engine.OwnActions {
			continue // the rules say all about their own actions
		}
		one := control.HandlerStatus{
			Name: h.Name, State: "dry run", Reason: "informd logs what it would deliver",
		}
		if process, ok := b.handlers.host(h.Name); ok {
			one = hostStatus(h.Name, process.Status())
		}
		one.InFlight = h.InFlight
		out = append(out, one)
	}
	return out
}

func hostStatus(name string, s host.Status) control.HandlerStatus {
	out := control.HandlerStatus{
		Name: name, State: string(s.State), Reason: s.Reason,
		Since: s.Since, Restarts: s.Restarts, PID: s.PID,
		Program: strings.TrimSpace(s.Handler.Name + " " + s.Handler.Version), Confined: s.Confined,
		Failures: s.Failures, LastLog: s.LastLog, Reloading: s.Reloading,
		LastFailure: s.LastFailure.Reason, FailedAt: s.LastFailure.At,
		Problem: s.Problem, ProblemAt: s.ProblemAt,
	}
	if s.State == host.BackingOff || s.State == host.Refused {
		out.Next = s.Next
	}
	out.Slow, out.Full = s.Slow.Events, s.Slow.IsFull
	for _, w := range s.Slow.Longest {
		object := path.Join(w.Resource.Resource, w.Namespace, w.Name)
		out.Longest = append(out.Longest,
			control.WorkingStatus{Rule: w.Rule, Object: object, Since: w.Since})
	}
	for _, e := range s.Endpoints {
		of := hostStatus("", e.Status)
		out.Endpoints = append(out.Endpoints, control.EndpointStatus{
			Address: e.Address, State: of.State, Reason: cmp.Or(of.Reason, of.Problem),
			Since: of.Since, Restarts: of.Restarts,
			InFlight: e.Status.InFlight, Program: of.Program, Failures: of.Failures, Next: of.Next,
		})
	}
	return out
}

// store returns nil for a daemon without state.
func store(s *state.Status, isLoading bool) *control.StateStatus {
	if s == nil {
		return nil
	}
	return &control.StateStatus{
		Directory: s.Dir, SizeBytes: s.SizeBytes,
		Unwritten: s.Unwritten, UnwrittenBytes: s.UnwrittenBytes,
		LastWrite: s.LastWrite, Loading: isLoading, Durable: s.Trouble == "", Trouble: s.Trouble, SetAside: s.SetAside,
	}
}

// Objects implements control.Backend.
func (b *backend) Objects(q control.Query) (control.Found, error) {
	view, ok := b.engine.Source(q.Source)
	if !ok {
		return control.Found{}, fmt.Errorf("source %q: %w", q.Source, control.ErrNotFound)
	}
	selection := control.Found{}
	for _, s := range b.current.plan().Sources {
		if s.Name == q.Source {
			selection.Secret, selection.Kept = isSecret(s.Resource), kept(s)
		}
	}
	var err error
	selection.Objects, err = find(view, q)
	return selection, err
}

// find returns the objects of a source that a query asks for, in order of their keys.
func find(view *source.Source, q control.Query) ([]*object.Object, error) {
	var objects []*object.Object
	switch {
	case q.Index != "":
		found, err := view.ByIndex(q.Index, q.Value)
		if err != nil {
			return nil, err
		}
		objects = slices.DeleteFunc(found.Collect(), func(o *object.Object) bool {
			return q.Namespace != "" && o.Namespace() != q.Namespace ||
				q.Selector != nil && !q.Selector.Empty() &&
					!q.Selector.Matches(labels.Set(o.Labels()))
		})
	case q.Name != "" && q.Namespace != "" && (q.Selector == nil || q.Selector.Empty()):
		if o, ok := view.Get(q.Namespace, q.Name); ok {
			objects = append(objects, o)
		}
	default:
		objects = view.List(q.Namespace, q.Selector)
	}
	if q.Name != "" {
		objects = slices.DeleteFunc(objects, func(o *object.Object) bool {
			return o.Name() != q.Name
		})
	}
	slices.SortFunc(objects, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
	})
	return objects, nil
}

// kept returns the fields that the cache keeps of a source's objects, or nil if it keeps whole
// objects in some namespace.
func kept(s *plan.Source) []string {
	paths := new(object.Paths)
	for _, informer := range s.Informers {
		if informer.Keep == nil {
			return nil
		}
		paths.Union(informer.Keep)
	}
	out := []string{}
	for _, path := range paths.List() {
		out = append(out, object.PathText(path))
	}
	return out
}

func isSecret(r schema.GroupVersionResource) bool {
	return r == object.Secrets
}

// Letters implements control.Backend.
func (b *backend) Letters() ([]control.Letter, error) {
	letters, err := b.engine.Letters()
	out := make([]control.Letter, 0, len(letters))
	for _, l := range letters {
		out = append(out, shownLetter(l))
	}
	return out, err
}

// Letter implements control.Backend.
func (b *backend) Letter(id string) (control.Letter, error) {
	l, err := b.engine.Letter(id)
	if err != nil {
		return control.Letter{}, notFound(err)
	}
	out, event := shownLetter(l), l.Event()
	out.Event = &event
	return out, nil
}

// shownLetter returns a dead letter without its event. The engine has decided whether it may quote
// a Secret.
func shownLetter(l delivery.Letter) control.Letter {
	resource := schema.GroupVersionResource(l.Resource)
	return control.Letter{
		ID: l.ID, Rule: l.Rule, Handler: l.Handler, Resource: object.ResourceName(resource),
		Namespace: l.Key.Namespace, Name: l.Key.Name,
		Attempts: l.Attempts, Since: l.Since, Died: l.Died, Reason: l.Reason,
		Secret: isSecret(resource), Confidential: l.Confidential,
		Plain: l.Plain, Delivered: l.Delivered,
	}
}

// RetryLetter implements control.Backend.
func (b *backend) RetryLetter(id string) error { return notFound(b.engine.RetryLetter(id)) }

// DropLetter implements control.Backend.
func (b *backend) DropLetter(id string) error { return notFound(b.engine.DropLetter(id)) }

// SetPaused implements control.Backend.
func (b *backend) SetPaused(rule string, paused bool) error {
	return notFound(b.engine.SetPaused(rule, paused))
}

// Written implements control.Backend.
func (b *backend) Written(ctx context.Context) error { return b.engine.Written(ctx) }

// RetryRule implements control.Backend.
func (b *backend) RetryRule(rule, object string) (int, error) {
	n, err := b.engine.RetryRule(rule, object)
	if none, ok := errors.AsType[*admin.NotWaitingError](err); ok {
		return 0, (*control.NotWaitingError)(none)
	}
	return n, notFound(err)
}

// Explain implements control.Backend.
func (b *backend) Explain(
	rule, namespace, name string, showSecrets bool,
) (explain.Explanation, error) {
	x, err := b.explain(rule, namespace, name, showSecrets)
	x.Misfits = b.fitting.misfits(rule)
	return x, err
}

func (b *backend) explain(
	rule, namespace, name string, showSecrets bool,
) (x explain.Explanation, err error) {
	mask := control.MaskSecret
	if showSecrets {
		mask = nil
	}
	key := delta.Key{Namespace: namespace, Name: name}
	x, err = b.engine.Explain(rule, key, mask)
	view, ok := b.engine.Source(x.Source.Name)
	if err != nil || !ok || namespace != "" || x.Source.Has {
		return x, notFound(err)
	}
	found, err := find(view, control.Query{Name: name})
	if err != nil {
		return x, err
	}
	switch len(found) {
	case 0:
		return x, nil
	case 1:
		return b.engine.Explain(rule, delta.KeyOf(found[0]), mask)
	}
	var keys []string
	for _, o := range found[:min(len(found), 10)] {
		keys = append(keys, o.Key())
	}
	return x, &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf(
		"%d objects are named %s: give one of them, such as %s",
		len(found), name, strings.Join(keys, ", "))}
}

// Events implements control.Backend.
func (b *backend) Events(rule string, after uint64) (control.Events, error) {
	happenings, last, missed, err := b.engine.Happenings(rule, after)
	out := control.Events{
		Started: b.started, Last: last, Missed: missed,
		Items: make([]control.Event, 0, len(happenings)),
	}
	for i := range happenings {
		h := &happenings[i]
		out.Items = append(out.Items, control.Event{
			Time: h.At, Rule: h.Rule, Handler: h.Handler, Object: h.Key.String(),
			Outcome: explain.OutcomeOf(h.Rule, &h.Entry), Targets: h.Targets,
		})
	}
	return out, notFound(err)
}

// Targets implements control.Backend.
func (b *backend) Targets(rule string) (iter.Seq[explain.Target], error) {
	found, err := b.engine.Targets(rule)
	return found, notFound(err)
}

// Resync implements control.Backend.
func (b *backend) Resync(ctx context.Context, rule string) (int, error) {
	n, err := b.engine.Resync(ctx, rule)
	return n, notFound(err)
}

// ReloadHandler implements control.Backend.
func (b *backend) ReloadHandler(ctx context.Context, name string) (control.Reloaded, error) {
	return b.reloader.reload(ctx, name)
}

// Plan implements control.Backend.
func (b *backend) Plan(ctx context.Context, files []control.File) (control.Planned, error) {
	return b.current.preview(ctx, files)
}

// Reload implements control.Backend.
func (b *backend) Reload(ctx context.Context) (control.ReloadedAll, error) {
	return b.current.reload(ctx)
}

// notFound makes an engine.ErrNotFound a control.ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, admin.ErrNotFound) {
		return fmt.Errorf("%w: %w", control.ErrNotFound, err)
	}
	return err
}
