package apistub

import "net/http"

// Place is where in an answer a stall begins: after that many bytes of its body.
type Place int

const (
	// Nowhere lets the answer go on.
	Nowhere Place = -2
	// BeforeHeaders stalls before anything of the answer is sent.
	BeforeHeaders Place = -1
	// AfterHeaders stalls before the first byte of the body.
	AfterHeaders Place = 0
)

// Stall stalls answers from now on, without an error and with the connection alive, as a proxy does
// whose other side hangs. where says where; it is called again whenever the Server changes, also for
// answers that have begun: those stop where they are. A nil where lets all go on, and nothing is lost.
func (s *Server) Stall(where func(*http.Request) Place) {
	s.set(func() { s.stall = where })
}

// stalling is an answer that may stall.
type stalling struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	sent    int // bytes of the body
}

// Unwrap lets http.ResponseController flush.
func (w *stalling) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// allowed waits until something may be sent, and returns how many bytes; a negative number means
// without a bound. It returns false if the client has gone.
func (w *stalling) allowed() (n int, ok bool) {
	for {
		w.server.mu.Lock()
		stall, changed := w.server.stall, w.server.changed
		w.server.mu.Unlock()
		place := Nowhere
		if stall != nil {
			place = stall(w.request)
		}
		if place == Nowhere || w.sent < int(place) {
			return int(place) - w.sent, true
		}
		if w.sent >= 0 { // what was sent before must arrive
			_ = http.NewResponseController(w.ResponseWriter).Flush() // fails if the client has gone
		}
		select {
		case <-changed:
		case <-w.request.Context().Done():
			return 0, false
		}
	}
}

// begins waits until the headers may be sent. It returns false if the client has gone.
func (w *stalling) begins() bool {
	w.sent = -1
	_, ok := w.allowed()
	w.sent = 0
	return ok
}

// Write implements http.ResponseWriter.
func (w *stalling) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n, ok := w.allowed()
		if !ok {
			return written, w.request.Context().Err()
		}
		if n < 0 || n > len(p) {
			n = len(p)
		}
		n, err = w.ResponseWriter.Write(p[:n])
		written, w.sent, p = written+n, w.sent+n, p[n:]
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
