package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps, exactly to a tenth of a millisecond: Go's own timers, in a process that does nothing
// else, to one. It blocks the thread.
func nap(d time.Duration) {
	if d > 0 {
		t := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&t, nil) // woken early by a signal is as good
	}
}
