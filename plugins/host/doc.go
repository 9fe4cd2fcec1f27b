// Package host is informd's side of a handler: it launches the executable, speaks plugins/handlerpb with it over
// go-plugin's gRPC, and keeps it from doing harm.
//
// A [Host] stands for one Handler manifest. Run supervises one process at a time: launch, handshake, describe,
// configure, then one stream of deliveries beside regular health checks, and a drain at the end. A process that crashes,
// hangs, breaks the protocol or never answers is ended, with everything that it started, and launched again with
// growing pauses, for ever. Reload puts a process of another executable or config in its place, without a gap. Handle
// delivers an event to whichever process runs, and satisfies handler.Handler: who calls it cannot tell a process from a
// function. Submit is the same for who does not want to wait. No Host waits for another.
//
// What it guarantees, whatever the process does: every call to the process has a deadline; every buffer has a bound;
// nothing that the process writes can crash, fill or block the daemon; an event is either answered, or reported
// ([handler.ErrLost], or an error about its time limit) for the caller to send again; when Run returns, no process,
// socket, file or goroutine of it is left. No process outlives a daemon that was killed. What the spec confines a process
// to is enforced, or there is no process.
//
// A [Remote] stands for a Handler manifest with an address: a handler that runs elsewhere, any number of times. Each of its
// endpoints is supervised by a Host, with a connection in the place of a process. What of a remote process goes on when its
// connection is lost, nobody here can know.
//
// It does not know what a rule, a queue or a retry is, and logs no contents of events.
//
// The files, in the order of a process's life: spec.go and executable*.go (what is to run), environment.go and rundir.go
// (what it finds), process*.go (one process and its pipes, below a shim that ends all that it started: package shim;
// confined: package confine; what it may read of the daemon's cache: package cache), logs.go (what it writes), runner.go,
// handshake.go and connect.go (its first words, go-plugin, and its end),
// session.go (one process from launch to end), call.go, deliveries.go, encode.go and stream.go (events and answers),
// supervise.go, failures.go and reload.go (one process after the other), host.go (what the daemon sees of it).
// For remote handlers: remotespec.go (where they are), connection.go (one connection from its begin to its end), pool.go and member.go
// (who of several gets an event), remote.go (all endpoints of one name).
package host
