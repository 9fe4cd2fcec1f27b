// Package timerslack has the kernel wake up a process's threads for their timers together, up to a
// millisecond late, instead of each at its own microsecond.
//
// Go's runtime watches over a program with a thread of its own. Whenever the program begins to work
// after a pause, that thread looks every 20 µs, some fifty times, and rests again later. informd
// begins to work after a pause a hundred times a second even at ordinary rates, and so does a
// handler. In a virtual machine, where a timer costs most, these looks take up to a third of all
// their processor time. What the thread looks for has time: a system call that lasts, a goroutine
// that has run for 10 ms.
//
// Linux calls the time by which it may delay a timer its thread's timer slack, 50 µs by default
// (man 2 PR_SET_TIMERSLACK). A thread gets it from the one that starts it, and keeps it when it
// executes another program. Only a thread itself may change it, and Go starts its own before a
// program can do anything. Therefore [Raise] executes the program again.
package timerslack

import "time"

// slack is what Raise sets.
const slack = time.Millisecond
