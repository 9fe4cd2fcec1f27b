package delivery

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// Letter is a dead letter: an event that could not be delivered. It has many fields because it is
// the whole record of the event and of its end, which outlives the rule and the handler.
type Letter struct {
	ID            string // of the event
	Rule, Handler string
	Resource      handler.Resource // of the object
	Key           delta.Key
	Reason        string // why it could not be delivered, at most 1 KiB
	Attempts      int
	Since         time.Time // when the change was first offered
	Died          time.Time
	Delta         delta.Delta
	Payload       json.RawMessage // nil if the rule has none
	// Items are those of the Delivery, if IsGroup says that it was one of a group.
	Items   []Item
	IsGroup bool
	// Delivered is when the rule first delivered a later event of the object, since this start of
	// the program. It is zero if that did not happen. No record of a letter has it.
	Delivered time.Time
	// Confidential means that the payload and the handler's words may quote a Secret. Plain means
	// that Reason is informd's own words, which quote nothing. Both are decided when the letter is
	// made. The reason of a letter that is Confidential and not Plain is neither recorded nor
	// shown.
	Confidential, Plain bool
}

// Quotes reports whether Reason may quote a Secret.
func (l *Letter) Quotes() bool { return l.Confidential && !l.Plain }

// Secrets is the resource of Secrets, as letters and actions name it.
var Secrets = handler.Resource(object.Secrets)

// OfSecret reports whether the object is a Secret. Of such a letter nothing is recorded but who it
// is about.
func (l *Letter) OfSecret() bool {
	return l.Resource == Secrets
}

// Event returns the event as the handler saw it at the last attempt, without attachments.
func (l *Letter) Event() handler.Event {
	ev := Event(l.Delta, l.Payload, l.Rule, l.Resource, l.Attempts)
	if l.IsGroup {
		ev = Group(ev, l.Items, l.Rule, l.Resource)
	}
	return MadeBy(NameIn(l.ID), ev)
}
