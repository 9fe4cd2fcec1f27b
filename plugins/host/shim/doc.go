// Package shim stands between the daemon and one process of a handler, on Linux: a small process that has the handler as
// its child, and ends with everything that the handler started.
//
//	daemon ─ shim ─ handler ─ whatever it starts
//
// The shim is the daemon's own binary, executed a second time: the init function of this package takes such a process
// over, before packages that take their time are initialized. That is so for every binary that links plugins/host, a
// handler author's test binary too. To be early and small, this package imports the standard library, x/sys and confine
// only.
//
// What it guarantees: the handler has the environment, working directory and file descriptors that it was ordered, and no
// others. When it ends, when the daemon wants it to, or when the daemon is gone, however that came about, every
// descendant is killed: those that left its process group and session, and those that are orphaned, too, for the shim is
// the subreaper of them all. No zombie of theirs stays. If the shim itself is killed, the kernel kills the handler.
//
// A process that may send the shim signals, being of the same user and outside of any sandbox, can kill it, and what has
// left the handler's process group survives that; or stop it, and all survives a daemon that is killed then. A user of its
// own or a sandbox leave a handler no such way, and a cgroup not the first. What a handler has others start, as cron, is not
// its descendant.
// What SIGKILL does not end, because it sleeps in the kernel or became another user, is left, and reported.
//
// No event and no config passes through the shim.
package shim
