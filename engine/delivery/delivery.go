// Package delivery defines the record of an event on its way to a handler, and that of a dead
// letter. Package dispatch decides what becomes of them, package queue keeps deliveries in order,
// and package state writes both. The records are plain data: they know no lock, no clock and no
// handler.
package delivery

import (
	"encoding/json"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Delivery is one event on its way to a handler, with the counts of its attempts. It is a value: a
// copy may be changed, but nothing that it points to.
type Delivery struct {
	Delta   delta.Delta
	Payload json.RawMessage // nil if the rule has none
	// Items are the older changes of a group, oldest first. The Delivery itself is the newest.
	Items []Item
	// Answer holds the actions that are to be performed. nil means that the dispatcher has to ask
	// the handler. Acknowledged means that the rule's own actions follow.
	Answer *Answer
	// Rule is the name under which the rule made the event, if a dead letter is delivered again.
	// Otherwise it is empty: see [Former].
	Rule string

	Attempts int // how often this event was handed out
	Failures int // how often this event was answered with an error

	// Backoff and Losses survive merging, because a newer change heals neither the handler nor the
	// object.
	Backoff int // retries of the object in a row
	Losses  int // how often in a row the handler was lost with the object

	// The next four fields share a word: many deliveries may wait.

	// Stale means that Payload was made for another delta, and must be remade.
	Stale bool
	// Undecided means that the rule's when and payload have not been evaluated yet.
	Undecided bool

	// This field and the following ones are not recorded: a restart begins with the zero values.

	// Weighed means that the Actor has already decided on a delay before the first attempt.
	Weighed bool
	// Refusals counts how often in a row the actions were refused because they were made of an
	// older state.
	Refusals int32
	// Version names the change, as rule.Match does, until the lane knows who made it.
	Version string
	// Writes is how many writes of all rules had begun when the change came. One of them may have
	// made it.
	Writes uint64
	// Resync is the round of the newest resync that came while the delivery waited and left the
	// event what it is; 0 if none did. Own actions that are done are then done again.
	Resync int64
}

// Item is a change that comes along with a newer one of its group.
type Item struct {
	Delta   delta.Delta
	Payload json.RawMessage
	// Stale and Undecided mean what they do for a Delivery.
	Stale, Undecided bool
}

// Answer holds the actions of an answer, as JSON if they may be recorded, otherwise as they came.
// Instead of the answer of a handler, it may record own actions of a rule: see [Acts.Answer]. It is
// immutable.
type Answer struct {
	Text    json.RawMessage
	Actions []handler.Action // only if Text is nil
}

// Acknowledged is the answer of a handler that is done with the event, after the actions that it
// asked for.
var Acknowledged = &Answer{Text: json.RawMessage("[]")}

// IsAcknowledged reports whether the handler is done with the event. The receiver may be nil.
func (a *Answer) IsAcknowledged() bool {
	return a != nil && string(a.Text) == string(Acknowledged.Text)
}

// Read returns the actions.
func (a *Answer) Read() (actions []handler.Action, err error) {
	if a.Text == nil {
		return a.Actions, nil
	}
	if err := json.Unmarshal(a.Text, &actions); err != nil {
		return nil, err
	}
	restoreNil(actions)
	return actions, nil
}

// restoreNil restores the nil texts of actions, which were written as null.
func restoreNil(actions []handler.Action) {
	for i := range actions {
		for _, text := range []*json.RawMessage{&actions[i].Object, &actions[i].Patch} {
			if string(*text) == "null" {
				*text = nil
			}
		}
	}
}

// Record returns what may be written of the answer, or nil. The receiver may be nil.
func (a *Answer) Record() json.RawMessage {
	if a == nil {
		return nil
	}
	return a.Text
}

// Recorded returns the answer that Record wrote, or nil for nil.
func Recorded(text json.RawMessage) *Answer {
	if text == nil {
		return nil
	}
	return &Answer{Text: text}
}

// Draft is a delivery before an attempt.
type Draft struct {
	Delta   delta.Delta
	Payload json.RawMessage
	// Undecided and Stale are those of the Delivery.
	Undecided, Stale bool
	// Renew asks for the same change with the object as the cache has it now. The dispatcher sets
	// it when the actions were refused twice in a row as made of an older state, and no newer
	// change waits.
	Renew bool
	// Items are the older changes of a group. Nothing is prepared of them here.
	Items []Item
	// IsItem asks for nothing but the decision and the payload: the draft is one of many.
	IsItem bool
	// Acknowledged asks for the own actions of a rule whose handler is done with the event.
	Acknowledged bool
}

// Prepared is what an attempt delivers.
type Prepared struct {
	// Nothing means that nothing is left to deliver. The other fields are then meaningless.
	Nothing bool
	Delta   delta.Delta
	Payload json.RawMessage
	// Count is what the event counts for, if that has just been decided. Even an event that cannot
	// be delivered may have one.
	Count *count.Hit
	// Attached goes along with the event. It is neither kept nor recorded.
	Attached map[string][]json.RawMessage
	// Acts are the rule's own actions. If it has a handler too, they are made once that has
	// acknowledged the event.
	Acts *Acts
}
