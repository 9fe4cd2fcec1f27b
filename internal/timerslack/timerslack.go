// Package timerslack lets the kernel delay the timers of a process by up to half a millisecond, so
// that several share an interrupt.
//
// Go's runtime watches over a program with a thread of its own, sysmon. Whenever the program begins
// to work after a pause, sysmon looks some fifty times, with naps of 20 µs, and rests again later.
// informd begins to work after a pause a hundred times a second even at ordinary rates, and so does
// a handler. Threads that look for work nap, too, for 3 µs. In a virtual machine, where a timer
// costs most, a fifth of all processor time went to such naps. docs/decisions/timer-slack.md has
// the measurements, and what it costs that the naps last longer.
//
// Linux calls the time by which it may delay a timer its thread's timer slack, 50 µs by default
// (man 2 PR_SET_TIMERSLACK). A thread gets it from the one that starts it, and keeps it when it
// executes another program. Only a thread itself may change it, and Go starts sysmon before a
// program can do anything. Therefore [Raise] executes the program again.
package timerslack

import "time"

const (
	// slack is what Raise sets.
	slack = 500 * time.Microsecond
	// usual is what Linux gives a process unless somebody has chosen another slack.
	usual = 50 * time.Microsecond

	// variable, if the environment has it, says that Raise is not to execute the program: it has, or
	// the user does not want it.
	variable = "INFORMD_TIMERSLACK"
)
