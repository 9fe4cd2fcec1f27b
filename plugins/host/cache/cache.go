// Package cache lets one handler process read the daemon's cache: it serves plugins/handlerpb's service Cache on a unix socket,
// as far as the handler's manifest lets it.
//
// What it guarantees, whatever the process does with the socket: nobody but the process and its descendants is answered; no
// source is read that the manifest does not name; what is held for the process is bounded, and so is the work that it can
// cause: see the constants in limits.go. A process that asks for more than it takes waits for itself. It does not know what
// a source is made of: the daemon says so by [Sources].
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
	"github.com/informd/informd/plugins/handlerpb"
)

// Sources are the daemon's cache. It is used concurrently.
type Sources interface {
	// Names are all there are.
	Names() []string
	// Open gives a source to read at once. If it has not synced, Open waits for that, as long as ctx. The error says why it
	// cannot be read now; it wraps ErrNoSource if there is none of that name.
	Open(ctx context.Context, name string) (Source, error)
}

// ErrNoSource says that there is no source of a name.
var ErrNoSource = errors.New("there is no such source")

// Source is the cache of one source. Objects are in the order of their namespaces, then of their names.
type Source interface {
	// Get gives an object as JSON, which is not changed any more by anybody.
	Get(namespace, name string) (json []byte, ok bool)
	// List gives the objects of a namespace, or of all if it is empty, with the labels that a selector asks for, or any. The
	// error is about the selector.
	List(namespace, selector string) (Objects, error)
	// ByIndex gives the objects that an index has under a value; ok is false if there is no such index.
	ByIndex(index, value string) (all Objects, ok bool)
	// IndexValues are the values that an index has, sorted; ok is false if there is no such index.
	IndexValues(index string) (values []string, ok bool)
	// Indexes are the names of the indexes.
	Indexes() []string
}

// Objects are a list of objects at one moment.
type Objects interface {
	Len() int
	Key(i int) string // NAMESPACE/NAME or NAME
	JSON(i int) []byte
}

// Reader is who may read what.
type Reader struct {
	Handler string   // the name in the manifest
	Sources []string // the names that access.read has
	Counts  *Counts
}

// Counts are of the calls of a handler, over all of its processes. nil counts nothing.
type Counts struct {
	Calls   atomic.Uint64
	Refused atomic.Uint64 // of them: that were answered with an error
}

// Server serves one process. It is made by Listen.
type Server struct {
	path     string
	listener *listener
	grpc     *grpc.Server
	close    func()
}

// Listen makes a socket at path, that only the daemon's user may use. Serve answers there. A nil Sources answers every call
// with an error that says so. A nil logger discards.
func Listen(path string, sources Sources, reader Reader, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	unix, err := socket.Listen(path) // whoever made the directory removes the file with it
	if err != nil {
		return nil, fmt.Errorf("make a socket to read the cache: %w", err)
	}
	s := &Server{path: path, listener: newListener(unix, log)}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(protoCodec),
		grpc.MaxRecvMsgSize(handlerpb.MaxReadBytes),
		grpc.MaxSendMsgSize(maxAnswer),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.ConnectionTimeout(greetTimeout),
		grpc.InitialWindowSize(requestWindow), // fixed: no probing for a better one
		grpc.InitialConnWindowSize(requestWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	s.grpc.RegisterService(serviceDesc(), newService(sources, reader))
	s.close = sync.OnceFunc(func() {
		s.listener.end()
		s.grpc.Stop()
	})
	return s, nil
}

// Address is where the service is, as gRPC libraries of all languages take it.
func (s *Server) Address() string { return "unix:" + s.path }

// Path is the socket's.
func (s *Server) Path() string { return s.path }

// Serve answers until Close. It answers descendants of the process ancestor only, and everybody whom the socket's mode lets
// through if ancestor is 0.
func (s *Server) Serve(ancestor int) {
	s.listener.ancestor = ancestor
	_ = s.grpc.Serve(s.listener) // ends with Close, as the listener has no other error
}

// Close ends all connections and calls. The socket's file stays. It may be called more than once, and when Serve was not.
func (s *Server) Close() {
	if s != nil {
		s.close()
	}
}
