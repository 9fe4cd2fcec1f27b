// Package engine runs a plan: it watches what the plan's sources select, has its rules evaluated on
// every change, and delivers the events that they select to handlers.
//
// A change travels like this, and stays in order per object all the way:
//
//	source      one shared informer per selection sees one step of an object after the other
//	  │ source.Step
//	evaluate    pure: which rules select the step, and as what; what to record of the object
//	  │ evaluate.Change
//	commit      in one cut: lanes take their matches, the state takes its records
//	  │ delivery.Delivery
//	dispatch    one dispatcher per handler: prepares, sends, judges the answer, retries or gives up
//
// This package is the engine as a whole: it begins (engine.go), resumes from the last cut of a state
// (restore.go), goes on with another plan (reload.go) and ends; a Stepper drives it by hand
// (stepping.go). Its rooms are
//
//	live     what runs for one rule, source, handler or metric
//	intake   takes the steps of one informer, and has rules catch up that missed some
//	running  puts live parts and intakes together for a plan
//	acting   changes the cluster for rules and handlers
//	admin    answers operators, and does what they ask
//
// What is attached to an event is looked up when it is handed over, and never kept.
//
// The engine knows handlers by the interface [Handler]. Whether a process stands behind one is not
// its business. It counts and logs expressions that fail, each message at most once a minute per
// rule, and goes on.
//
// docs/architecture.md shows the whole, with the owner of each piece of state and the order of
// locks.
package engine
