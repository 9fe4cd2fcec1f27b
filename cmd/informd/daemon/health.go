package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/source"
)

// newMux returns the handler for what --listen serves:
//
//	/livez    200 while the process serves
//	/readyz   200 if informd does not stop, and every source has caught up with the server or waits
//	          for a resource that is not served and has no objects of it, else 503. It also shows the handlers' states,
//	          whether the state is durable, whether a reload failed, and how many rights are missing.
//	          These do not affect the code. Of a replica, the sources do not either: it is ready if it
//	          has caught up with the others.
//	/metrics  for Prometheus
//
// With profiles, it also serves /debug/pprof/.
func newMux(
	eng *engine.Engine, handlers *handlers, metrics *metrics, last func() *control.LastReload,
	rights *permissions, own func() replica.Info, profiles bool,
) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client may have gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		var info *replica.Info
		if own != nil {
			is := own()
			info = &is
		}
		ready, report := readiness(eng.Status(), handlers, last(), rights.status(), info)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, report)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{}))
	if profiles {
		addProfiles(mux)
	}
	return mux
}

// readiness returns what /readyz says. Anybody can read that, so it has names, states and numbers
// only. A reason may quote a handler, the API server or a manifest: informd status shows those. own
// is nil if this informd is not a replica.
func readiness(
	status admin.Status, handlers *handlers, last *control.LastReload,
	rights *control.RightsStatus, own *replica.Info,
) (ready bool, report string) {
	ready = true
	var b strings.Builder
	if own != nil {
		var line string
		ready, line = ofReplica(*own)
		b.WriteString(line)
	}
	if status.IsStopping {
		ready = false
		b.WriteString("[-] informd: stopping\n")
	}
	for _, s := range status.Sources {
		mark, progress := "[+]", ""
		if !s.Ready {
			mark, ready = "[-]", ready && own != nil
		}
		if s.State == source.Listing { // the reason is how far it is
			progress = cli.Because(s.Reason)
		}
		fmt.Fprintf(&b, "%s source %s: %s%s\n", mark, s.Name, s.State, progress)
	}
	for _, h := range handlers.hosts() {
		s, problem := h.Status(), ""
		if s.Problem != "" {
			problem = ", reports a problem"
		}
		fmt.Fprintf(&b, "    handler %s: %s%s\n", h.name, s.State, problem)
	}
	switch s := status.State; {
	case s == nil:
	case s.Trouble != "":
		b.WriteString("    state: NOT durable\n")
	case status.IsLoading:
		b.WriteString("    state: not loaded yet\n")
	default:
		b.WriteString("    state: durable\n")
	}
	if last != nil && last.Error != "" {
		b.WriteString("    manifests: NOT reloaded\n")
	}
	switch {
	case rights == nil:
	case rights.Missing > 0:
		fmt.Fprintf(&b, "    rights: %d of %d are missing\n", rights.Missing, rights.Needed)
	case rights.Unknown != "":
		b.WriteString("    rights: not known\n")
	}
	if ready {
		b.WriteString("ready\n")
	} else {
		b.WriteString("not ready; informd status says why\n")
	}
	return ready, b.String()
}

// ofReplica returns whether a replica is ready, and what /readyz says of it.
func ofReplica(own replica.Info) (ready bool, line string) {
	mark, lacks := "[-]", ""
	switch takesPart := own.Role == replica.Leads || own.Role == replica.Follows; {
	case !takesPart || own.Leader == "":
	case own.Trouble != "":
		lacks = ", in trouble"
	case !own.IsCaughtUp:
		lacks = ", not caught up"
	default:
		ready, mark = true, "[+]"
	}
	return ready, fmt.Sprintf("%s replica %s: %s%s\n", mark, own.Name, own.Role, lacks)
}

// httpServer serves HTTP. The nil httpServer serves nothing.
type httpServer struct {
	listener net.Listener
	http     *http.Server
	shown    atomic.Pointer[http.ServeMux]
}

// listen begins to listen. show says what is served, and must be called before run.
func listen(address string) (*httpServer, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	s := &httpServer{listener: l}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.shown.Load().ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	return s, nil
}

// show makes mux what is served from now on.
func (s *httpServer) show(mux *http.ServeMux) {
	if s != nil {
		s.shown.Store(mux)
	}
}

// run serves until ctx ends, and gives requests in progress a second.
func (s *httpServer) run(ctx context.Context, log *slog.Logger) error {
	if s == nil {
		return nil
	}
	log.Info("serving /livez, /readyz and /metrics", "address", s.listener.Addr().String())
	s.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	var group errgroup.Group
	group.Go(func() error {
		err := s.http.Serve(s.listener)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		// run returns the error only at the end, and whoever probes /readyz needs it now.
		log.Error("no longer serving /livez, /readyz and /metrics; the rest goes on", "error", err)
		return fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
	})
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.http.Shutdown(stopping) != nil {
		_ = s.http.Close() // clients that still read have had a second
	}
	return group.Wait()
}
