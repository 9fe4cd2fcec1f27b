// Package shim puts a small process between the daemon and each handler process, on Linux. The shim
// is the handler's parent and ends together with everything that the handler started:
//
//	daemon ─ shim ─ handler ─ whatever it starts
//
// The shim is the daemon's own binary, executed again. [TakeOver] turns such a process into the
// shim; a program that calls [Start] imports package install, which calls TakeOver during
// initialization. A binary that only links plugins/host contains no such code path. To start early
// and stay small, this package imports only the standard library, x/sys, confine and procfs.
//
// The handler gets exactly the environment, working directory and file descriptors of its [Order].
// The shim kills every descendant when the handler ends, when the daemon asks for it, and when the
// daemon is gone for any reason. That includes processes that left the handler's process group or
// session, and orphans, because the shim is the subreaper of them all. It reaps every zombie among
// them. If the shim itself is killed, the kernel kills the handler.
//
// What a process of the same user outside any sandbox can do: kill the shim, so that descendants
// outside the handler's process group survive, as children of the daemon, which adopts them; or stop
// it, so that everything survives a daemon that is killed then. A handler with a user of its own or in a sandbox can do neither. In a cgroup
// it cannot escape by killing the shim. What a handler asks others to start, such as cron, is not
// its descendant. Processes that SIGKILL does not end, because they sleep in the kernel or became
// another user, stay; Wait reports how many.
//
// No event and no config passes through the shim.
package shim
