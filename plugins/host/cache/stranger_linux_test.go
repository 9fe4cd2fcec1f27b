package cache

import (
	"log/slog"
	"net"
	"os/exec"
	"testing"
)

// Processes that are not the handler's take none of its places, however often they connect.
func TestStrangersTakeNoPlace(t *testing.T) {
	handler := exec.Command("sleep", "60")
	if err := handler.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = handler.Process.Kill(), handler.Wait() }()
	s := servedTo(t, handler.Process.Pid, slog.New(slog.DiscardHandler), &fake{})
	for n := range 4 * maxConnections {
		conn, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Fatalf("a stranger reads %d bytes", n)
		}
		_ = conn.Close()
		if taken := len(s.listener.places); taken > 1 { // the next connection's
			t.Fatalf("after %d strangers, %d places are taken", n+1, taken)
		}
	}
}
