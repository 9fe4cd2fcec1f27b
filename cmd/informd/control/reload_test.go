package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The client waits for a reload as long as it takes, and gets the daemon's report unchanged.
func TestReload(t *testing.T) {
	b := newBackend()
	b.reload = func(_ context.Context, name string) (Reloaded, error) {
		switch name {
		case "oncall":
			return Reloaded{PID: 7, Notes: []string{"a note"}}, nil
		case "idle":
			return Reloaded{}, &Error{Code: http.StatusConflict, Message: "no", Report: "a\n  b\n"}
		}
		return Reloaded{}, fmt.Errorf("handler %q: %w", name, ErrNotFound)
	}
	c, _ := serve(t, b)
	if c.patient.Transport.(*http.Transport).ResponseHeaderTimeout != 0 {
		t.Error("the client is not patient")
	}
	if got, err := c.ReloadHandler(t.Context(), "oncall"); err != nil || got.PID != 7 || len(got.Notes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := c.ReloadHandler(t.Context(), "idle")
	if said, ok := errors.AsType[*Error](err); !ok || *said != (Error{Code: http.StatusConflict, Message: "no", Report: "a\n  b\n"}) {
		t.Errorf("%+v", err)
	}
	if _, err := c.ReloadHandler(t.Context(), "onkall"); err == nil || !strings.Contains(err.Error(), `no handler "onkall"; did you mean oncall?`) {
		t.Errorf("%v", err)
	}
	r, err := raw(c.socket).Post("http://informd/v1/handlers/reload", "application/json", strings.NewReader(`{"handler":"oncall","force":true}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("of a field that nobody knows: %s", r.Status)
	}
}

// The end of the command calls the reload off.
func TestReloadIsCancelled(t *testing.T) {
	b := newBackend()
	begun, ended := make(chan struct{}), make(chan error, 1)
	b.reload = func(ctx context.Context, _ string) (Reloaded, error) {
		close(begun)
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
		}
		ended <- ctx.Err()
		return Reloaded{}, ctx.Err()
	}
	c, _ := serve(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.ReloadHandler(ctx, "oncall"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client says %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the daemon goes on: %v", err)
	}
}
