//go:build linux

package host_test

import (
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/host"
)

// A connection that outlives the process delays nobody.
func TestAccomplice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// A SETTINGS frame with MAX_CONCURRENT_STREAMS 0: every call waits.
			_, _ = conn.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0})
			go func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() }()
		}
	}()
	s := spec("accomplice")
	s.Env = append(s.Env, "VICTIM="+path)
	ended := make(chan error, 1)
	go func() { ended <- try(t, s, host.Options{StartTimeout: 5 * time.Second}) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "it was not ready within 5s of its start") {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the connection")
	}
}

// However large a handler's description or its problems with the config are, they take little of
// the daemon's memory.
func TestInflates(t *testing.T) {
	for _, call := range []string{"describe", "configure"} {
		s := spec("inflates")
		s.Env = append(s.Env, "CALL="+call)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := try(t, s, host.Options{})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), call+" failed: grpc: received message larger than max") {
			t.Errorf("%s: got %.300v", call, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: it took %d MiB", call, took>>20)
		}
	}
}
