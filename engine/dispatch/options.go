package dispatch

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/gather"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// Recipient is a handler with the limits that its operator set.
type Recipient struct {
	Name string
	// Handler is called in a goroutine of its own for each event, unless it is a Submitter.
	Handler handler.Handler
	// Ready blocks until the handler can take an event, or ctx ends. One goroutine calls it before
	// it takes each event. After an error, which it logs, it calls Ready again later. nil means
	// that the handler is always ready.
	Ready func(ctx context.Context) error
	// Concurrency bounds the deliveries at once if Limit is nil. 0 means 8.
	Concurrency int
	// Limit, if set, returns how many deliveries the handler takes at once; the number may change.
	// The rest stays in the lanes, where it is merged. If isProbe is true, deliveries that seem to
	// hang take all places except a few. In these the handler wants to see whether it answers
	// others. The dispatcher uses them as probe.go says.
	Limit func() (n int, isProbe bool)
	// Grown delivers a token when Limit has grown, other than by an answer. It may be nil.
	Grown <-chan struct{}
	Retry Retry
	// IsDry says that Handler only logs what it gets, in a dry run.
	IsDry bool
}

// Submitter is implemented by handlers that work elsewhere, and need no goroutine that waits for
// each answer.
type Submitter interface {
	// Submit does what Handle does, but returns at once. It calls answered once with what Handle
	// would return. It may do so from any goroutine, even before Submit returns; answered does not
	// block. Nobody changes ev. Submit must not panic.
	Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error))
}

// Options are optional settings of a Dispatcher.
type Options struct {
	Logger *slog.Logger
	// Attempted is called after each attempt, concurrently. It must not block.
	Attempted func(Attempt)
	// Actor performs the actions of answers. nil allows none: the dispatcher rejects an answer with
	// any.
	Actor Actor
	// ActsDry says that the rules' own actions are only logged, in a dry run.
	ActsDry bool
	// DrainTimeout is how long deliveries in flight may take when Run ends, before it cancels them.
	// 0 means 30 seconds.
	DrainTimeout time.Duration
	// Abort, when it is closed, cancels the deliveries in flight once Run ends, whatever
	// DrainTimeout says. nil never does.
	Abort <-chan struct{}
	// Journal makes the records of one change a unit. nil means that nothing is recorded.
	Journal Journal
	// Epoch goes with each event. It is zero if this informd never had replicas.
	Epoch handler.Epoch
	// Clock tells the time. nil means the real time.
	Clock clock.PassiveClock
	// AfterFunc calls a function once Clock has advanced by a time. It must not call it at once.
	// nil means time.AfterFunc.
	AfterFunc func(time.Duration, func()) queue.Timer
	// IsStepped makes a Dispatcher that Step drives in place of Run. Everything then happens in the
	// goroutine that calls, and the same calls have the same results: delays have no random part.
	IsStepped bool
}

// LaneOptions describe how a rule's events are delivered. They have many fields because every stage
// of a rule has its settings here.
type LaneOptions struct {
	// Every keeps each change, instead of merging those that wait for one object. MaxItems and
	// MaxBytes bound that; 0 means the defaults of package queue.
	Every    bool
	MaxItems int
	MaxBytes int64

	// Preparer completes deliveries. nil delivers matches as they were offered, and then none may
	// be Undecided.
	Preparer Preparer
	// ReadsChange means that the payload depends on more than the object's new state. The Preparer
	// then remakes the payload of a merged change, unless the result is just the newer change.
	ReadsChange bool
	// Attaches means that the rule attaches objects, so the Preparer completes each attempt.
	Attaches bool
	// ActsItself means that the Preparer makes the rule's own actions, and completes each attempt.
	// If the Recipient has a Handler, they follow once that has acknowledged the event and the
	// actions of its answer are performed.
	ActsItself bool
	// Actor performs the rule's own actions. nil means Options.Actor.
	Actor Actor
	// Account keeps account of the rule's own actions. It may be nil.
	Account Account
	// Acts means that answers to the rule's events may change the cluster, so the dispatcher asks
	// the Actor for a Delay. ActsItself implies it.
	Acts bool

	// Gathering makes one delivery of many changes. nil gathers none.
	Gathering *Gathering

	// Own recognizes changes that the rule made itself through the Actor. The lane drops those. If
	// nil, the lane delivers them.
	Own Own

	// Changes remembers the changes that the lane drops because the rule made them or because two
	// of them cancel each other out, and Attempts what became of each attempt. They may be nil.
	Changes, Attempts *trail.Trail
	// Matched is called for each decided match that is offered, once it is certain that the rule
	// does not drop the change as its own: before it is queued, or later with the queue locked. It
	// may be nil.
	Matched func(delta.Delta)

	// Count, if not nil, counts an event for which Prepared has a Count, and reports whether the
	// event goes on. It is called within the Journal's Begin and End.
	Count func(delta.Delta, count.Hit) (goesOn bool)

	// Store records what waits. Under Every it also holds what does not fit into memory. Errors of
	// its Load that wrap ErrNotYet do not count as failures. nil records nothing.
	Store queue.Store[delta.Key, delivery.Delivery]
	// Renamed records that the rule has another name than that of the lane before, and what it had:
	// see Succeed. It is called within the Journal's Begin and End. It may be nil.
	Renamed func(former []delivery.Former)
}

// Gathering are the LaneOptions of a rule whose changes come in groups. What is gathered has
// records of its own, apart from those of the lane's queue.
type Gathering struct {
	// By is the text that defines the groups. If it is the same for two Gatherings, their Of
	// returns the same.
	By string
	// Wait is the time from the first change of a group to its event, and Every the least time
	// between two events of a group.
	Wait, Every time.Duration
	// Of returns the group of a change that was recorded. It is called in a goroutine of its own.
	Of func(delta.Delta) rule.Group
	// Store records what is gathered. nil records nothing.
	Store queue.Store[delta.Key, delivery.Delivery]
	// Remember records the last event of a group, and Forget drops that record. They are called
	// between the Journal's Begin and End. nil records nothing.
	Remember func(rule.Group, gather.LastEvent)
	Forget   func(rule.Group)
	// Ends means that the rule no longer has groups: changes in the Store come as single events.
	// Changes that are offered before these are loaded come after them, and nothing else is
	// gathered.
	Ends bool

	maxGroups int // for tests: see gather.Bounds
}

// Gathered is what was recorded of a group's changes: see Lane.RestoreGathered.
type Gathered struct {
	Key         delta.Key
	First, Last uint64 // numbers
}
