// Package evaluate computes what one step of an object does to the daemon, as a value: a [Change].
//
// Evaluation is pure. It depends only on its arguments: the rules, the step, the caches that the
// rules read, and the time. It takes no lock, logs nothing, records nothing and knows neither lanes
// nor the state. The engine commits the Change afterwards, in one short step.
//
// The daemon, an offline test and a replay all evaluate with this package, so they cannot disagree.
//
// An expression that fails, or code that panics during an evaluation, becomes a [Failure] of its
// rule. It never affects other rules.
package evaluate
