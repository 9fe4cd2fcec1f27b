// Package rawcall reads and writes sockets with raw system calls, of which Go's scheduler does not
// learn.
//
// Package net announces each system call, in case it lasts. The first one after a pause of the whole
// program wakes up sysmon, a thread with which Go's runtime watches over such calls. It then naps and
// looks, again and again, until the program pauses. A program that often begins to work after a
// pause, for a millisecond, pays for that each time: see package timerslack. But a call on a socket
// of package net never lasts: the socket does not block, and Go's poller waits for it.
// docs/decisions/raw-calls.md has the measurements.
//
// Only Linux has such sockets here.
package rawcall
