package config

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The apiVersion of every manifest, and the kinds.
const (
	manifestVersion = "informd.dev/v1alpha1"

	kindSource  = "Source"
	kindHandler = "Handler"
	kindRule    = "Rule"
)

// Config is what a set of manifests says, in the order of the files, with every default filled in.
//
// A Config that comes with mistakes holds what could be read of every manifest whose kind is known, so that the
// expressions in it can be checked too: required fields may be zero, names empty or taken twice, and references may
// lead nowhere. All of that has been reported already. It must not be run.
type Config struct {
	Sources  []Source
	Handlers []Handler
	Rules    []Rule
}

// Source returns the first source of that name.
func (c *Config) Source(name string) (Source, bool) {
	i := slices.IndexFunc(c.Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return c.Sources[i], true
}

// Handler returns the first handler of that name.
func (c *Config) Handler(name string) (Handler, bool) {
	i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Name == name })
	if i < 0 {
		return Handler{}, false
	}
	return c.Handlers[i], true
}

// Source says what is watched.
type Source struct {
	Name          string
	At            Text // the name, where it is written
	Resource      schema.GroupVersionResource
	Namespaces    []string      // nil: all
	LabelSelector string        // canonical, so that equal selections compare equal; "": everything
	FieldSelector string        // likewise
	Resync        time.Duration // 0: never
	Keep          Keep
	Indexes       []Index // sorted by name
}

// Keep says how much of an object stays in the cache.
type Keep uint8

const (
	Whole  Keep = iota // all of it
	Needed             // only the paths that rules and indexes read
)

var keeps = []string{"whole", "needed"}

func (k Keep) String() string { return keeps[k] }

// Index is an expression-based IndexFunc: a string or a list of strings per object.
type Index struct {
	Name string
	Expr Text
}

// Handler says who is told. Exactly one of Builtin, Command and Remote is set.
type Handler struct {
	Name        string
	At          Text
	Builtin     string          // log, exec or webhook
	Command     []string        // a first element with a slash in it is relative to the manifest's folder and joined with it
	Remote      *Remote         // nil: it is started here
	SHA256      string          // of the binary, 64 hexadecimal digits in lower case; "": any
	Env         []string        // names of the daemon's environment variables to pass on
	Config      json.RawMessage // nil: none
	Concurrency int
	Timeout     time.Duration
	Retry       Retry
	User        string // a name, UID or UID:GID; "": the daemon's
	Limits      Limits
	Sandbox     *Sandbox // nil: none
	Read        []Text   // names of the sources that it may read
	Write       []Grant  // what it may change in the cluster; nil: nothing
}

// Grant allows changes of some objects of one resource.
type Grant struct {
	Resource    schema.GroupVersionResource
	Subresource string   // "" or status
	Verbs       []string // some of apply, patch, create, delete and event
	Namespaces  []string // nil: all, and objects that are in none
	Names       []string // patterns as path.Match takes them; nil: all
	At          Text     // the resource
}

// Remote says where a handler is that runs elsewhere: at each address of Host.
type Remote struct {
	Host       string // a name, or an address
	Port       uint16
	DNS        string // address and port of the server to ask for Host; "": the system's
	CA         string // files; a relative one is joined with the manifest's folder
	Cert       string
	Key        string
	ServerName string // what certificates have to be for
}

// Limits bound what a handler takes; a zero is no limit.
type Limits struct {
	Memory    int64 // bytes
	CPU       int64 // thousandths of a core
	Files     int   // open, per process
	Processes int   // and threads
}

// Sandbox says what of the file system and the network is left to a handler.
type Sandbox struct {
	Read, Write []string // clean; a relative path is joined with the manifest's folder
	Network     Network
}

// Network is what can be reached; the zero Network is nothing.
type Network struct {
	All   bool
	Ports []uint16
}

// Retry says how often and how soon a delivery is tried again.
type Retry struct {
	Attempts   int // 0: as long as it takes
	Backoff    time.Duration
	MaxBackoff time.Duration // at least Backoff
}

// Rule says which changes go to whom, or what is done about them.
type Rule struct {
	Name       string
	At         Text
	Source     string
	SourceAt   Text
	Handler    string // empty if there are Actions
	HandlerAt  Text
	Where      Text     // zero: every object
	When       Text     // zero: every change
	Events     []string // added, updated, deleted, synced, or some of them
	AllEvents  bool     // nothing is said of events, so that they are all
	Delivery   Delivery
	Resync     *time.Duration // nil: the source's
	Payload    *Value         // nil: the objects themselves; zero: mistaken
	Attach     []Attachment   // sorted by name
	Actions    []Action       // nil: it has a handler
	Prune      bool           // what was applied and is not any more is deleted
	OwnChanges bool           // changes that the rule itself made are delivered to it
}

// Attachment names objects that are sent along.
type Attachment struct {
	Name string
	Expr Text
}

// Delivery says what happens to changes of an object that wait.
type Delivery uint8

const (
	Latest Delivery = iota // they are merged into one
	Every                  // each is kept
)

var deliveries = []string{"latest", "every"}

func (d Delivery) String() string { return deliveries[d] }
