package action

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/plugins/handler"
)

// ErrConflict says that the cluster is no longer as it was when the answer was made: it is to be dropped, and the handler
// asked again with what is new.
var ErrConflict = errors.New("the cluster has changed since")

// By is on whose behalf actions are carried out.
type By struct {
	Rule    string
	Handler string // empty for a rule's own actions
}

// Options are what an Executor can do without.
type Options struct {
	// Logger has the audit: one line per action.
	Logger *slog.Logger
	// Observer is told of each action after it ended, concurrently. It must not block.
	Observer func(Done)
	// Writes is told of every change. nil: one of the Executor's own.
	Writes *Writes
}

// Result is what became of an action.
type Result string

// The results of an action.
const (
	Changed   Result = "done"      // the object was changed or deleted, or an Event recorded
	Unchanged Result = "unchanged" // it was already so
	Created   Result = "created"   // by an apply or create
	Gone      Result = "gone"      // there is nothing left to change
	Conflict  Result = "conflict"  // somebody else changed it meanwhile
	Denied    Result = "denied"    // the handler's Policy does not allow it
	Rejected  Result = "rejected"  // it can never be carried out
	Failed    Result = "failed"    // it is worth another try
)

// Done is an action that ended, well or not.
type Done struct {
	By
	Verb            string
	Resource        schema.GroupVersionResource
	Subresource     string
	Namespace, Name string
	Result          Result
	Code            int    // of the API server's last answer; 0 if there was none
	ResourceVersion string // that the action made
	Delivery        string // the event's id
	Attempt         int    // at the event
	Duration        time.Duration
}

// Executor carries out actions. It is safe for concurrent use.
type Executor struct {
	writes *Writes
}

// New makes an Executor. over has config's credentials: see rest.HTTPClientFor. Nothing is asked of the cluster before Do.
func New(config *rest.Config, over *http.Client, disco discovery.ServerResourcesInterfaceWithContext, o Options) (*Executor, error) {
	if o.Writes == nil {
		o.Writes = NewWrites()
	}
	return &Executor{writes: o.Writes}, nil
}

// Check is p.Check with a line in the audit for what is denied.
func (x *Executor) Check(p Policy, by By, ev *handler.Event, actions []handler.Action) error {
	return p.Check(ev, actions)
}

// Do carries out what the answer to ev asks for, in order, up to the first that fails. The actions have been checked. An
// error wrapping handler.ErrReject is for good; with one wrapping ErrConflict the answer is to be dropped; anything else is
// worth another try with the same actions, not before what handler.RetryDelay tells of it.
func (x *Executor) Do(ctx context.Context, by By, ev *handler.Event, actions []handler.Action) error {
	return errors.New("actions cannot be carried out yet")
}
