package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps, accurate to 0.1 ms, and blocks the thread. Go's own timers are accurate to 1 ms in an
// otherwise idle process.
func nap(d time.Duration) {
	if d > 0 {
		t := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&t, nil) // a signal may end it early, which does no harm
	}
}
