// Package dispatch delivers matches to a handler until the handler has answered them.
//
// There is one [Dispatcher] per handler and one [Lane] per rule. A lane queues the matches that it
// is offered, and merges those of one object if the rule's delivery says so. The dispatcher takes
// from its lanes in turn, so a busy rule does not starve the others. It never makes two deliveries
// at once for one object of one rule. The handler decides how many it makes at once, because the
// handler knows what it is slow with: see Recipient.Limit. While the handler is not ready, the
// dispatcher takes nothing, so merging goes on.
//
// The dispatcher delivers each match at least once, in order per rule and object. A delivery ends
// when the handler answers with done. It becomes a dead letter when the handler rejects it, when
// its last attempt fails, or when the handler was lost with it three times. Later changes of the
// object then go on. The dispatcher retries everything else with backoff, which holds up that
// object only.
//
// To this package a handler is a handler.Handler, or a [Submitter] where a goroutine for each event
// would be a waste. It does not know whether that is a process or a function. It does not know
// where matches come from, and sets no time limits of its own.
//
// An answer may ask for actions, which an [Actor] performs before the delivery is done. A lane may
// also make actions itself: instead of calling a handler, or once the handler has acknowledged the
// event (see delivery.Acknowledged). The dispatcher first checks all actions, then records them on
// disk, and then performs them. After a crash in between it performs the same
// actions again. It repeats failed actions unchanged until a newer change is merged with theirs.
// Actions that are refused because they were made of an older state ([ErrStale]) are not repeated:
// the dispatcher soon asks the handler again, with the changes that came meanwhile. It does not
// deliver changes to a rule that the rule made itself this way: see LaneOptions.Own.
//
// With a store (LaneOptions.Store) each delivery has a record until it is done, in flight or not.
// So a delivery that is in flight when the program is killed comes again after a restart, with the
// same id. Under every, only the store holds the deliveries that do not fit into memory. One
// goroutine of Run loads them in order, when their turn comes. A store that is slow or fails holds
// up those deliveries and nothing else.
//
// The files stand above each other, and each uses those below it:
//
//   - run.go, loader.go, crowding.go: the goroutines of a Dispatcher.
//   - succeed.go, look.go: what else is done with a lane.
//   - attempt.go: an attempt, stage by stage. prepare.go, answer.go: two of them.
//   - settle.go: what becomes of an attempt. flight.go: the attempt itself.
//   - dispatcher.go: which delivery goes next, from the lanes in turns.go, suspects.go, probe.go,
//     hungry.go and rest.go.
//   - lane.go: the lane. It and dispatcher.go know each other.
//   - gathering.go, backlog.go, merge.go, own.go, naming.go, loading.go, report.go: its parts.
//   - options.go, preparer.go, actor.go, journal.go, letters.go: what the package needs of its
//     user.
package dispatch
