// Package apistub is an API server for tests that does on demand what a real one cannot be made to
// do: forget its history, drop its watches, refuse WatchList or a whole resource, hold its lists,
// send garbage.
//
// A [Server] speaks the read half of the Kubernetes API over plain HTTP: discovery, get, list and
// watch of JSON objects of any kind, with selectors, pages, resume, bookmarks and WatchList,
// answered as kube-apiserver answers them. Objects come and go by [Server.Apply], [Server.Delete]
// and [Server.Load]; the other methods are the switches. It does not know schemas, other encodings,
// or writes over HTTP, and it keeps everything in memory.
//
// Changes of one resource are numbered and kept, the newest [DefaultHistory] of them. A watch is a
// cursor into that history and nothing else, so there are no buffers; one that falls behind it gets
// 410 Gone as it would from etcd.
package apistub

import (
	"context"
	"crypto/rand"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// DefaultHistory is how many changes of a resource a Server remembers without SetHistory.
const DefaultHistory = 1000

// TB is the part of testing.TB that a Server needs. A program that is not a test implements it; its
// Fatalf must not return.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Server is a stub of an API server; New makes one. Its methods are safe for concurrent use.
// Methods that take objects fail the test if an object is wrong, so call them on the test's
// goroutine. Its fields are the switches and counts of one fake server, hence their number.
type Server struct {
	tb   TB
	uid  string // of the namespace kube-system
	http *httptest.Server
	stop context.CancelFunc // ends all requests

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever something below changes
	rv        int64         // the newest resourceVersion, one sequence for all resources
	resources map[schema.GroupVersionResource]*resource
	watches   map[*watch]struct{}
	requests  Requests
	listing   int // initial states being served now

	history     int
	noWatchList bool
	slow        time.Duration
	gate        chan struct{} // nil, or closed by the release of HoldLists
	forbidden   map[schema.GroupVersionResource]bool
	fail        func(*http.Request) *metav1.Status
	stall       func(*http.Request) Place
}

// Requests counts the requests for resources, also refused ones and those for resources that are
// not served.
type Requests struct {
	Gets       map[schema.GroupVersionResource]int
	Lists      map[schema.GroupVersionResource]int // each page of a list counts
	Watches    map[schema.GroupVersionResource]int // WatchLists included
	WatchLists map[schema.GroupVersionResource]int // watches that asked for initial events

	// MaxListing returns the most initial states that the Server ever served at once: lists, and
	// WatchLists until their initial events end.
	MaxListing int
}

// New starts a Server without resources. The end of the test closes it.
func New(tb TB) *Server {
	s := &Server{
		tb:        tb,
		uid:       rand.Text(),
		changed:   make(chan struct{}),
		rv:        1,
		resources: map[schema.GroupVersionResource]*resource{},
		watches:   map[*watch]struct{}{},
		requests: Requests{
			Gets:       map[schema.GroupVersionResource]int{},
			Lists:      map[schema.GroupVersionResource]int{},
			Watches:    map[schema.GroupVersionResource]int{},
			WatchLists: map[schema.GroupVersionResource]int{},
		},
		history:   DefaultHistory,
		forbidden: map[schema.GroupVersionResource]bool{},
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.http.Start()
	tb.Cleanup(s.Close)
	return s
}

// Close ends all requests and the server. More calls do nothing.
func (s *Server) Close() {
	s.stop()
	s.http.CloseClientConnections() // a handler may be stuck writing to a client that does not read
	s.http.Close()
}

// Config returns a client configuration for the Server, without a rate limit.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:          s.http.URL,
		QPS:           -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// Requests returns a copy of the counts so far.
func (s *Server) Requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	r.Gets, r.Lists = maps.Clone(r.Gets), maps.Clone(r.Lists)
	r.Watches, r.WatchLists = maps.Clone(r.Watches), maps.Clone(r.WatchLists)
	return r
}

// Watches returns how many watches of a resource are open. The Server sends a watch every change
// made after Watches has counted it.
func (s *Server) Watches(gvr schema.GroupVersionResource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for w := range s.watches {
		if w.res.gvr == gvr {
			n++
		}
	}
	return n
}

// ResourceVersion returns the newest resourceVersion.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return format(s.rv)
}

// Await blocks until cond returns true, and fails the test after 30 s. It calls cond again whenever
// the Server changes or gets a request. cond may call the Server's methods.
func (s *Server) Await(what string, cond func() bool) {
	s.tb.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			s.tb.Fatalf("apistub: waited 30 s for: %s", what)
		}
	}
}

// AwaitWatches blocks until exactly n watches of a resource are open.
func (s *Server) AwaitWatches(gvr schema.GroupVersionResource, n int) {
	s.tb.Helper()
	s.Await(format(int64(n))+" open watches of "+gvr.String(), func() bool {
		return s.Watches(gvr) == n
	})
}

// signal wakes watches and Await. The caller must hold mu.
func (s *Server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}
