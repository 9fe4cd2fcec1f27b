// Package action carries out in the cluster what handlers and rules ask for: apply, patch, create, delete, and Events about
// objects.
//
// A [Policy] says what a handler may do, and checks all of an answer before any of it is done. An [Executor] does it, in
// order, and stops at the first action that fails. It may be asked to do the same again, after a crash or a failure halfway,
// to no other effect:
//
//   - What an action changes it was computed from: a write carries the uid and the resourceVersion of what it changes,
//     those of the event for the event's own object, for others those that the Executor reads just before. What a create
//     finds that the same rule has created is done; an Event's name derives from the delivery.
//   - What is gone is done: a patch or a deletion of what no longer exists changes nothing, and is said to be so in the
//     audit.
//   - What another writer changed meanwhile is [ErrConflict]: the answer is no longer good, and the handler to be asked
//     again with the object as it is by then. Only an apply of the event's own object goes through at its third conflict
//     in a row, unless it asks for a version itself: it says nothing of what others own.
//   - Changes that the same rule made since count as the event's: an answer may change its object twice.
//
// An error that wraps handler.ErrReject is for good, ErrConflict drops the answer, anything else is worth another try with
// the same answer.
//
// [Writes] knows which versions of which objects informd wrote, for which rule and in consequence of which writes before
// it; [Breaker] slows down rules that chase each other through the cluster by it. Both live in memory only.
//
// The package holds and logs no content of objects: it reads back metadata alone. It knows nothing of rules, queues or
// configuration, and starts no goroutine.
package action
