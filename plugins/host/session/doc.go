// Package session speaks the handler protocol with one process, or with one endpoint of a remote
// handler, from the first call to the last.
//
// [Begin] asks the handler to describe itself and to take its config. [Session.Open] opens the
// stream of deliveries. [Session.Deliver] then serves an outbox.Consumer until its context ends or
// a [Successor] takes over, and drains the handler; or until the handler fails.
//
// It guarantees that every call has a deadline, that every buffer has a bound, and that each event
// taken from the consumer has an outcome. Everything that the handler says is bounded and made fit
// for a log here.
//
// It does not know how the peer was started or reached ([Peer] says what it needs of it), and it
// does not restart anything.
package session
