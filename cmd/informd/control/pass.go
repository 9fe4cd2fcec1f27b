// A replica that follows passes requests on to the one that leads.

package control

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/informd/informd/engine/replica"
)

// maxPassed bounds how many requests of other replicas the server answers at a time.
const maxPassed = maxConnections

// errMoved says that the replica that was asked does not lead. It has done nothing.
var errMoved = errors.New("it does not lead, or not yet")

// passOn sends a request to the replica that leads, and answers what that answers.
func (s *Server) passOn(a *answer, r *http.Request) error {
	if s.replicas == nil {
		return problem(http.StatusServiceUnavailable, "informd is starting: try again")
	}
	own, leader := s.replicas.Name, s.replicas.Leader()
	switch leader {
	case "":
		return problem(http.StatusServiceUnavailable, "%s knows no replica that leads, and cannot answer "+
			"alone: informd cluster status shows all. Nothing was done", own)
	case own:
		return problem(http.StatusServiceUnavailable,
			"%s is just starting or ceasing to lead. Nothing was done: try again", own)
	}
	var failed error
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", leader },
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode == http.StatusMisdirectedRequest {
				return errMoved
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		Transport:    s.replicas.Transport,
		ErrorLog:     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	r.Body = &awaitedBody{r.Body, a.control}
	proxy.ServeHTTP(a, r)
	if failed == nil {
		return nil
	}
	_, isTooLarge := errors.AsType[*http.MaxBytesError](failed)
	switch {
	case isTooLarge:
		return tooLarge(r)
	case errors.Is(failed, errMoved), errors.Is(failed, replica.ErrUnreachable):
		return problem(http.StatusServiceUnavailable, "%s cannot ask %s, which leads as far as it knows: "+
			"%v. Nothing was done: try again", own, leader, failed)
	case r.Method == http.MethodGet:
		return problem(http.StatusServiceUnavailable, "%s asked %s, which leads, and got no answer: %v. "+
			"Try again", own, leader, failed)
	}
	return problem(http.StatusServiceUnavailable, "%s asked %s, which leads, and got no answer: %v. "+
		"%[2]s may have done what you asked for: look before you try again", own, leader, failed)
}

// awaitedBody is the body of a request whose answer may take longer than the server waits for the body.
type awaitedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (b *awaitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{}) // once expired, it would end the request's context
	}
	return n, err
}

// AnswerPassed answers a request that another replica passes on. It never passes one on itself. Who
// may use the control socket of another replica may ask this one everything that its own allows.
func (s *Server) AnswerPassed(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if s == nil {
		(&answer{ResponseWriter: w, control: control, stall: stall}).fail(problem(
			http.StatusServiceUnavailable, "the replica that leads has no control socket: its log says why"))
		return
	}
	if control.SetReadDeadline(time.Now().Add(readTimeout)) != nil {
		return // the connection is closed
	}
	select {
	case s.passed <- struct{}{}:
		defer func() { <-s.passed }()
		s.muxes.Load().passed.ServeHTTP(w, r)
	default:
		s.serve(w, r, func(_ *answer, r *http.Request) error {
			_, _ = io.Copy(io.Discard, r.Body) // or the answer may get lost
			return problem(http.StatusServiceUnavailable, "the replica that leads answers %d requests of "+
				"others already, and has done nothing: try again", maxPassed)
		})
	}
}

// refuse answers a request that another replica has passed on to this one, which does not lead.
func (s *Server) refuse(_ *answer, r *http.Request) error {
	_, _ = io.Copy(io.Discard, r.Body) // or the answer may get lost
	return problem(http.StatusMisdirectedRequest, "%v", errMoved)
}
