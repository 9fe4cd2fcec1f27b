// Package evaluate says what one step of an object does to the daemon, as a value: a [Change].
//
// Evaluation is pure. It depends on the rules, the step, the caches that the rules look into and the
// time, all of which are arguments. It takes no lock, logs nothing, records nothing and knows neither
// lanes nor the state. The engine commits the Change afterwards, in one short step.
//
// A daemon, an offline test and a replay evaluate with this package, so they cannot disagree.
//
// An expression that fails, or code that panics while it evaluates one, becomes a [Failure] of its
// rule. It never affects other rules.
package evaluate
