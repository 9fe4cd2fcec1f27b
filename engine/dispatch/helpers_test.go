package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		os.Exit(actUntilKilled(dir, os.Getenv(killedSecret) != ""))
	}
	goleak.VerifyTestMain(m)
}

var pods = handler.Resource{Version: "v1", Resource: "pods"}

// pod is an object in namespace shop.
func pod(name, uid string, version int) *object.Object {
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, uid, version))
	if err != nil {
		panic(err)
	}
	return o
}

func added(name, uid string, version int) rule.Match {
	return rule.Match{Delta: delta.Delta{Type: delta.Added, Object: pod(name, uid, version)}}
}

func updated(name, uid string, version int) rule.Match {
	return rule.Match{Delta: delta.Delta{
		Type: delta.Updated, Object: pod(name, uid, version), Old: pod(name, uid, version-1),
	}}
}

func deleted(name, uid string, version int) rule.Match {
	return rule.Match{Delta: delta.Delta{
		Type: delta.Deleted, Object: pod(name, uid, version), Old: pod(name, uid, version-1),
	}}
}

func synced(name, uid string, version int, round int64) rule.Match {
	return rule.Match{Delta: delta.Delta{Type: delta.Synced, Object: pod(name, uid, version), Round: round}}
}

// recorder is a handler that records its events, and answers as answer says, if set.
type recorder struct {
	mu     sync.Mutex
	events []handler.Event
	answer func(ctx context.Context, ev handler.Event) error
}

func (r *recorder) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	r.mu.Lock()
	r.events = append(r.events, ev)
	r.mu.Unlock()
	if r.answer == nil {
		return handler.Answer{}, nil
	}
	return handler.Answer{}, r.answer(ctx, ev)
}

// ids returns the events' ids in the order in which they came. The attempt follows if it is not the
// first.
func (r *recorder) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, ev := range r.events {
		id := ev.ID
		if ev.Attempt > 1 {
			id += fmt.Sprintf(" #%d", ev.Attempt)
		}
		ids = append(ids, id)
	}
	return ids
}

// start runs d until the test ends or stop is called. stop returns when Run has.
func start(t *testing.T, d *Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // Run returns once
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// pass lets the time d pass, and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// letters returns the ids and reasons of the dead letters.
func letters(d interface{ List() []delivery.Letter }) []string {
	var out []string
	for _, l := range d.List() {
		out = append(out, l.ID+": "+l.Reason)
	}
	return out
}

// record is a delivery as a lane's store holds it.
type record = queue.Record[delivery.Delivery]

// preparer is a Preparer whose functions may be nil.
type preparer struct {
	decide, renew func(delta.Delta) (m rule.Match, ok bool)
	remerge       func(delta.Delta) (json.RawMessage, error)
	attach        func(delta.Delta) (map[string][]json.RawMessage, error)
	actions       func(context.Context, delta.Delta) ([]handler.Action, error)
	secret        func() bool
}

// lane returns o with p as the Preparer.
func (p preparer) lane(o LaneOptions) LaneOptions {
	o.Preparer, o.ReadsChange, o.Attaches, o.ActsItself = p, p.remerge != nil, p.attach != nil, p.actions != nil
	return o
}

func (p preparer) IsConfidential() bool { return p.secret != nil && p.secret() }

func (p preparer) Prepare(ctx context.Context, d delivery.Draft) (out delivery.Prepared, err error) {
	m, ok := rule.Match{Delta: d.Delta, Payload: d.Payload}, true
	if d.Undecided {
		if m, ok = p.decide(d.Delta); !ok {
			return delivery.Prepared{Nothing: true}, nil
		}
	}
	switch {
	case d.Renew && p.renew != nil:
		if m, ok = p.renew(m.Delta); !ok {
			return delivery.Prepared{Nothing: true}, nil
		}
	case d.Stale && p.remerge != nil:
		if payload, err := p.remerge(m.Delta); err == nil {
			m.Payload = payload
		}
	}
	out = delivery.Prepared{Delta: m.Delta, Payload: m.Payload}
	if p.actions != nil {
		actions, err := p.actions(ctx, m.Delta)
		out.Acts = actsOf(actions...)
		return out, err
	}
	if p.attach != nil {
		if out.Attached, err = p.attach(m.Delta); err != nil {
			err = handler.Reject(err)
		}
	}
	return out, err
}

// actsOf returns own actions that are kept.
func actsOf(actions ...handler.Action) *delivery.Acts {
	if len(actions) == 0 {
		return nil
	}
	return &delivery.Acts{Pieces: []delivery.Piece{{Label: "actions[0]", Actions: actions}}}
}

// results collects the attempts that a Dispatcher reports.
type results struct {
	mu  sync.Mutex
	all []Attempt
}

func (r *results) add(a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, a)
}

// of returns the results of the attempts.
func (r *results) of() (all []Result) {
	for _, a := range r.list() {
		all = append(all, a.Result)
	}
	return all
}

func (r *results) list() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// actor is an Actor whose functions may be nil.
type actor struct {
	check func(ev *handler.Event, actions []handler.Action) error
	do    func(ctx context.Context, ev *handler.Event, actions []handler.Action) error
	delay func(ev *handler.Event) time.Duration
}

func (a *actor) Check(ev *handler.Event, actions []handler.Action) error {
	if a.check == nil {
		return nil
	}
	return a.check(ev, actions)
}

func (a *actor) Do(ctx context.Context, ev *handler.Event, actions []handler.Action) error {
	if a.do == nil {
		return nil
	}
	return a.do(ctx, ev, actions)
}

func (a *actor) Perform(ctx context.Context, p Performance) (trail.Verdict, error) {
	return 0, a.Do(ctx, p.Event, p.Acts.Actions())
}

func (a *actor) Delay(_ context.Context, ev *handler.Event) time.Duration {
	if a.delay == nil {
		return 0
	}
	return a.delay(ev)
}
