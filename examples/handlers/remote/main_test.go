package main

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler/handlertest"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
)

// TestMain re-executes the test binary as the handler.
func TestMain(m *testing.M) {
	if os.Getenv("TLS_DIR") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The files are where cert-manager has them; the handler keeps the contract, and ends when it is
// told to.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	cert, key := ca.Issue(t, "oncall", "oncall.informd.svc")
	for from, to := range map[string]string{cert: "tls.crt", key: "tls.key", ca.File: "ca.crt"} {
		if err := os.Symlink(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	spec := &handlertest.RemoteHandler{Host: "127.0.0.1", ServerName: "oncall.informd.svc", CA: ca.File}
	spec.Cert, spec.Key = ca.Issue(t, "informd")

	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	spec.Port = netip.MustParseAddrPort(address).Port()
	_ = listener.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TLS_DIR="+dir, "ADDRESS="+address)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	handlertest.Run(t, handlertest.Options{Remote: spec})
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
