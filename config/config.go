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
	kindTest    = "Test"
)

// Config is what a set of manifests says, in the order of the files, with every default filled in.
//
// A Config that comes with mistakes has what could be read of every manifest of a known kind, so
// that its expressions can be checked too. Required fields may be zero, names empty or taken twice,
// and references may lead nowhere; Parse has reported all of that. Do not run such a Config.
type Config struct {
	Sources  []Source
	Handlers []Handler
	Rules    []Rule
	Tests    []Test
	// Definitions are the CustomResourceDefinitions that stand beside the manifests.
	Definitions []Definition
}

// Definition is a CustomResourceDefinition. Nobody has checked it.
type Definition struct {
	At   Text // its kind
	JSON json.RawMessage
}

// Source returns the first source with that name.
func (c *Config) Source(name string) (Source, bool) {
	i := slices.IndexFunc(c.Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return c.Sources[i], true
}

// Handler returns the first handler with that name.
func (c *Config) Handler(name string) (Handler, bool) {
	i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Name == name })
	if i < 0 {
		return Handler{}, false
	}
	return c.Handlers[i], true
}

// Source is a Source manifest: what to watch.
type Source struct {
	Name          string
	At            Text // the name, where the manifest has it
	Resource      schema.GroupVersionResource
	ResourceAt    Text
	Namespaces    []string      // nil: all
	LabelSelector string        // canonical, so that equal selections compare equal; "": everything
	FieldSelector string        // canonical, too
	FieldsAt      Text          // the field selector, where the manifest has it
	Resync        time.Duration // 0: never
	Keep          Keep
	Indexes       []Index  // sorted by name
	Metrics       []Metric // gauges
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

// Handler is a Handler manifest: who receives events. Exactly one of Builtin, Command and Remote is
// set. It has many fields because it mirrors the manifest's spec.
type Handler struct {
	Name        string
	At          Text
	Builtin     string          // log, exec or webhook
	Command     []string        // a first element with a slash is relative to the manifest's folder
	Remote      *Remote         // nil: informd starts the handler
	SHA256      string          // of the binary, 64 hexadecimal digits in lower case; "": any
	Env         []string        // names of the daemon's environment variables to pass on
	Config      json.RawMessage // nil: none
	ConfigAt    Place
	Concurrency int // 0: the handler's own default
	Timeout     time.Duration
	Retry       Retry
	LogLevel    string // debug, info, warn or error; "": informd's own
	User        string // a name, UID or UID:GID; "": the daemon's user
	Limits      Limits
	Sandbox     *Sandbox // nil: none
	Read        []Text   // names of the sources that the handler may read
	Write       []Grant  // what the handler may change in the cluster; nil: nothing
}

// Grant allows changes of some objects of one resource.
type Grant struct {
	Resource    schema.GroupVersionResource
	Subresource string   // "" or status
	Verbs       []string // some of apply, patch, create, delete and event
	Namespaces  []string // nil: all, and objects without a namespace
	Names       []string // patterns as path.Match takes them; nil: all
	At          Text     // the resource
}

// Remote is where a handler runs that informd does not start: at each address of Host.
type Remote struct {
	Host       string // a name, or an address
	Port       uint16
	DNS        string // address and port of the DNS server that resolves Host; "": the system's
	CA         string // files; a relative path is joined with the manifest's folder
	Cert       string
	Key        string
	ServerName string // the name that certificates must have
}

// Limits bound what a handler takes. Zero is no limit.
type Limits struct {
	Memory    int64 // bytes
	CPU       int64 // thousandths of a core
	Files     int   // open, per process
	Processes int   // and threads
}

// Sandbox is what a handler can reach of the file system and the network.
type Sandbox struct {
	Read, Write []string // clean; a relative path is joined with the manifest's folder
	Network     Network
}

// Network is what a handler can reach. The zero Network is nothing.
type Network struct {
	All   bool
	Ports []uint16
}

// Retry says how often and how soon to try a delivery again.
type Retry struct {
	Attempts   int // 0: without end
	Backoff    time.Duration
	MaxBackoff time.Duration // at least Backoff
}

// Rule is a Rule manifest: which changes go to a handler, or what to do about them. It has many
// fields because it mirrors the manifest's spec. A new field is part of the digests of plan.Rule: see
// digestOfEvents there.
type Rule struct {
	Name       string
	At         Text
	Formerly   string // the name that the rule had; empty if it has not been renamed
	FormerlyAt Text
	Source     string // empty if the rule has only a Schedule: one event per moment
	SourceAt   Text
	Handler    string // empty if the rule has Actions or Metrics
	HandlerAt  Text
	Where      Text          // zero: every object
	For        time.Duration // how long where has to hold; 0: not at all
	Due        Text          // from which time on an object is a member; zero: at once
	When       Text          // zero: every change
	Events     []string      // added, updated, deleted, synced, or some of them
	AllEvents  bool          // the manifest has no events, so all are selected
	Count      *Count        // nil: each change goes on
	Delivery   Delivery
	Group      *Group         // nil: each change is an event of its own
	Resync     *time.Duration // nil: the source's
	Schedule   *Schedule      // nil: none
	Payload    *Value         // nil: the rule sends objects; zero: mistaken
	Attach     []Attachment   // sorted by name
	Actions    []Action       // nil: the rule has a handler, or only Metrics
	Metrics    []Metric
	Prune      bool // delete what the rule applied and no longer applies
	OwnChanges bool // deliver changes that the rule itself made
}

// Count says which of a rule's changes go on: the last of Times within Within.
type Count struct {
	Times  int
	Within time.Duration
	By     Text // what is counted apart; zero: the object
	At     Text // when a change happened; zero: when informd evaluates it
}

// Schedule says when a rule receives all members.
type Schedule struct {
	Cron []Text // cron expressions, or @start
	Zone Text   // of the IANA time zone database; zero: UTC
	// SkipsMissed says that moments are left out that come while informd does not run.
	SkipsMissed bool
}

// Group says which changes come as one event, and how often.
type Group struct {
	By    Text          // what they have in common; zero: the object
	Wait  time.Duration // from the first change to the event
	Every time.Duration // between two events, at least
}

// Attachment is a name for objects that a rule sends along.
type Attachment struct {
	Name string
	Expr Text
}

// Delivery says what happens to an object's changes that wait.
type Delivery uint8

const (
	Latest Delivery = iota // they merge into one
	Every                  // each of them stays
)

var deliveries = []string{"latest", "every"}

func (d Delivery) String() string { return deliveries[d] }
