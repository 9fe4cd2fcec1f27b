// Package host is informd's side of a handler: it runs the handler's process, or connects to a
// remote one, delivers events to it, and keeps it from doing harm.
//
// A [Host] stands for one Handler manifest. Run supervises one process at a time: launch,
// handshake, describe, configure, then one stream of deliveries beside regular health checks, and a
// drain at the end. A process that crashes, hangs, breaks the protocol or never answers is ended,
// with everything that it started, and launched again with growing pauses, for ever. Reload puts a
// process of another executable or config in its place, without a gap. Handle delivers an event to
// whichever process runs. It satisfies handler.Handler: its caller cannot tell a process from a
// function. Submit does the same without waiting. No Host waits for another.
//
// A [Remote] stands for a Handler manifest with an address: a handler that runs elsewhere, any
// number of times. What a remote process still does after its connection was lost, nobody here can
// know.
//
// What the package guarantees, whatever a handler does: every call has a deadline; every buffer has
// a bound; nothing that the process writes can crash, fill or block the daemon; each event is
// either answered, or reported ([handler.ErrLost], or an error about its time limit) for the caller
// to send it again; when Run returns, no process, socket, file or goroutine of it is left. No
// process outlives a daemon that was killed. What the spec confines a process to is enforced, or
// the process is not started.
//
// It does not know what a rule, a queue or a retry is, and logs no contents of events.
//
// # Rooms
//
// This package is what the daemon sees, and the supervision: one session after the other. Below it:
//
//	outbox      events on their way: what waits, what is sent, who gets what
//	session     the protocol with one process or endpoint, from describe to drain
//	process     one process: launch, handshake, connection, end
//	remote      one connection to an endpoint; where the endpoints are
//	connect     gRPC connections, and why TLS failed
//	output      what a process writes, into the daemon's log
//	executable  what is to be executed
//	shim        the process that ends everything a handler started
//	confine     limits, user and sandbox
//	cache       what a handler may read of the daemon's cache
//
// # go-plugin
//
// The protocol between informd and a local handler is go-plugin's, and either side may be stock
// go-plugin: plugin.Serve serves informd, and plugin.NewClient drives a handler that is built with
// package serve. Tests show both. On the handler's side, package serve runs plugin.Serve. It exports
// what either side of go-plugin needs: serve.Handshake, serve.Plugin and serve.GRPCServer.
//
// On this side, package process speaks the protocol itself: the environment, the handshake line
// with the handler's certificate, one gRPC connection, GRPCStdio and GRPCController.Shutdown. It
// takes names and versions from go-plugin, and does not use plugin.Client, which answers other
// questions than the daemon asks. That client owns the process's pipes, parses standard error in a
// way that a handler can make panic, waits without a bound in Start and Kill, reports the end of a
// process only to itself, and keeps a goroutine for each connection that a process announces to its
// broker. informd has no use for the broker: a handler reads the cache on a socket of its own.
//
// ClientConfig.RunnerFunc does not help. A Runner decides how the client starts, awaits and kills a
// process, so the shim and the sandbox could stand behind it, and it could bound the pipes. But the
// client decides when. Start holds the client's lock until the handshake or its time limit, so
// nothing can end a process that is starting. Kill first calls Shutdown without a deadline, so it
// never kills a process that hangs in it. The broker's goroutines remain. A Runner would have to do
// all that package process does, and the client around it would still lack bounds.
package host
