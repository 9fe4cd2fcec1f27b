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

// DefaultHistory is how many changes of a resource a Server remembers, unless SetHistory says
// otherwise.
const DefaultHistory = 1000

// TB is what a Server needs of a testing.TB. A program that is no test has one of its own; its
// Fatalf must not return.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Server is made by New. Its methods are safe for concurrent use, but those that take objects fail
// the test if these are wrong, and so belong on the test's goroutine.
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
}

// Requests is what a Server was asked, whether it complied or not, by resource, served or not.
type Requests struct {
	Gets       map[schema.GroupVersionResource]int
	Lists      map[schema.GroupVersionResource]int // each page of a list counts
	Watches    map[schema.GroupVersionResource]int // WatchLists included
	WatchLists map[schema.GroupVersionResource]int // watches that asked for initial events

	// MaxListing is the most initial states that were served at once: lists, and WatchLists until
	// their initial events end.
	MaxListing int
}

// New starts a Server that serves no resource yet and is closed with the test.
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

// Config is how to reach the server, without a limit on the client's side.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:          s.http.URL,
		QPS:           -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// Requests is a copy of the counts so far.
func (s *Server) Requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	r.Gets, r.Lists = maps.Clone(r.Gets), maps.Clone(r.Lists)
	r.Watches, r.WatchLists = maps.Clone(r.Watches), maps.Clone(r.WatchLists)
	return r
}

// Watches is how many watches of a resource are open. A watch counts from when changes reach it on:
// a change made after Watches has counted it is sent to it.
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

// ResourceVersion is the newest one.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return format(s.rv)
}

// Await blocks until cond holds. It looks again whenever something about the server changes, a
// request's arrival included, and fails the test after 30 s without success. cond may call the
// server's methods.
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
	s.Await(format(int64(n))+" open watches of "+gvr.String(), func() bool { return s.Watches(gvr) == n })
}

// signal wakes watches and Await. The caller holds mu.
func (s *Server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}
