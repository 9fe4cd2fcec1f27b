package apistub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kwatch "k8s.io/apimachinery/pkg/watch"
)

// watch is an open watch. The server's mu guards what changes.
type watch struct {
	request
	res    *resource
	cancel context.CancelFunc

	cursor   int64  // it has got the events up to this resourceVersion
	bookmark bool   // one is due
	garbage  string // to be sent
}

// watch sends a resource's changes until the client, the server or timeoutSeconds ends it.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, res *resource, q request) error {
	cursor, err := parseVersion(q.opts.ResourceVersion)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if q.opts.TimeoutSeconds != nil && *q.opts.TimeoutSeconds > 0 {
		timeout := time.AfterFunc(time.Duration(*q.opts.TimeoutSeconds)*time.Second, cancel)
		defer timeout.Stop()
	}
	// The defaults have set SendInitialEvents where a watch without resourceVersion means it, if
	// there is WatchList.
	watchList := q.opts.SendInitialEvents != nil && *q.opts.SendInitialEvents
	initial := watchList || q.opts.SendInitialEvents == nil && cursor == 0
	end := func() {}
	if initial {
		if end, err = s.beginListing(r); err != nil {
			return err
		}
	}

	s.mu.Lock()
	current := s.rv
	switch {
	case s.resources[q.gvr] != res: // withdrawn while this was held back
		s.mu.Unlock()
		end()
		http.Error(w, "404 page not found", http.StatusNotFound)
		return nil
	case initial && cursor > current:
		s.mu.Unlock()
		end()
		return tooLarge(cursor, current)
	}
	objects := snapshot{docs: func(func(string, *document) bool) {}}
	if initial {
		objects, _ = res.at(current, "", &q)
	}
	if initial || cursor == 0 {
		cursor = current
	}
	me := &watch{request: q, res: res, cancel: cancel, cursor: cursor}
	s.watches[me] = struct{}{}
	s.signal()
	s.mu.Unlock()
	defer s.set(func() { delete(s.watches, me) })

	out := &frames{Writer: bufio.NewWriterSize(w, 64<<10), res: res}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for _, d := range objects.docs {
		if ctx.Err() != nil {
			end()
			return nil
		}
		out.object(kwatch.Added, d)
	}
	if watchList && q.opts.AllowWatchBookmarks {
		out.bookmark(cursor, true)
	}
	flush := http.NewResponseController(w)
	if initial {
		err = errors.Join(out.Flush(), flush.Flush())
	}
	end()
	if err != nil {
		return nil
	}
	// A resumed watch gets what it missed together with the answer. On a busy machine, a client could
	// otherwise take the time between the two for silence.
	for ctx.Err() == nil {
		changed, more := s.next(ctx, me, out)
		if errors.Join(out.Flush(), flush.Flush()) != nil || !more {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// next writes what is new for a watch. more is false after an ERROR event. changed is closed when
// there is more to write.
func (s *Server) next(
	ctx context.Context, me *watch, out *frames) (changed <-chan struct{}, more bool) {
	s.mu.Lock()
	events, ok := me.res.since(me.cursor)
	cursor, floor, current := me.cursor, me.res.oldest(), s.rv
	me.cursor = max(me.cursor, current) // a resourceVersion from the future waits for its time
	bookmark, garbage := me.bookmark, me.garbage
	me.bookmark, me.garbage = false, ""
	changed = s.changed
	s.mu.Unlock()

	if !ok {
		out.write(kwatch.Error, encode(withKind(tooOld(cursor, floor).ErrStatus)))
		return nil, false
	}
	for e := range events {
		if ctx.Err() != nil {
			return changed, false
		}
		is, was := me.sees(e.doc), me.sees(e.prev)
		switch {
		case is && was:
			out.object(kwatch.Modified, e.doc)
		case is:
			out.object(kwatch.Added, e.doc)
		case was:
			out.object(kwatch.Deleted, e.prev.as(e.rv))
		}
	}
	if bookmark {
		out.bookmark(current, false)
	}
	out.WriteString(garbage)
	return changed, true
}

// frames writes watch events. Errors are kept by the Writer until it is flushed.
type frames struct {
	*bufio.Writer
	res *resource
}

func (f *frames) begin(t kwatch.EventType) {
	f.WriteString(`{"type":"`)
	f.WriteString(string(t))
	f.WriteString(`","object":`)
}

func (f *frames) write(t kwatch.EventType, object []byte) {
	f.begin(t)
	f.Write(object)
	f.WriteString("}\n")
}

func (f *frames) object(t kwatch.EventType, d *document) {
	f.begin(t)
	f.WriteString(f.res.head)
	f.Write(d.body[1:])
	f.WriteString("}\n")
}

func (f *frames) bookmark(rv int64, endOfInitial bool) {
	meta := metav1.ObjectMeta{ResourceVersion: format(rv)}
	if endOfInitial {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	f.write(kwatch.Bookmark, fmt.Appendf(nil, `%s"metadata":%s}`, f.res.head, encode(meta)))
}
