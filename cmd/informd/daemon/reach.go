package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/informd/informd/engine"
	"github.com/informd/informd/internal/bounded"
)

const (
	probeEvery = 3 * time.Second // how often a replica asks the API server whether it is there
	probeLimit = 5 * time.Second // how long it waits for an answer
	// unableAfter is after how long without an answer a replica says that it could not lead.
	unableAfter = 15 * time.Second
)

// reach knows when this informd has last had an answer from the API server, whatever it does
// otherwise.
type reach struct {
	client  *http.Client
	version string // the URL
	log     *slog.Logger

	mu   sync.Mutex // guards the fields below
	last time.Time  // of an answer, or of the start
	err  error      // of the probe before; nil if it succeeded
}

func newReach(cluster engine.Cluster, log *slog.Logger) *reach {
	version, err := url.JoinPath(cluster.Config.Host, "version")
	if err != nil {
		version = cluster.Config.Host
	}
	return &reach{client: bounded.Client(cluster.HTTP), version: version, log: log, last: time.Now()}
}

// probe asks the API server again and again until ctx ends.
func (r *reach) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		err := r.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		if r.err = err; err == nil {
			r.last = time.Now()
		}
		r.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask returns nil if the API server answers, even if it forbids informd to ask for its version.
func (r *reach) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.version, nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection stays
	if err := response.Body.Close(); err != nil {
		return err
	}
	if code := response.StatusCode; code == http.StatusUnauthorized || code >= http.StatusInternalServerError {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// unable returns why this informd could not lead, or "".
func (r *reach) unable() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := time.Since(r.last); age > unableAfter {
		return fmt.Sprintf("it has not reached the API server for %v: %v", age.Round(time.Second), r.err)
	}
	return ""
}
