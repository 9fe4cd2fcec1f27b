// Package control is how informd's commands talk to the running daemon: HTTP/1.1 with JSON over a
// unix socket that only the daemon's user can open. [Server] is the daemon's end, [Client] the
// commands' end. A [Backend] provides the answers: the package knows no engine, no cluster and no
// terminal.
//
// The server answers one request per connection and 32 connections at a time; further ones wait. It
// streams answers that grow with the cluster, one line of JSON for each item, and holds at most 64
// KiB and one object of their text in memory. It breaks an answer off that nobody reads for five
// minutes. The paths carry a version, because the command and the daemon may be updated one after
// the other. Programs should use the commands' -o json instead.
//
// A replica that follows passes requests on to the one that leads, over the replicas' own port, and
// passes the answer back as it comes. What a replica has been passed it never passes on.
//
// The server masks the values of Secrets, so that they do not leave the daemon, unless a request
// asks for them.
package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/nearest"
)

// ErrNotFound is wrapped by a Backend's errors if there is nothing of that name.
var ErrNotFound = errors.New("not found")

// Backend is the daemon. The server calls its methods concurrently. If an error is an *Error, the
// client gets it unchanged.
type Backend interface {
	// Status must be cheap.
	Status() Status
	// Objects returns the objects that a query asks for, in order of their keys. Status lists the
	// query's source, and the index if the query names one.
	Objects(Query) (Found, error)
	// Letters returns the dead letters, oldest first, without their events.
	Letters() ([]Letter, error)
	// Letter returns a dead letter with its event.
	Letter(id string) (Letter, error)
	// RetryLetter delivers a dead letter again.
	RetryLetter(id string) error
	// DropLetter drops a dead letter.
	DropLetter(id string) error
	// SetPaused pauses or resumes the deliveries of a rule.
	SetPaused(rule string, paused bool) error
	// Written returns when a crash can no longer undo what the calls before it have changed: the
	// disk has it. The error says why that is not so.
	Written(ctx context.Context) error
	// RetryRule tries now what waits for a retry of a rule, or of one object if object is not
	// empty. It returns the number of objects, or if none waits, a *NotWaitingError.
	RetryRule(rule, object string) (int, error)
	// Explain says why a rule does, or does not, deliver anything about an object. If a namespace is
	// missing, and several objects have the name, that is an *Error. Without showSecrets, the answer
	// has no values of Secrets.
	Explain(rule, namespace, name string, showSecrets bool) (explain.Explanation, error)
	// Events returns what has happened to changes and deliveries of a rule, or of all rules if its name
	// is empty: the newest, or if after is not 0, the first ones after that number.
	Events(rule string, after uint64) (Events, error)
	// Targets returns the targets of a rule's own actions, or those of all rules if its name is empty:
	// in order of the rules and of the objects of their sources.
	Targets(rule string) (iter.Seq[explain.Target], error)
	// Resync has a rule see all objects of its source as synced, and returns how many it selects.
	// It may take minutes. The end of ctx leaves out the rest.
	Resync(ctx context.Context, rule string) (int, error)
	// ReloadHandler replaces a handler's process by one that the current manifests describe. It may
	// take minutes. The end of ctx calls it off as long as that is possible. An error changes
	// nothing.
	ReloadHandler(ctx context.Context, name string) (Reloaded, error)
	// Reload reads the manifests again and takes up what has changed. It may take half a minute. An
	// error changes nothing.
	Reload(ctx context.Context) (ReloadedAll, error)
	// Plan returns what a reload would change if the manifests were these, or as they are now if
	// there are none.
	Plan(ctx context.Context, files []File) (Planned, error)
}

// The states of a rule.
const (
	RuleActive  = "active"
	RulePaused  = "paused"
	RuleWaiting = "waiting"
	RuleBlocked = "blocked"
)

// OnlyMetrics takes the place of the handler's name for a rule that has metrics and delivers nothing.
const OnlyMetrics = "(metrics)"

// OwnActions takes the place of the handler's name for a rule that performs its actions itself.
const OwnActions = "(actions)"

// Running is the State of a handler that takes events.
const Running = "running"

// Status is the state of the daemon.
type Status struct {
	Version     string          `json:"version"`
	PID         int             `json:"pid"`
	Replica     string          `json:"replica,omitempty"` // the name of the one that leads
	Started     time.Time       `json:"started"`
	Stopping    bool            `json:"stopping,omitempty"` // no delivery begins any more
	Sources     []SourceStatus  `json:"sources"`
	Rules       []RuleStatus    `json:"rules"`
	Handlers    []HandlerStatus `json:"handlers"`
	Metrics     []MetricStatus  `json:"metrics,omitempty"` // of manifests
	DeadLetters int             `json:"deadLetters"`
	Store       *StateStatus    `json:"store,omitempty"`  // nil without a state directory
	Reload      *LastReload     `json:"reload,omitempty"` // nil before the first
	Rights      *RightsStatus   `json:"rights,omitempty"` // nil before the API server has answered
	Asides      []AsideStatus   `json:"changesSetAside,omitempty"`
}

// AsideStatus is a change that informd does not evaluate, because it died of it.
type AsideStatus struct {
	Resource        string    `json:"resource"` // VERSION/RESOURCE or GROUP/VERSION/RESOURCE
	Object          string    `json:"object"`   // NAMESPACE/NAME or NAME
	ResourceVersion string    `json:"resourceVersion"`
	Deaths          int       `json:"deaths"` // how many times informd died
	Since           time.Time `json:"since"`
	Rules           []string  `json:"rules"` // that miss the change
}

// LastReload is the last reload of the manifests.
type LastReload struct {
	At      time.Time `json:"at"`
	Error   string    `json:"error,omitempty"`  // why it changed nothing; empty if it succeeded
	Report  string    `json:"report,omitempty"` // the mistakes
	Success time.Time `json:"success,omitzero"` // when one last succeeded
}

// ReloadedAll is the result of a reload of the manifests.
type ReloadedAll struct {
	Rules    Changes   `json:"rules"`
	Renamed  []Renamed `json:"renamed,omitempty"` // rules
	Handlers Changes   `json:"handlers"`
	Metrics  Changes   `json:"metrics"`           // those that changed start at 0
	Dropped  int       `json:"dropped,omitempty"` // events that waited for rules that are gone
	Notes    []string  `json:"notes,omitempty"`
}

// Renamed is a rule that keeps what it had under its former name.
type Renamed struct {
	Name   string `json:"name"`
	Former string `json:"formerly"`
}

// File is a file with manifests.
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// Planned is what a reload would change.
type Planned struct {
	Informers Changes       `json:"informers"` // selections; changed ones list again, to keep more
	Kept      int           `json:"kept"`      // informers that stay
	Rules     []PlannedRule `json:"rules"`
	Handlers  Changes       `json:"handlers"`
	Metrics   Changes       `json:"metrics"` // those that change start at 0
	// Problem says why a reload would be refused all the same; empty if it would not.
	Problem string `json:"problem,omitempty"`
	// Rights are those that the manifests would need and the daemon lacks.
	Rights *RightsStatus `json:"rights,omitempty"`
}

// PlannedRule is how a rule would change, and what it would receive, before its when and events.
type PlannedRule struct {
	Name    string `json:"name"`
	Former  string `json:"formerly,omitempty"` // the name that it has until now, if it is renamed
	Change  string `json:"change"`             // added, changed, replaced or gone
	In      int    `json:"in"`                 // objects that come or stay in, as synced
	Out     int    `json:"out"`                // objects that fall out, as deleted
	Pending int    `json:"pending,omitempty"`  // objects that begin to wait
	Lists   bool   `json:"lists,omitempty"`    // and what informers that are new list
	Dropped int    `json:"dropped,omitempty"`  // deliveries that wait
	Untold  bool   `json:"untold,omitempty"`   // it receives nothing of objects as they are
	Leaves  bool   `json:"leaves,omitempty"`   // it is gone, and what it has applied stays
	// Releases says that it no longer prunes, and what it has applied stays.
	Releases bool `json:"releases,omitempty"`
	// Does has what it would do by itself, and does not do yet: "deletes v1/pods", say.
	Does []string `json:"does,omitempty"`
	Text string   `json:"text"` // all of it in words
}

// Changes are names of what has changed.
type Changes struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Gone    []string `json:"gone,omitempty"`
}

// RightsStatus says which rights in the cluster the daemon lacks of those that its manifests need.
type RightsStatus struct {
	Asked   time.Time `json:"asked,omitzero"`    // when the API server said so
	Needed  int       `json:"needed"`            // rights: one verb each
	Missing int       `json:"missing"`           // how many of them the daemon lacks
	Lines   []string  `json:"lines,omitempty"`   // of Roles, all that grant what is missing
	Unknown string    `json:"unknown,omitempty"` // why the API server does not say, if it does not
}

// SourceStatus is the state of a source. Its many fields are the columns of informd status and its
// JSON.
type SourceStatus struct {
	Name     string `json:"name"`
	Resource string `json:"resource"` // VERSION/RESOURCE or GROUP/VERSION/RESOURCE
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	// Since is when the state began: a source that has synced follows the API server since then.
	Since   time.Time `json:"since"`
	Ready   bool      `json:"ready"`
	Objects int       `json:"objects"`
	// ResourceVersion is the one of the informer that is furthest behind. It is empty until each
	// informer has listed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Lag             int    `json:"lag"` // changes received and not evaluated
	// LastHeard is when the API server was last heard; nil if it was not.
	LastHeard   *time.Time `json:"lastHeard,omitempty"`
	Unreadable  uint64     `json:"unreadable"` // objects that were left out
	IndexErrors uint64     `json:"indexErrors"`
	Indexes     []string   `json:"indexes,omitempty"`
	// Misfits are what plan.Misfits finds in the source's indexes, each with its place.
	Misfits []string `json:"misfits,omitempty"`
}

// RuleStatus is the state of a rule. Its many fields are the columns of informd status and its
// JSON.
type RuleStatus struct {
	Name          string  `json:"name"`
	Former        string  `json:"formerly,omitempty"` // as its manifest says
	Source        string  `json:"source,omitempty"`   // empty if the rule has none
	Handler       string  `json:"handler"`
	Matches       uint64  `json:"matches"` // changes that the rule selected, without its own
	Waiting       int     `json:"waiting"` // deliveries that wait, in memory or on disk
	Away          int     `json:"away"`    // those of Waiting that are on disk only
	OldestSeconds float64 `json:"oldestSeconds"`
	Dead          int     `json:"dead"`
	// Healed are those of Dead after which the rule, which delivers the latest state only, has
	// delivered a later event of the object.
	Healed    int    `json:"healed,omitempty"`
	Errors    uint64 `json:"errors"` // changes on which an expression failed
	Shortened uint64 `json:"shortened"`
	Dropped   uint64 `json:"dropped"`
	// Acted is for how many events the rule performed actions of its own, and Idle for how many it had
	// none to perform.
	Acted uint64 `json:"acted"`
	Idle  uint64 `json:"idle"`
	// Targets has what came of the targets of the rule's own actions; nil if it has no such
	// actions.
	Targets *explain.Targets `json:"targets,omitempty"`
	// Pending is how many objects wait to become members by for or due, and NextDue when the first
	// of them does.
	Pending int       `json:"pending"`
	NextDue time.Time `json:"nextDue,omitzero"`
	// Gathered is how many changes wait for the event of their group, and NextEvent when the first
	// event comes.
	Gathered  int       `json:"gathered"`
	NextEvent time.Time `json:"nextEvent,omitzero"`
	// Windows is how many windows of the rule's count are open, with changes that count.
	Windows int `json:"windows"`
	// NextRound is when the rule receives all members again, by its schedule or its resync. For a
	// rule without a source, it is the next moment of its schedule.
	NextRound time.Time `json:"nextRound,omitzero"`
	// Scheduled says that NextRound is a moment of the rule's schedule.
	Scheduled bool   `json:"scheduled,omitempty"`
	Paused    bool   `json:"paused"`
	State     string `json:"state"` // active, paused, waiting or blocked
	// Reason says why the rule is blocked or waits, which sources it misses, or why it is slowed.
	Reason string `json:"reason,omitempty"`
	// Failure is the last failure, while a delivery waits for a retry.
	Failure string `json:"failure,omitempty"`
	// LastError is the last of Errors.
	LastError *ExpressionError `json:"lastError,omitempty"`
	// Misfits are what the cluster's schemas rule out in the rule's expressions and actions, each with
	// its place: a field that no object has, say.
	Misfits []string `json:"misfits,omitempty"`
}

// ExpressionError is a failed evaluation of an expression.
type ExpressionError struct {
	Reason string    `json:"reason"`
	Object string    `json:"object,omitempty"` // NAMESPACE/NAME, or NAME
	At     time.Time `json:"at"`
	// Fault says what it comes from: the expression, the object, a past state of it, a bound or
	// informd.
	Fault string `json:"fault,omitempty"`
	// Over says that the fault was the object's, and that it is gone or evaluates well by now.
	Over bool `json:"over,omitempty"`
}

// HandlerStatus is the state of a handler. Its many fields are the columns of informd status and
// its JSON.
type HandlerStatus struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"` // of the state
	Since    time.Time `json:"since,omitzero"`   // when it entered the state
	Restarts int       `json:"restarts"`
	InFlight int       `json:"inFlight"`
	PID      int       `json:"pid,omitempty"`
	Program  string    `json:"program,omitempty"`  // the name and version that it reports
	Confined string    `json:"confined,omitempty"` // what is enforced, and what enforces it
	Failures int       `json:"failures"`           // recent ones; decreases while it runs
	Next     time.Time `json:"next,omitzero"`      // when informd starts it again
	// Problem is what a running handler reports about its health, since ProblemAt.
	Problem   string    `json:"problem,omitempty"`
	ProblemAt time.Time `json:"problemAt,omitzero"`
	// LastFailure says why the last process that failed did so, at FailedAt, also while it runs
	// again.
	LastFailure string    `json:"lastFailure,omitempty"`
	FailedAt    time.Time `json:"failedAt,omitzero"`
	Reloading   time.Time `json:"reloading,omitzero"` // when a reload began that is under way
	LastLog     []string  `json:"lastLog,omitempty"`  // of the last failed process, on standard error
	Slow        int       `json:"slow"`               // events that take much longer than the others
	// Full: the handler has as many events as it may, has answered none for a second, and others
	// wait.
	Full bool `json:"full,omitempty"`
	// Longest are at most 10 of the slow events, and if Full of those that take the places: those
	// that the handler has had longest.
	Longest []WorkingStatus `json:"longest,omitempty"`

	Endpoints []EndpointStatus `json:"endpoints,omitempty"` // of a remote handler
}

// MetricStatus is the state of a metric of a manifest.
type MetricStatus struct {
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"` // whose metric it is,
	Rule    string `json:"rule,omitempty"`   // if it is not a rule's
	Counts  bool   `json:"counts,omitempty"` // a gauge that has not seen all objects: it is not shown
	Series  int    `json:"series"`
	Max     int    `json:"max"`     // as many series as it may have
	Hidden  int    `json:"hidden"`  // series of a gauge that are not shown, because there are more
	Dropped uint64 `json:"dropped"` // how often there was no room for another series
	Errors  uint64 `json:"errors"`  // how often an expression failed
	// LastError is the last of Errors.
	LastError *ExpressionError `json:"lastError,omitempty"`
}

// WorkingStatus is an event that a handler is working on.
type WorkingStatus struct {
	Rule   string    `json:"rule"`
	Object string    `json:"object"` // its resource, namespace and name
	Since  time.Time `json:"since"`  // when informd sent it
}

// EndpointStatus is the state of one address of a remote handler.
type EndpointStatus struct {
	Address  string    `json:"address"` // and port
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"` // for the state
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"` // connections after the first
	InFlight int       `json:"inFlight"`
	Program  string    `json:"program,omitempty"`
	Failures int       `json:"failures"`
	Next     time.Time `json:"next,omitzero"` // when informd connects to it again
}

// NotWaitingError says that nothing of an object waits for a retry of a rule.
type NotWaitingError struct {
	Rule, Object string
	Waiting      []string // the objects that do wait
}

// Error implements error.
func (e *NotWaitingError) Error() string {
	guess := ""
	if near := nearest.Name(e.Object, e.Waiting); near != "" {
		guess = "; did you mean " + near + "?"
	}
	there := "nothing does"
	if names := slices.Sorted(slices.Values(e.Waiting)); len(names) > 0 {
		there = "these do: " + strings.Join(names[:min(len(names), 10)], ", ")
		if len(names) > 10 {
			there += fmt.Sprintf(" and %d more", len(names)-10)
		}
	}
	return fmt.Sprintf("nothing of %.300q waits for a retry of rule %s%s (%s)",
		e.Object, e.Rule, guess, there)
}

// Events are what has happened lately to changes and deliveries, in order.
type Events struct {
	Started time.Time `json:"started"` // of the daemon: another one starts at 0
	Last    uint64    `json:"last"`    // the number to go on with
	Missed  bool      `json:"missed"`  // informd has forgotten some of those that were asked for
	Items   []Event   `json:"items"`
}

// Event is what has become of a change of an object for a rule, or of an attempt at its delivery. It
// holds nothing of the object's content.
type Event struct {
	Time    time.Time `json:"time"`
	Rule    string    `json:"rule"`
	Handler string    `json:"handler"`
	Object  string    `json:"object"` // NAMESPACE/NAME, or NAME
	explain.Outcome
	// Targets has what came by now of the targets of the rule's own actions, if this is the last
	// attempt of an event that waits for another one; otherwise it is nil.
	Targets *explain.Targets `json:"targets,omitempty"`
}

// Resynced is the result of a resync.
type Resynced struct {
	Selected int `json:"selected"`
}

// Retried is the result of a retry of what waits.
type Retried struct {
	Objects int `json:"objects"`
}

// Reloaded is the result of a reload.
type Reloaded struct {
	PID   int      `json:"pid,omitempty"`   // of the new process
	Notes []string `json:"notes,omitempty"` // what it did not apply, and other hints
}

// StateStatus is the state on disk.
type StateStatus struct {
	Directory      string    `json:"directory"`
	SizeBytes      int64     `json:"sizeBytes"`
	Unwritten      int       `json:"unwritten"` // records
	UnwrittenBytes int64     `json:"unwrittenBytes"`
	LastWrite      time.Time `json:"lastWrite,omitzero"`
	// Loading says that the saved state has not been read, because the API server has not identified
	// the cluster. What it holds is not counted yet.
	Loading  bool     `json:"loading,omitempty"`
	Durable  bool     `json:"durable"`
	Trouble  string   `json:"trouble,omitempty"`  // why it is not durable
	SetAside []string `json:"setAside,omitempty"` // folders with unusable states
}

// Query asks for objects of a source. An empty field does not narrow it.
type Query struct {
	Source          string
	Namespace, Name string
	Selector        labels.Selector // nil: all
	Index, Value    string          // no Index: all
}

// Found is what a Query found.
type Found struct {
	Secret bool // the objects are Secrets
	// Kept lists the fields that the cache keeps of each object, beside its identity. nil: whole
	// objects.
	Kept    []string
	Objects []*object.Object // in order of their keys; the caller may change the slice
}

// Letter is a dead letter. Its many fields are those of informd dead show and its JSON.
type Letter struct {
	ID        string         `json:"id"`
	Rule      string         `json:"rule"`
	Handler   string         `json:"handler"`
	Resource  string         `json:"resource"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Attempts  int            `json:"attempts"`
	Since     time.Time      `json:"since"` // when the change was selected
	Died      time.Time      `json:"died"`
	Reason    string         `json:"reason"`          // why the last attempt failed
	Event     *handler.Event `json:"event,omitempty"` // as the handler received it
	Secret    bool           `json:"-"`               // it is about a Secret
	// Delivered is when a later event of the object was delivered, since the daemon started.
	Delivered time.Time `json:"delivered,omitzero"`

	// Confidential letters may quote Secrets in the event's payload, and in Reason unless that is
	// Plain: informd's own words.
	Confidential bool `json:"-"`
	Plain        bool `json:"-"`
}

// LetterChoice chooses dead letters in exactly one of these ways.
type LetterChoice struct {
	IDs     []string `json:"ids,omitempty"`
	Rule    string   `json:"rule,omitempty"`
	Handler string   `json:"handler,omitempty"`
	All     bool     `json:"all,omitempty"`
}

// Outcome is the result for the letters of a LetterChoice.
type Outcome struct {
	Done     int             `json:"done"`
	Failures []LetterFailure `json:"failures,omitempty"`
	// Unwritten says why a crash would undo it; "" if it would not.
	Unwritten string `json:"unwritten,omitempty"`
}

// LetterFailure is a letter that could not be retried or dropped.
type LetterFailure struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// Header comes before the objects that a Query found.
type Header struct {
	Resource string   `json:"resource"`
	State    string   `json:"state"` // of the source
	Reason   string   `json:"reason,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	Count    int      `json:"count"`
}

// Row is an object without its content.
type Row struct {
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Created         time.Time         `json:"created,omitzero"` // zero if not cached
	Labels          map[string]string `json:"labels,omitempty"`
}
