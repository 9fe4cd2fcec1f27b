// Package due keeps which objects of an informer wait to become members of timed rules, and says
// which of them are due. It is pure: it knows no clock and starts no timer.
//
// [Rules] are the rules of one informer, with what waits for each. The informer's lock guards them.
// A [Total] counts what waits for one rule over all informers, and may be read at any time.
package due
