// Package live holds what runs for one part of a plan: for a rule, a source, a handler or a metric of a
// manifest. It knows no intake and no engine. Those put the parts together, and a reload takes over each
// part that stays.
//
//	Rule        its lane, its counts, its account of the last changes; what the state keeps of it
//	Preparer    completes its events when they are delivered
//	Source      a view over informers, with its indexes
//	Dispatcher  delivers to one handler
//	Metric      a gauge or a counter
//
// The fields of a part are set before it is at work. After that they do not change, unless they say
// otherwise.
package live
