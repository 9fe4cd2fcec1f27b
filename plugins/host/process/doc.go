// Package process runs one process of a handler, from its launch to the moment when nothing of it
// is left.
//
// [New] checks what is to run. [Process.Connect] launches it: the executable (package executable)
// behind a shim that ends everything that the handler starts (package shim), confined as asked
// (package confine), with an environment, directories and a cache socket (package cache) of its
// own. It reads the handshake, and connects. What the process writes goes to the log (package
// output). [Process.End] ends the process and removes what was made for it.
//
// What a Process guarantees, whatever the handler does: only the daemon's user and the handler's
// own can reach its sockets; nothing that it writes can crash, fill or block the daemon; it gets no
// descriptor, variable or directory that is not meant for it; and after End no process, socket,
// file or goroutine of it is left, unless the kernel cannot kill the process, which is logged.
//
// A Process is a session.Peer. It knows nothing of events.
package process
