package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// stall is how long a client may stop reading an answer. A person may read it page by page.
const stall = 5 * time.Minute

// Server answers the commands. The nil Server answers nothing.
type Server struct {
	listener *listener
	http     *http.Server
	log      *slog.Logger
	stall    time.Duration
	replicas *Replicas // nil if the daemon is not one of several
	muxes    atomic.Pointer[muxes]
	passed   chan struct{} // one taken per request of another replica; capacity maxPassed
}

// muxes answer requests on the socket, and those that other replicas pass on.
type muxes struct{ own, passed *http.ServeMux }

// readTimeout bounds how long the server reads a request.
const readTimeout = 10 * time.Second

// Options of a Server.
type Options struct {
	// Logger gets what goes wrong. nil discards.
	Logger *slog.Logger
	// Daemon is the id of the daemon's process. The server turns its descendants away: handlers
	// could do through it what they may not do themselves. 0 turns nobody away. It has an effect on
	// Linux only.
	Daemon int
	// Replicas knows the replicas that the daemon is one of; nil if it is not one of several. Its
	// fields may be set until Run.
	Replicas *Replicas
}

// New makes the socket, with mode 0600. It is an error if another process listens there, if the
// path names something other than a socket, or if it is longer than 107 bytes (on Linux). Clients
// wait until Run. Without Run, the caller must call Close. b may be nil: see [Server.Switch].
func New(socket string, b Backend, opts Options) (*Server, error) {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l, err := listen(socket, newDoor(opts.Daemon, log))
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener: l, log: log, stall: stall, replicas: opts.Replicas,
		passed: make(chan struct{}, maxPassed),
	}
	s.Switch(b)
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.muxes.Load().own.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.http.SetKeepAlivesEnabled(false)
	return s, nil
}

// Switch makes b what the requests from now on are about. If b is nil, this informd does not lead
// its replicas: the server answers what is known about those, and passes everything else on to the
// one that leads.
func (s *Server) Switch(b Backend) {
	if s == nil {
		return
	}
	own, passed := s.newMux(b, s.passOn), s.newMux(b, s.refuse)
	s.handle(own, "GET "+clusterPath, s.answerCluster)
	s.handle(own, "POST "+handOverPath, s.handOver)
	s.muxes.Store(&muxes{own, passed})
}

// Run serves until ctx ends, gives requests in progress a second, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.log.Info("serving the control socket", "socket", s.listener.path)
	var group errgroup.Group
	group.Go(func() error {
		err := s.http.Serve(s.listener)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		s.log.Error("no longer serving the control socket; the rest goes on", "error", err)
		return fmt.Errorf("serve %s: %w", s.listener.path, err)
	})
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.http.Shutdown(stopping) != nil {
		_ = s.http.Close() // clients that still read have had a second
	}
	return group.Wait()
}

// Close removes the socket of a server that does not run.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.listener.Close()
}

// handle makes mux answer requests by to.
func (s *Server) handle(
	mux *http.ServeMux, pattern string, to func(*answer, *http.Request) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, to) })
}

// newMux returns what answers requests about b, or if b is nil, answers all of them by following.
func (s *Server) newMux(b Backend, following func(*answer, *http.Request) error) *http.ServeMux {
	mux := http.NewServeMux()
	if b == nil {
		s.handle(mux, "/", following)
		return mux
	}
	handle := func(pattern string, to func(*answer, *http.Request) error) {
		s.handle(mux, pattern, to)
	}
	a := answers{b}
	handle("GET /v1/status", a.status)
	handle("GET /v1/objects", a.objects)
	handle("GET /v1/targets", a.targets)
	handle("GET /v1/letters", a.letters)
	handle("GET /v1/letter", a.letter)
	handle("POST /v1/letters/retry", a.act(Backend.RetryLetter))
	handle("POST /v1/letters/drop", a.act(Backend.DropLetter))
	handle("POST /v1/rules/pause", a.pause(true))
	handle("POST /v1/rules/resume", a.pause(false))
	handle("POST /v1/rules/retry", a.retryRule)
	handle("POST /v1/rules/resync", a.resync)
	handle("GET /v1/events", a.events)
	handle("GET /v1/explain", a.explain)
	handle("POST /v1/handlers/reload", a.reload)
	handle("POST /v1/reload", a.reloadAll)
	handle("POST "+planPath, a.plan)
	handle("/", func(_ *answer, r *http.Request) error {
		return problem(http.StatusNotFound, "this informd (%s) does not know %.10s %.100q: "+
			"use the informd command of the same version",
			b.Status().Version, r.Method, r.URL.Path)
	})
	return mux
}

// serve answers one request. It sends an error as JSON. If the answer has begun, serve breaks it
// off instead, and the client notices.
func (s *Server) serve(
	w http.ResponseWriter, r *http.Request, to func(*answer, *http.Request) error) {
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), stall: s.stall}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p) // net/http breaks the connection and logs nothing
		default:
			s.log.Error("answering a command panicked", "path", r.URL.Path,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			a.fail(fmt.Errorf("informd failed to answer: %v; its log says more", p))
		}
	}()
	r.Body = http.MaxBytesReader(w, r.Body, limitOf(r))
	if r.ContentLength == 0 {
		_ = a.control.SetReadDeadline(time.Time{}) // as readJSON does after a body
	}
	if err := to(a, r); err != nil {
		a.fail(err)
	}
}

const planPath = "/v1/plan"

// limitOf returns how many bytes the body of a request may have.
func limitOf(r *http.Request) int64 {
	if r.URL.Path == planPath {
		return maxPlanBody
	}
	return maxBody
}

// answer is a response that the client must go on reading.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	begun   bool
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	if err := a.control.SetWriteDeadline(time.Now().Add(a.stall)); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) fail(err error) {
	if a.begun {
		panic(http.ErrAbortHandler)
	}
	known, ok := errors.AsType[*Error](err)
	if !ok {
		known = &Error{Code: http.StatusInternalServerError, Message: err.Error()}
	}
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(known.Code)
	_ = writeJSON(a, known) // the client may have gone
}

// Error is the server's answer if it cannot do what a request asks for.
type Error struct {
	Code    int    `json:"code"` // of HTTP
	Message string `json:"error"`
	Report  string `json:"report,omitempty"` // lines with details, to print before Message
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func problem(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
