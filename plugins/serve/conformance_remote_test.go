package serve

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
)

// serveRemote is a handler that runs elsewhere: a writer that reads no cache.
func serveRemote(address string) error {
	return Remote(&forgetful{}, RemoteOptions{
		Address: address, CertFile: os.Getenv("CERT"), KeyFile: os.Getenv("KEY"), ClientCAFile: os.Getenv("CA"),
	})
}

type forgetful struct{ writer }

func (f *forgetful) UseCache(handler.Cache) { f.cache = nil }

// startRemote runs a handler at an address of its own.
func startRemote(t *testing.T) *handlertest.RemoteHandler {
	t.Helper()
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	cert, key := ca.Issue(t, "handler", "handler.test", "127.0.0.1")
	spec := &handlertest.RemoteHandler{Host: "127.0.0.1", CA: ca.File}
	spec.Cert, spec.Key = ca.Issue(t, "informd")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(address)
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	spec.Port = uint16(number)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REMOTE="+address, "CERT="+cert, "KEY="+key, "CA="+ca.File, "GORACE=atexit_sleep_ms=0 halt_on_error=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return spec
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// The suite checks a remote handler where it runs, without the clauses about starting and ending a
// process.
func TestRemoteSuite(t *testing.T) {
	spec := startRemote(t)
	config, err := json.Marshal(map[string]string{"file": filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	o := handlertest.Options{Remote: spec, Config: config, Timeout: 5 * time.Second}
	var held, elsewhere []string
	for r := range handlertest.Check(t.Context(), o) {
		switch {
		case r.Holds():
			held = append(held, r.Clause)
		case len(r.Problems) > 0:
			t.Errorf("%+v", r)
		case r.NotChecked == "it is for whoever starts the handler":
			elsewhere = append(elsewhere, r.Clause)
		}
	}
	want := []string{
		"starts, describes itself and takes its config", "refuses a bad config", "serves gRPC's health service", "answers", "answers a repeat",
		"answers in parallel", "answers strange events", "answers large events", "goes on after a cancel", "lets go of what is cancelled",
		"answers what it has when the stream ends",
	}
	if !slices.Equal(held, want) || !slices.Contains(elsewhere, "comes back after kill -9") {
		t.Errorf("these hold: %q\nthese are for others: %q", held, elsewhere)
	}

	for what, c := range map[string]struct {
		change func(*handlertest.RemoteHandler)
		want   string
	}{
		"another's name":      {func(s *handlertest.RemoteHandler) { s.ServerName = "other.test" }, "its certificate is for another name"},
		"another's authority": {func(s *handlertest.RemoteHandler) { s.CA = testca.New(t, t.TempDir(), "other").File }, "not signed by an authority in tls.ca"},
		"nobody there":        {func(s *handlertest.RemoteHandler) { s.Port = 1 }, "connection refused"},
		"not let in": {func(s *handlertest.RemoteHandler) {
			s.Cert, s.Key = testca.New(t, t.TempDir(), "other").Issue(t, "informd")
		}, "tls.cert was not accepted"},
	} {
		other := *spec
		c.change(&other)
		o.Remote = &other
		for r := range handlertest.Check(t.Context(), o) {
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], c.want) {
				t.Errorf("%s: %+v", what, r)
			}
			break
		}
	}
}

// The suite reports what is wrong with the config in the handler's own words. Without a config it is
// {}, as for every handler.
func TestRemoteRefuses(t *testing.T) {
	spec := startRemote(t)
	for r := range handlertest.Check(t.Context(), handlertest.Options{Remote: spec}) {
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "it refuses its config: file is required, and nothing else is known") {
			t.Errorf("%+v", r)
		}
		break
	}
}
