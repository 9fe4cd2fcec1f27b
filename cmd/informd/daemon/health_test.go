package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A server that fails while the daemon runs says so at once, and not only when that ends.
func TestServerFails(t *testing.T) {
	s, err := listen("127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	said := &awaited{text: "no longer serving", heard: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, slog.New(slog.NewTextHandler(said, nil))) }()
	if err := s.listener.Close(); err != nil { // as if the system had
		t.Fatal(err)
	}
	<-said.heard
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "serve 127.0.0.1:") {
		t.Errorf("got %v", err)
	}
}

// awaited is a log that signals when a text is written to it.
type awaited struct {
	text  string
	heard chan struct{}
	once  sync.Once
}

func (a *awaited) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(a.text)) {
		a.once.Do(func() { close(a.heard) })
	}
	return len(p), nil
}
