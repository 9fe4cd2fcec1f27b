// Package count counts the events of a rule, and says which of them go on: each nth within a sliding
// window. What has gone on empties the window.
//
// A rule has one window for each value of its by. A window ends at the latest event in it, and what
// is older than its length leaves it. An event that comes late, with an earlier time, counts as long
// as it is within. A time in the future counts as now, so that a clock that was wrong for a while
// neither stops a window nor keeps it open.
//
// An event counts once, however often it is added: a window knows events by their ids, also those
// that counted before it was last emptied. An event that has gone on goes on again.
//
// The package is pure. It knows neither rules nor the state: [Windows.Add] returns what to record.
package count
