// Package action changes the cluster as handlers and rules ask: apply, patch, create, delete, and
// Events about objects.
//
// A [Policy] says what a handler may do, and checks a whole answer before any of it is done. An
// [Executor] performs the actions in order. It stops at the first action of a handler that fails,
// and at the first step of a rule of which one action has failed. Repeating the actions after a
// crash or a failure has no further effect:
//
//   - A write carries the uid and the resourceVersion of the state it was computed from. For the
//     event's own object that is the event's state, for others a state that the Executor reads just
//     before. A create succeeds if the same rule created the object earlier. The name of an Event
//     derives from the delivery.
//   - What is gone is done: a patch or a deletion of an object that no longer exists changes
//     nothing, and the audit says so.
//   - If another writer changed the object meanwhile, the Executor returns [ErrConflict]. The
//     answer is outdated, and the handler must get the event again with the current object. Only an
//     apply of the event's own object goes through at its third conflict in a row, unless it names
//     a version. It says nothing about what others own.
//   - Changes that the same rule made since count as the event's: an answer may change its object
//     twice.
//
// An error that wraps handler.ErrReject is final. ErrConflict drops the answer. Any other error is
// worth another try with the same answer.
//
// [Writes] knows which versions of which objects informd wrote, for which rule and because of which
// earlier writes. With it, [Breaker] slows down rules that chase each other through the cluster.
// The state keeps the latest writes for the next process: see [Writes.Keep]. What the Breaker knows
// lives in memory only, and so does who undoes what a rule writes.
//
// The package neither keeps nor logs content of objects: it reads back only metadata. The exception
// is [Executor.Preview], which changes nothing and gives its caller what would change. The package
// knows nothing of rules, queues or configuration. It starts no goroutine, and gets the time from
// its caller.
package action
