// Package simulate runs the rules of a plan in virtual time, without a cluster and without
// handlers. Tests of rules and replays of recordings use it.
//
// A [Simulation] is no model of the engine. It is the engine, driven by an [engine.Stepper]: the
// informers' cache, indexes and feed, evaluation, the state and its cuts, resuming, lanes, retries
// and dead letters are those of the daemon. Three things replace what is around the engine:
//
//   - A cluster of objects in memory takes the place of the API server (cluster.go). It gives each
//     change a resourceVersion, and each informer what its selection lets through.
//   - A clock that only Advance moves takes the place of time (clock.go). It jumps from one moment
//     at which something is due to the next, so a quiet year costs nothing.
//   - Options.Answer takes the place of all handlers. Actions are recorded, not performed: they
//     change nothing in the cluster. Options.Acted says which of a rule's own fail.
//
// Everything happens on the caller's goroutine. The same calls give the same events. Delays have no
// random part. Changes are delivered in the order in which they came, and what concerns many
// objects at the same moment goes through them by namespace and name.
//
// # What it leaves out
//
//   - The cluster validates and defaults nothing, and runs no controllers.
//   - As actions change nothing, no rule sees its own changes. Only what rules with prune have
//     applied is remembered: for which source object, as the marks on it would say. An event says
//     what prune would look for, and not what it deletes.
//   - Handlers are always ready, take one event at a time, and never crash.
//   - Nothing is ever lost or late between the cluster and the informers, unless Disconnect or Stop
//     says so, and the state is written only when the engine stops.
package simulate
