package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/engine/object"
)

// Whoever does not read does not keep the daemon from ending.
func TestShutdownWithClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	b := newBackend()
	o := parse(t, `{"metadata":{"name":"large"},"data":"`+strings.Repeat("x", 64<<10)+`"}`)
	b.objects.Objects = slices.Repeat([]*object.Object{o}, 4000)
	socket := filepath.Join(shortDir(t), "control.sock")
	s, err := New(socket, b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	conn := ask(t, socket, "/v1/objects?source=pods&as=objects")
	defer func() { _ = conn.Close() }()
	cancel()
	if err := <-ended; err != nil { // the test's own time limit is the bound
		t.Error(err)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there")
	}
}

// A server whose socket fails says so at once, and in the end.
func TestServerFails(t *testing.T) {
	s, err := New(filepath.Join(shortDir(t), "control.sock"), newBackend(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	said := &awaited{text: "no longer serving", heard: make(chan struct{})}
	s.log = slog.New(slog.NewTextHandler(said, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.listener.UnixListener.Close(); err != nil { // as if the system had
		t.Fatal(err)
	}
	<-said.heard
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "serve ") {
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

// One that is not to run after all leaves nothing behind; the nil Server is none.
func TestClose(t *testing.T) {
	socket := filepath.Join(shortDir(t), "control.sock")
	s, err := New(socket, newBackend(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there")
	}
	s = nil
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}
