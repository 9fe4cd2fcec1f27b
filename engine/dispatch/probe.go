package dispatch

// probes chooses the deliveries that go to a handler while others seem to hang and take its places:
// see Recipient.Limit. The handler goes on as soon as it answers one of them. Objects that hang
// often come together, so the next in turn is a bad choice. The best choice is an object that
// became ready since the last probe. Without one, a probe takes any object that waits. Only a few
// probes do so: as long as nothing is answered, all of them may hang, and a new object would find
// no place.
//
// Dispatcher.mu guards probes.
type probes struct {
	fresh      *Lane // where something became ready since the last probe; nil: nowhere
	unanswered int   // probes since a delivery ended, with objects that had waited
}

// maxUnanswered bounds probes.unanswered.
const maxUnanswered = 4
