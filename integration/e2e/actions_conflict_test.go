package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

func TestConflictOverTheEventsObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		action func(x *executor) handler.Action
		done   bool // the third attempt ignores the version
	}{
		{"merge patch", func(x *executor) handler.Action { return x.on(handler.ActionPatch, "a", merge(`{"data":{"b":"2"}}`)) }, false},
		{"JSON patch", func(x *executor) handler.Action {
			return x.on(handler.ActionPatch, "a", operations(`[{"op":"add","path":"/data/b","value":"2"}]`))
		}, false},
		{"JSON patch that does not fit any more", func(x *executor) handler.Action {
			return x.on(handler.ActionPatch, "a", operations(`[{"op":"test","path":"/data/a","value":"1"}]`))
		}, false},
		{"delete", func(x *executor) handler.Action { return x.on(handler.ActionDelete, "a") }, false},
		{"apply", func(x *executor) handler.Action {
			return x.on(handler.ActionApply, "a", withObject(`{"data":{"b":"2"}}`))
		}, true},
		{"patch that asks for a version", func(x *executor) handler.Action {
			return x.on(handler.ActionPatch, "a", merge(`{"data":{"b":"2"}}`), at(x.configMap("a").ResourceVersion))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newExecutor(t)
			x.made("a")
			ev, do := x.about("a", handler.Updated), list(c.action(x))
			x.touch("a", `{"data":{"a":"theirs"}}`)
			x.does(ev, do, action.ErrConflict, action.Conflict)
			x.does(ev, do, action.ErrConflict, action.Conflict)
			if m := x.configMap("a"); m == nil || m.Data["b"] != "" {
				t.Fatalf("in spite of conflicts the object became %v", m)
			}
			if c.done {
				x.does(ev, do, nil, action.Changed)
			} else {
				x.does(ev, do, action.ErrConflict, action.Conflict)
			}
			// An answer to the object's current state is performed.
			x.does(x.about("a", handler.Updated), list(x.on(handler.ActionPatch, "a", merge(`{"data":{"c":"3"}}`))), nil, action.Changed)
		})
	}
}

func TestOthersThatChangeAreReadAgain(t *testing.T) {
	t.Parallel()
	// Another client changes the object after each time that the executor reads it.
	var x *executor
	turns := 0
	var mu sync.Mutex
	config := cluster.Shared(t).RESTConfig()
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := to.RoundTrip(r)
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps/other") && turns > 0 {
				turns--
				x.touch("other", `{"data":{"theirs":"`+strings.Repeat("x", turns)+`"}}`)
			}
			return resp, err
		})
	})
	x = newExecutorAs(t, config)
	x.made("source")
	x.made("other")
	ev := x.about("source", handler.Added)
	turns = 3
	x.does(ev, list(x.on(handler.ActionPatch, "other", merge(`{"data":{"b":"2"}}`))), nil, action.Changed)
	if !x.wrote("other", x.configMap("other").ResourceVersion) {
		t.Error("the change is not known as the rule's own")
	}
	turns = 100
	x.does(ev, list(x.on(handler.ActionPatch, "other", merge(`{"data":{"b":"3"}}`))), action.ErrConflict, action.Conflict)
	turns = 0
	x.does(ev, list(x.on(handler.ActionDelete, "other")), nil, action.Changed)
}

// If another client creates an object just before an apply would, the object counts as that
// client's.
func TestObjectCreatedByAnotherClient(t *testing.T) {
	t.Parallel()
	var x *executor
	config := cluster.Shared(t).RESTConfig()
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := to.RoundTrip(r)
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps/new") {
				x.made("new")
			}
			return resp, err
		})
	})
	x = newExecutorAs(t, config)
	x.made("source")
	x.does(x.about("source", handler.Added), list(x.on(handler.ActionApply, "new", withObject(`{}`))), nil, action.Changed)
	if x.wrote("new", x.configMap("new").ResourceVersion) {
		t.Error("somebody else's creation is taken for the rule's own")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDeletingAGoneObjectSucceeds(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("a")
	x.made("source")
	ev, patched := x.about("a", handler.Updated), merge(`{"data":{"b":"2"}}`)
	x.remove("a")
	own := list(
		x.on(handler.ActionPatch, "a", patched), x.on(handler.ActionPatch, "a", operations(`[{"op":"remove","path":"/data"}]`)),
		x.on(handler.ActionApply, "a", withObject(`{"data":{"b":"2"}}`)), x.on(handler.ActionDelete, "a"),
	)
	x.does(ev, own, nil, action.Gone, action.Gone, action.Gone, action.Gone)
	x.made("a") // another object of the same name
	x.does(ev, own, nil, action.Gone, action.Gone, action.Gone, action.Gone)
	if m := x.configMap("a"); m == nil || m.Data["b"] != "" {
		t.Errorf("another object of the name was changed: %v", m)
	}
	source := x.about("source", handler.Updated)
	withUID := func(a *handler.Action) { a.UID = ev.UID }
	x.does(source, list(
		x.on(handler.ActionPatch, "never-there", patched), x.on(handler.ActionDelete, "never-there"),
		x.on(handler.ActionPatch, "a", patched, withUID), x.on(handler.ActionApply, "a", withObject(`{}`), withUID),
		x.on(handler.ActionDelete, "a", withUID),
	), nil, action.Gone, action.Gone, action.Gone, action.Gone, action.Gone)

	// A handler that receives a deletion may create the object again, and then change it.
	x.remove("a")
	ev.Event = handler.Deleted
	x.does(ev, list(
		x.on(handler.ActionApply, "a", withObject(`{"data":{"b":"2"}}`)), x.on(handler.ActionPatch, "a", merge(`{"data":{"c":"3"}}`)),
	), nil, action.Created, action.Changed)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	x.made("theirs")
	ev := x.about("source", handler.Added)
	create := list(x.on(handler.ActionCreate, "made", withObject(`{"data":{"x":"1"}}`)))
	x.does(ev, create, nil, action.Created)
	if !x.wrote("made", x.configMap("made").ResourceVersion) {
		t.Error("a creation is not known as the rule's own")
	}
	x.does(ev, create, nil, action.Unchanged)
	x.touch("made", `{"data":{"x":"theirs"}}`)
	x.does(ev, create, nil, action.Unchanged)
	x.does(ev, list(x.on(handler.ActionCreate, "theirs", withObject(`{}`))), handler.ErrReject, action.Rejected)

	// An object that is being deleted makes room in the end.
	x.made("going", "informd.dev/test")
	x.remove("going")
	again := list(x.on(handler.ActionDelete, "going"), x.on(handler.ActionCreate, "going", withObject(`{"data":{"x":"1"}}`)))
	if err := x.Do(t.Context(), x.by, ev, again); err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("while one of the name is being deleted: %v", err)
	}
	x.touch("going", `{"metadata":{"finalizers":null}}`)
	x.does(ev, again, nil, action.Gone, action.Created)

	// An object that another rule created is not this rule's.
	x.by.Rule = "other"
	x.does(ev, create, handler.ErrReject, action.Rejected)
}

// A request whose response is lost is repeated, and takes effect once.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	lose := false
	config := cluster.Shared(t).RESTConfig()
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := to.RoundTrip(r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && lose && r.Method != http.MethodGet {
				lose = false
				_ = resp.Body.Close()
				return nil, context.DeadlineExceeded
			}
			return resp, err
		})
	})
	x := newExecutorAs(t, config)
	x.made("source")
	x.made("other")
	ev := x.about("source", handler.Added)
	for _, a := range []struct {
		handler.Action
		then action.Result
	}{
		{x.on(handler.ActionCreate, "c", withObject(`{}`)), action.Unchanged},
		{x.on(handler.ActionApply, "d", withObject(`{}`)), action.Unchanged},
		{x.on(handler.ActionPatch, "other", merge(`{"data":{"b":"2"}}`)), action.Unchanged},
		{x.on(handler.ActionDelete, "other"), action.Gone},
		{x.on(handler.ActionEvent, "source", func(a *handler.Action) { a.Reason = "Seen" }), action.Unchanged},
	} {
		lose = true
		x.does(ev, list(a.Action), context.DeadlineExceeded, action.Failed)
		x.does(ev, list(a.Action), nil, a.then)
	}
	// The event's object has changed since the event, so the handler gets it again.
	lose = true
	patch := list(x.on(handler.ActionPatch, "source", operations(`[{"op":"add","path":"/data/n","value":"1"}]`)))
	x.does(ev, patch, context.DeadlineExceeded, action.Failed)
	x.does(ev, patch, action.ErrConflict, action.Conflict)
}
