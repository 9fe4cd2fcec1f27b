// Package control is how informd's commands talk to the running daemon: HTTP/1.1 with JSON over a unix socket that its
// user alone may open. [Server] is the daemon's end, [Client] the commands'. What the daemon has to say comes from a
// [Backend]; the package knows no engine, no cluster and no terminal.
//
// The server answers one request per connection and 32 connections at a time; the next wait. Answers that grow with the
// cluster are streamed, a line of JSON each, and hold no more text in the daemon than 64 KiB and one object; one that is not
// read for five minutes is broken off. The paths carry a version, which is for commands and daemons that are updated one after
// the other: programs use the commands' -o json.
//
// What Secrets hold is masked by the server, unless a request asks for it by name: it does not leave the daemon.
package control

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// ErrNotFound is what a Backend's errors wrap when there is nothing of that name.
var ErrNotFound = errors.New("not found")

// Backend is the daemon that is asked. Its methods are called concurrently.
type Backend interface {
	// Status is cheap.
	Status() Status
	// Objects has those of a source's objects that a query asks for, by their keys. The source is one of Status's, and so
	// is the index if there is one.
	Objects(Query) (Selection, error)
	// Letters has the dead letters, the oldest first, without their events.
	Letters() ([]Letter, error)
	// Letter has one with its event.
	Letter(id string) (Letter, error)
	// RetryLetter has a dead letter delivered again.
	RetryLetter(id string) error
	// DropLetter forgets a dead letter.
	DropLetter(id string) error
	// SetPaused has the deliveries of a rule wait, or no longer.
	SetPaused(rule string, paused bool) error
	// ReloadHandler has another process, started as the manifests say by now, take the place of a handler's. It may take
	// minutes; the end of ctx calls it off as long as that is possible. An error changes nothing; an *Error is told as it is.
	ReloadHandler(ctx context.Context, name string) (Reloaded, error)
}

// OwnActions is the name of a letter's Handler if the rule acts by itself.
const OwnActions = "(actions)"

// Running is the State of a Handler that takes events.
const Running = "running"

// Status is how the daemon stands.
type Status struct {
	Version     string    `json:"version"`
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	Sources     []Source  `json:"sources"`
	Rules       []Rule    `json:"rules"`
	Handlers    []Handler `json:"handlers"`
	DeadLetters int       `json:"deadLetters"`
	Store       *Store    `json:"store,omitempty"` // nil: no state is kept
}

// Source is how a source stands.
type Source struct {
	Name            string   `json:"name"`
	Resource        string   `json:"resource"` // VERSION/RESOURCE or GROUP/VERSION/RESOURCE
	State           string   `json:"state"`
	Reason          string   `json:"reason,omitempty"`
	Ready           bool     `json:"ready"`
	Objects         int      `json:"objects"`
	ResourceVersion string   `json:"resourceVersion,omitempty"` // empty if nothing was listed, or there are several informers
	Lag             int      `json:"lag"`                       // changes taken in and not evaluated
	Unreadable      uint64   `json:"unreadable"`                // objects left out
	IndexErrors     uint64   `json:"indexErrors"`
	Indexes         []string `json:"indexes,omitempty"`
}

// Rule is how a rule stands.
type Rule struct {
	Name          string  `json:"name"`
	Handler       string  `json:"handler"`
	Matches       uint64  `json:"matches"` // changes that it selected
	Waiting       int     `json:"waiting"` // deliveries, in memory or away
	Away          int     `json:"away"`    // those of them that are on disk alone
	OldestSeconds float64 `json:"oldestSeconds"`
	Dead          int     `json:"dead"`
	Errors        uint64  `json:"errors"` // changes on which an expression failed
	Shortened     uint64  `json:"shortened"`
	Dropped       uint64  `json:"dropped"`
	Paused        bool    `json:"paused"`
	Reason        string  `json:"reason,omitempty"`  // what it waits for, or misses, of the sources that it looks into; or how it is slowed
	Failure       string  `json:"failure,omitempty"` // of the delivery that failed last, as long as one waits to be tried again
}

// Handler is how a handler stands.
type Handler struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitempty"` // of that state; of one that is running, what it says of its health
	Since     time.Time `json:"since,omitzero"`   // when it came to be in it
	Restarts  int       `json:"restarts"`
	InFlight  int       `json:"inFlight"`
	PID       int       `json:"pid,omitempty"`
	Program   string    `json:"program,omitempty"`  // what it calls itself, and its version
	Confined  string    `json:"confined,omitempty"` // what is enforced, and by what
	Failures  int       `json:"failures"`           // that it has not made good for by running
	Next      time.Time `json:"next,omitzero"`      // when it is launched again
	Reloading time.Time `json:"reloading,omitzero"` // since when a reload is under way
	LastLog   []string  `json:"lastLog,omitempty"`  // last lines of standard error of the last process that failed

	Endpoints []Endpoint `json:"endpoints,omitempty"` // of a remote handler
}

// Endpoint is how one address of a remote handler stands.
type Endpoint struct {
	Address  string    `json:"address"` // and port
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"` // likewise
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"` // connections after the first
	InFlight int       `json:"inFlight"`
	Program  string    `json:"program,omitempty"`
	Failures int       `json:"failures"`
	Next     time.Time `json:"next,omitzero"` // when it is connected to again
}

// Reloaded is what came of a reload.
type Reloaded struct {
	PID   int      `json:"pid,omitempty"`   // of the new process
	Notes []string `json:"notes,omitempty"` // what it did not take up, and such
}

// Store is how what is kept on disk stands.
type Store struct {
	Directory      string    `json:"directory"`
	SizeBytes      int64     `json:"sizeBytes"`
	Unwritten      int       `json:"unwritten"` // records
	UnwrittenBytes int64     `json:"unwrittenBytes"`
	LastWrite      time.Time `json:"lastWrite,omitzero"`
	Durable        bool      `json:"durable"`
	Trouble        string    `json:"trouble,omitempty"`  // why it is not durable
	SetAside       []string  `json:"setAside,omitempty"` // states that could not be used
}

// Query asks for objects of a source. What is empty does not narrow it.
type Query struct {
	Source          string
	Namespace, Name string
	Selector        labels.Selector // nil: all
	Index, Value    string          // no Index: all
}

// Selection is what a Query found.
type Selection struct {
	Secret bool // these are Secrets
	// Kept are the paths that the cache keeps of each object, beside its identity. nil: whole objects.
	Kept    []string
	Objects []*object.Object // in order of their keys; whoever asked may change the slice
}

// Letter is a dead letter.
type Letter struct {
	ID        string         `json:"id"`
	Rule      string         `json:"rule"`
	Handler   string         `json:"handler"`
	Resource  string         `json:"resource,omitempty"` // empty if the rule is gone
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Attempts  int            `json:"attempts"`
	Since     time.Time      `json:"since"` // when the change was selected
	Died      time.Time      `json:"died"`
	Reason    string         `json:"reason"`          // what the handler said last
	Event     *handler.Event `json:"event,omitempty"` // as the handler saw it
	Secret    bool           `json:"-"`               // it is about a Secret, or nobody knows
	Quotes    bool           `json:"-"`               // its payload and its reason may have what other Secrets hold
}

// LetterChoice chooses dead letters, in exactly one of these ways.
type LetterChoice struct {
	IDs     []string `json:"ids,omitempty"`
	Rule    string   `json:"rule,omitempty"`
	Handler string   `json:"handler,omitempty"`
	All     bool     `json:"all,omitempty"`
}

// Outcome is what became of the letters that were chosen.
type Outcome struct {
	Done     int       `json:"done"`
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a letter to which nothing was done.
type Failure struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// Found is what the server says of a Query's objects before it sends them.
type Found struct {
	Resource string   `json:"resource"`
	State    string   `json:"state"` // of the source
	Reason   string   `json:"reason,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	Count    int      `json:"count"`
}

// Row is an object without what is in it.
type Row struct {
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Created         time.Time         `json:"created,omitzero"` // zero if it is not kept
	Labels          map[string]string `json:"labels,omitempty"`
}
