// Package cache lets one handler process read the daemon's cache: it serves plugins/handlerpb's
// service Cache on a unix socket, for the sources that the handler's manifest names.
//
// What it guarantees, whatever the process does with the socket: it answers only the process and
// its descendants; it reads only sources that the manifest names; and it bounds the memory and the
// work that the process can cause, by the constants in limits.go. A process that asks for more than
// it reads has to wait. The package does not know what a source is made of: the daemon provides
// [Sources].
package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/informd/informd/internal/socket"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// Sources is the daemon's cache. Its methods are called concurrently.
type Sources interface {
	// Names returns the names of all sources.
	Names() []string
	// Open returns a source that can be read at once. If the source has not synced, Open waits for
	// that until ctx ends. The error says why the source cannot be read now. It wraps ErrNoSource
	// if there is no such source.
	Open(ctx context.Context, name string) (Source, error)
}

// ErrNoSource says that no source has a name.
var ErrNoSource = errors.New("there is no such source")

// Source is the cache of one source. Objects are in the order of their namespaces, then of their
// names.
type Source interface {
	// Get returns an object as JSON, which must never change.
	Get(namespace, name string) (json []byte, ok bool)
	// List returns the objects of a namespace, or of all namespaces if it is empty, whose labels
	// match the selector; empty: all match. The error says what is wrong with the selector.
	List(namespace, selector string) (Objects, error)
	// ByIndex returns the objects that an index has under a value; ok is false if there is no such
	// index.
	ByIndex(index, value string) (all Objects, ok bool)
	// IndexValues returns the values of an index, sorted; ok is false if there is no such index.
	IndexValues(index string) (values []string, ok bool)
	// Indexes returns the names of the indexes.
	Indexes() []string
}

// Objects is a list of objects as they were at one moment.
type Objects interface {
	Len() int
	Key(i int) string // NAMESPACE/NAME or NAME
	JSON(i int) []byte
}

// Reader says who may read what.
type Reader struct {
	Handler string   // name in the manifest
	Sources []string // names in access.read
	Counts  *Counts
}

// Counts counts the calls of a handler, over all its processes. nil counts nothing.
type Counts struct {
	Calls   atomic.Uint64
	Refused atomic.Uint64 // of them, those that were answered with an error
}

// Server serves one process. Listen makes it.
type Server struct {
	path     string
	listener *listener
	grpc     *grpc.Server
	close    func()
}

// Listen makes a socket at path that only the daemon's user may use. Serve answers there. With nil
// Sources, every call gets an error that says so. A nil logger discards.
func Listen(path string, sources Sources, reader Reader, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	unix, err := socket.Listen(path) // the caller removes the file with its directory
	if err != nil {
		return nil, fmt.Errorf("make a socket to read the cache: %w", err)
	}
	s := &Server{path: path, listener: newListener(unix, log)}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(handlerpb.MaxReadBytes),
		grpc.MaxSendMsgSize(maxAnswer),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.ConnectionTimeout(greetTimeout),
		grpc.InitialWindowSize(requestWindow), // fixed: no probing for a better one
		grpc.InitialConnWindowSize(requestWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
		grpc.WaitForHandlers(true),
	)
	s.grpc.RegisterService(serviceDesc(), newService(sources, reader))
	s.close = sync.OnceFunc(func() {
		s.listener.end()
		s.grpc.Stop()
	})
	return s, nil
}

// Address returns the address of the service, in the form that gRPC libraries of all languages
// understand.
func (s *Server) Address() string { return "unix:" + s.path }

// Path returns the socket's path.
func (s *Server) Path() string { return s.path }

// Serve answers until Close. It answers only the process ancestor and its descendants; with 0,
// every process that the socket's mode admits.
func (s *Server) Serve(ancestor int) {
	s.listener.ancestor = ancestor
	_ = s.grpc.Serve(s.listener) // ends with Close, as the listener has no other error
}

// Close ends all connections and calls. The socket's file stays. Close may be called more than
// once, and without Serve. A nil Server is legal.
func (s *Server) Close() {
	if s != nil {
		s.close()
	}
}
