// Package rawcall reads and writes sockets with raw system calls, without announcing them to Go's
// scheduler.
//
// Package net announces each system call, in case it lasts. The first one after a pause of the whole
// program wakes up sysmon, a thread with which Go's runtime watches over such calls. It then naps and
// looks, again and again, until the program pauses. A program that often begins to work after a
// pause, for a millisecond, pays for that each time. But these calls never last: each tells the
// kernel not to wait, and Go's poller does the waiting.
//
// What sysmon does beside is not done while it sleeps: above all, to make way for others after 10 ms
// of work. So whoever reads much must announce some calls: see [Conn.ReadAnnounced].
// docs/decisions/raw-calls.md has the measurements.
//
// On other systems than Linux, Wrap returns false.
package rawcall
