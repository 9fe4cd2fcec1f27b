package apistub

import (
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// set changes a switch.
func (s *Server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.signal()
}

// DropWatches ends all open watches after a whole frame and without an error, as a server does at a
// watch's timeout. They do not send what they have not sent yet.
func (s *Server) DropWatches() {
	s.set(func() { s.drop(nil) })
}

// drop ends the open watches of one resource, or of all. The caller must hold mu.
func (s *Server) drop(res *resource) {
	for w := range s.watches {
		if res == nil || w.res == res {
			delete(s.watches, w) // here, so that an Await for the next one does not see this one
			w.cancel()
		}
	}
}

// Expire forgets all history, as a compaction does: open watches end with 410 Gone in an ERROR
// event on HTTP 200, and so do watches that want to resume and lists that want to continue from a
// resourceVersion of before.
func (s *Server) Expire() {
	s.set(func() {
		s.rv++
		for _, res := range s.resources {
			res.expire(s.rv)
		}
	})
}

// Restore brings back the moment of a resourceVersion, which the Server must remember, as a restore of
// etcd from a backup does: what came later has never been, and later changes get the same
// resourceVersions again. Open watches end.
func (s *Server) Restore(resourceVersion string) {
	s.tb.Helper()
	rv, err := parseVersion(resourceVersion)
	if err != nil {
		s.tb.Fatalf("apistub: restore: %v", err)
	}
	s.set(func() {
		s.rv = rv
		for _, res := range s.resources {
			if res.stored == nil || !res.stored.restore(rv) {
				s.tb.Fatalf("apistub: restore: %v does not remember %s", res.gvr, resourceVersion)
			}
		}
		s.drop(nil)
	})
}

// SetHistory sets how many changes of each resource the Server remembers from now on. An open watch
// misses changes if a Load exceeds that.
func (s *Server) SetHistory(n int) {
	s.set(func() {
		s.history = max(n, 0)
		for _, res := range s.resources {
			res.trim(s.history)
		}
	})
}

// SetWatchList turns the server's WatchList on (the default) or off. When off, watches that ask for
// initial events are refused with 422 Invalid, as kube-apiserver 1.19 to 1.31 does, and
// kube-apiserver 1.32 on without the feature.
func (s *Server) SetWatchList(on bool) {
	s.set(func() { s.noWatchList = !on })
}

// Bookmark sends a bookmark with the newest resourceVersion to every open watch that allows them.
// The Server sends no others, except the one that ends a WatchList's initial events.
func (s *Server) Bookmark() {
	s.set(func() {
		for w := range s.watches {
			w.bookmark = w.opts.AllowWatchBookmarks
		}
	})
}

// Garbage writes bytes into every open watch of a resource.
func (s *Server) Garbage(gvr schema.GroupVersionResource, frame string) {
	s.set(func() {
		for w := range s.watches {
			if w.res.gvr == gvr {
				w.garbage += frame
			}
		}
	})
}

// SlowLists delays every initial state, by list or by WatchList, from now on.
func (s *Server) SlowLists(d time.Duration) {
	s.set(func() { s.slow = d })
}

// HoldLists holds back every initial state, by list or by WatchList, until release is called. Calls
// do not nest.
func (s *Server) HoldLists() (release func()) {
	gate := make(chan struct{})
	s.set(func() { s.gate = gate })
	return sync.OnceFunc(func() { close(gate) })
}

// Forbid refuses get, list and watch of a resource with 403 Forbidden, or allows them again. Open
// watches go on, as they do when RBAC changes; DropWatches ends them.
func (s *Server) Forbid(gvr schema.GroupVersionResource, forbid bool) {
	s.set(func() { s.forbidden[gvr] = forbid })
}

// Fail calls f for every request from now on. A Status from f is the answer; with nil the request
// goes on as usual. A nil f turns this off.
func (s *Server) Fail(f func(*http.Request) *metav1.Status) {
	s.set(func() { s.fail = f })
}
