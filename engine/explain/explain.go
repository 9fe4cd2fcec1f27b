// Package explain says why a rule does, or does not, deliver anything about an object. It follows
// the stages of a change: the source's selection, where, time, when, count and group. Whatever it
// says about them comes from the same code that decides in the daemon; it only adds the values of
// the parts of expressions.
//
// It is pure: it knows an object, what the rule remembers of it, and the time. The engine adds what
// became of the last changes and deliveries. A command on files has no more than the object.
package explain

import (
	"time"

	"github.com/informd/informd/engine/trail"
)

// Standing is how an object relates to a rule.
type Standing string

// The standings.
const (
	Unknown    Standing = "unknown"    // the source has not seen it yet, or its resource is not served
	Absent     Standing = "absent"     // the source has no such object
	Unselected Standing = "unselected" // the source does not select the object
	Outside    Standing = "outside"    // where is false, or due is nil
	Waiting    Standing = "waiting"    // it will be a member in time
	Member     Standing = "member"
)

// Explanation is the answer to the question why a rule did not fire, or why it did. It is a flat
// report, whose JSON users see: the members of Stages and Daemon stand among the others. Its parts
// hide the values of Secrets, unless the caller wants to see them.
type Explanation struct {
	Answer   string    `json:"answer"` // in one or two sentences
	Rule     string    `json:"rule"`
	Handler  string    `json:"handler"`
	Object   string    `json:"object"`   // NAMESPACE/NAME, or NAME
	Standing Standing  `json:"standing"` // how the object relates to the rule
	Time     time.Time `json:"time"`     // of the answer
	// ResourceVersion is that of the object which the answer is about.
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// State and Reason are those of the rule, as informd status shows them; empty without a daemon.
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"`

	Stages
	Acts    *Acts      `json:"acts,omitempty"`    // what the rule's own actions made of it
	Changes []Happened `json:"changes,omitempty"` // the last ones of the object, the oldest first
	// Old says that an old state was given: the only one of Changes is an update, as the rule sees
	// it.
	Old bool `json:"old,omitempty"`

	Daemon

	uid string // of the object
	// seesAll says that the rule looks at each change that may make the object a member, or end
	// that.
	seesAll bool
}

// Stages are the stages of a change, in order, each with what it makes of the object. The rule does
// not have the stages that are nil.
type Stages struct {
	Source Source   `json:"source"`
	Where  *Part    `json:"where,omitempty"`
	Timing *Timing  `json:"timing,omitempty"`
	Events []string `json:"events"` // the types of changes that the rule selects
	When   *When    `json:"when,omitempty"`
	Count  *Count   `json:"count,omitempty"`
	Group  *Group   `json:"group,omitempty"`
}

// Daemon is what only a daemon knows: what became of the object's changes, and what the rule does
// next.
type Daemon struct {
	// Misfits are what plan.Misfits finds in the rule, each with its place.
	Misfits     []string   `json:"misfits,omitempty"`
	Delivery    *Delivery  `json:"delivery,omitempty"` // what waits or is in flight
	Attempts    []Happened `json:"attempts,omitempty"` // the last ones, the oldest first
	DeadLetters []Letter   `json:"deadLetters,omitempty"`
	Actions     []Action   `json:"actions,omitempty"` // what was done for the object, the oldest first
	// Targets are those of the rule's own actions for the object; nil if there are none.
	Targets *Targets `json:"targets,omitempty"`
	// Next is when the rule sees all its members next, by its schedule or its resync, or if it has
	// no source, the next moment of its schedule; zero if it never does. IsScheduled says that it
	// is a schedule.
	Next        time.Time `json:"next,omitzero"`
	IsScheduled bool      `json:"scheduled,omitempty"`
	// Since is from when on informd remembers all changes of the rule.
	Since time.Time `json:"since,omitzero"`
	// HasForgotten says that there were changes before Since which it has forgotten.
	HasForgotten bool `json:"forgotten,omitempty"`
	// ForgetsActions says that more was done for the last event than Actions has.
	ForgetsActions bool `json:"-"`
}

// Source says whether the rule's source has the object.
type Source struct {
	Name       string      `json:"name,omitempty"` // empty if the rule has none
	Resource   string      `json:"resource"`
	Selections []Selection `json:"selections"` // one per namespace that it watches
	Has        bool        `json:"has"`
}

// Selection is what a source watches.
type Selection struct {
	Namespace     string `json:"namespace,omitempty"` // empty: all
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// WhyNot says why it does not select the object, where that is known.
	WhyNot string `json:"whyNot,omitempty"`
}

// Timing says how time decides over a member.
type Timing struct {
	For   string    `json:"for,omitempty"`
	Due   *Part     `json:"due,omitempty"`
	Since time.Time `json:"since,omitzero"` // where has held from then on, if the object waits
	// At is when it becomes a member, if it waits; zero if that may quote a Secret.
	At time.Time `json:"at,omitzero"`

	isHidden bool // due may quote a Secret
}

// When says what when gave, or gives now, for a change.
type When struct {
	Text  string `json:"text"`
	Event string `json:"event"` // the type of the change
	// Part is nil if the values are not at hand, because informd keeps no old states.
	Part *Part `json:"part,omitempty"`
	// IsNow says that it is evaluated now, with what is looked up as it is now.
	IsNow bool `json:"now,omitempty"`
	// IsSkipped says that informd has not looked at the last change: when cannot be true of the
	// object as it is.
	IsSkipped bool `json:"skipped,omitempty"`
	// LooksUp says that it depends on what it looks up, which is not known without a daemon.
	LooksUp bool `json:"lookedUp,omitempty"`
}

// Count says how many changes count in the object's window.
type Count struct {
	Times  int    `json:"times"`
	Within string `json:"within"`
	By     string `json:"by,omitempty"`
	Have   int    `json:"have"` // as of now; -1 if it is not known
}

// Group says what waits for the event of the object's group.
type Group struct {
	By       string    `json:"by,omitempty"`
	Gathered int       `json:"gathered"`      // changes of the object
	Next     time.Time `json:"next,omitzero"` // when the next event comes, if any waits
}

// Happened is what became of a change or of an attempt at its delivery, and when.
type Happened struct {
	Time time.Time `json:"time"`
	Outcome
	ResourceVersion string `json:"resourceVersion"`
}

// Outcome is what became of a change or of an attempt at its delivery, as informd explain and
// informd events print it in JSON.
type Outcome struct {
	Event string `json:"event"` // the type of the change
	What  string `json:"what"`  // the name of a trail.Verdict
	ID    string `json:"id"`    // of the event, if the change is one
	// The following fields are those of an attempt. LatencySeconds is the time since the change was
	// selected.
	Attempt         int     `json:"attempt,omitempty"`
	DurationSeconds float64 `json:"durationSeconds,omitempty"`
	LatencySeconds  float64 `json:"latencySeconds,omitempty"`
}

// OutcomeOf returns what an entry in the trail of a rule says.
func OutcomeOf(rule string, e *trail.Entry) Outcome {
	return Outcome{
		Event: e.Type.String(), What: e.Verdict.String(), ID: e.ID(rule), Attempt: e.Attempt,
		DurationSeconds: e.Duration.Seconds(), LatencySeconds: e.Latency.Seconds(),
	}
}

// Delivery is what a rule has yet to deliver about the object. It has many fields because it is a
// flat report, whose JSON users see.
type Delivery struct {
	Handler  string    `json:"handler"`
	ID       string    `json:"id,omitempty"` // of the first event, if it is in memory
	Event    string    `json:"event,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it was selected
	InFlight bool      `json:"inFlight"`
	Attempts int       `json:"attempts"` // so far
	Failures int       `json:"failures"`
	Losses   int       `json:"losses,omitempty"`   // how often in a row the handler went away with it
	Refusals int       `json:"refusals,omitempty"` // how often in a row it was refused as outdated
	Retry    time.Time `json:"retry,omitzero"`     // when it is tried again
	// RetryOnChange says that a newer change of the object does not wait for Retry.
	RetryOnChange bool `json:"retryOnChange,omitempty"`

	Waiting int  `json:"waiting"` // events of the object that wait
	Paused  bool `json:"paused"`
	// Failure says why the last attempt failed, if that is known.
	Failure string `json:"failure,omitempty"`
	// Slowed says why informd holds it back, if it does.
	Slowed string `json:"slowed,omitempty"`
}

// Letter is a dead letter of the object.
type Letter struct {
	ID       string    `json:"id"`
	Died     time.Time `json:"died"`
	Attempts int       `json:"attempts"`
	Reason   string    `json:"reason,omitempty"`
}

// Action is a change of the cluster that was made for the object.
type Action struct {
	Time     time.Time `json:"time"`
	Verb     string    `json:"verb"`
	Resource string    `json:"resource"`
	Object   string    `json:"object"`
	Result   string    `json:"result"`
	ID       string    `json:"id"` // of the event
	Attempt  int       `json:"attempt,omitempty"`
	// Label is the action of the manifest that asked for it, as actions[0]; "" for a prune, and for
	// an action of the handler's answer.
	Label string `json:"label,omitempty"`
}
