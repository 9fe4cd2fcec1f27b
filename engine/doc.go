// Package engine runs a plan: it watches what the plan's sources select, lets its rules look at every change, and has
// what they select delivered to handlers.
//
// A change travels like this, and stays in order per object all the way:
//
//	source      one shared informer per selection; its callback gets one delta after the other
//	  │ delta.Delta
//	evaluator   in that callback, for each rule that may select it: where, when, payload; the objects are decoded once
//	  │ rule.Match
//	lane        one per rule: what was selected waits per object, merged or each
//	  │ handler.Event
//	dispatcher  one per handler: so many at once, answers, retries, dead letters
//
// With a state, each of these says in the same breath what has become of it: the evaluator's informer what was told (record.go),
// the lane what waits (lanestore.go), the dispatcher what is dead (letterstore.go). A restart goes on from there (durable.go);
// rules that are new or changed are told what that makes of the objects that there are (late.go).
//
// Rules look into other sources as well (lookup.go). They are not evaluated before those have synced (wait.go). What is attached
// to an event is looked up when it is handed over, and never kept.
//
// The engine knows handlers as plugins/handler has them; whether a process stands behind one is not its business. What
// it cannot evaluate it counts and logs, at most once a minute per rule and message, and goes on.
package engine
