package host_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// readBy makes a reader read.
func readBy(t *testing.T, h *host.Host, r reading) (out found) {
	t.Helper()
	payload, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	ev := pod("read")
	ev.Object, ev.Old, ev.Payload = nil, nil, payload
	answer, err := h.Handle(t.Context(), ev)
	if err != nil || len(answer.Actions) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	if err := json.Unmarshal(answer.Actions[0].Object, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readerSpec is a reader that may read some sources.
func readerSpec(read ...string) host.Spec {
	s := spec("reader")
	s.Read = read
	return s
}

var allSources = host.Options{Cache: cached{"nodes", "pods", "secrets"}}

// wantAll checks what a reader found.
var wantAll = found{
	Get: `{"metadata":{"namespace":"shop","name":"pod-0007"},"n":7,"x":`, Gone: true, Many: []int{999, 550}, Listed: 1000,
	Part: []int{501, 502}, ByIndex: []int{3, 103, 203, 303, 403, 503, 603, 703, 803, 903},
	IndexKeys: []string{"shop/pod-0003", "shop/pod-0103"}, IndexValues: []string{"node-0", "node-1"},
}

func checkAll(t *testing.T, got found) {
	t.Helper()
	got.Socket, got.Get = "", got.Get[:min(len(got.Get), len(wantAll.Get))]
	if diff := cmp.Diff(wantAll, got); diff != "" {
		t.Error(diff)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	h := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	checkAll(t, readBy(t, h, reading{Source: "pods"}))

	got := readBy(t, h, reading{Source: "secrets"})
	if want := `read the cache: not allowed: handler "reader" may not read source "secrets": to allow it, add to its manifest spec: {access: {read: [pods, secrets]}}`; got.Kind != "denied" || got.Error != want {
		t.Errorf("%s: %s", got.Kind, got.Error)
	}
	if got := readBy(t, h, reading{Source: "pds"}); got.Kind != "unknown" || !strings.Contains(got.Error, `did you mean "pods"?`) {
		t.Errorf("%s: %s", got.Kind, got.Error)
	}
	// Three refusals: of the two sources, and of the index that does not exist.
	waitFor(t, "the counts", func() bool { s := h.Status(); return s.Reads.Calls >= 12 && s.Reads.Refused == 3 })
}

// Without access.read there is no socket, and the error names the field that would give the handler
// one.
func TestNoAccess(t *testing.T) {
	t.Parallel()
	h := start(t, readerSpec(), allSources)
	ready(t, h)
	got := readBy(t, h, reading{Source: "pods"})
	if got.Socket != "" || got.Kind != "denied" || !strings.Contains(got.Error, "spec: {access: {read: [SOURCE, …]}}") {
		t.Errorf("%+v", got)
	}
}

// Try gives a handler nothing to read, and its calls fail at once.
func TestTryWithoutCache(t *testing.T) {
	t.Parallel()
	s := readerSpec("pods")
	s.Config = json.RawMessage(`"read"`)
	if err := try(t, s, host.Options{}); err == nil || !strings.Contains(err.Error(), "there is no cache to read: the handler was started only for a check") {
		t.Errorf("got %v", err)
	}
	if err := try(t, s, allSources); err != nil {
		t.Error(err)
	}
}

// Only its own process may use a socket: another handler of the same user is refused.
func TestOtherHandlersCache(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("who is at a socket is known on Linux only")
	}
	log := &recorder{}
	rich := allSources
	rich.Logger = log.logger()
	h := start(t, readerSpec("secrets"), rich)
	poor := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	ready(t, poor)
	path := strings.TrimPrefix(readBy(t, h, reading{Source: "secrets"}).Socket, "unix:")
	if got := readBy(t, h, reading{Source: "secrets", Path: path}); got.Error != "" {
		t.Errorf("its own socket: %s", got.Error)
	}
	if got := readBy(t, poor, reading{Source: "secrets", Path: path}); got.Kind != "other" {
		t.Errorf("another's socket: %+v", got)
	}
	if !strings.Contains(strings.Join(log.lines(), "\n"), "WARN refused a process on the socket where a handler reads the cache") {
		t.Errorf("the log does not tell: %v", log.lines())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", dir, err)
	}
}

// A reload changes what may be read. Each process has its own socket for as long as it lives.
func TestReloadAccess(t *testing.T) {
	t.Parallel()
	h := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	before := readBy(t, h, reading{Source: "pods"})
	if err := h.Reload(t.Context(), readerSpec("nodes")); err != nil {
		t.Fatal(err)
	}
	after := readBy(t, h, reading{Source: "nodes"})
	checkAll(t, after)
	if got := readBy(t, h, reading{Source: "pods"}); got.Kind != "denied" {
		t.Errorf("what is no longer allowed: %+v", got)
	}
	if before.Socket == after.Socket || after.Socket == "" {
		t.Errorf("the sockets are %s and %s", before.Socket, after.Socket)
	}
	waitFor(t, "the end of the first socket", func() bool {
		_, err := os.Stat(strings.TrimPrefix(before.Socket, "unix:"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// A confined handler can reach its socket, and nothing more than that requires.
func TestConfinedCache(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("handlers are confined on Linux only, and only root can run one as another user")
	}
	binary := publicBinary(t)
	confined := func(t *testing.T, c confine.Spec) *host.Host {
		s := readerSpec("pods")
		s.Path, s.Confine = binary, c
		o := allSources
		o.RunDir, o.TempDir = publicDir(t), publicDir(t)
		h := start(t, s, o)
		waitFor(t, "a state", func() bool { return h.Status().State == host.Running || h.Status().State == host.Refused })
		return h
	}
	for name, c := range map[string]confine.Spec{
		"as a user":              {User: rogueUser},
		"as a user in a sandbox": {User: rogueUser, Sandbox: true},
		"with a network":         {User: rogueUser, Sandbox: true, Network: confine.Network{Ports: []uint16{443}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := confined(t, c)
			if status := h.Status(); status.State == host.Refused {
				t.Skip("this kernel cannot confine: ", status.Reason)
			}
			checkAll(t, readBy(t, h, reading{Source: "pods"}))
			if says := strings.Contains(h.Status().Confined, "but for unix sockets that its user may connect to"); says != c.Sandbox {
				t.Errorf("it is said to be confined to %q", h.Status().Confined)
			}
		})
	}
	// Root may connect to every socket there is.
	h := confined(t, confine.Spec{Sandbox: true})
	if status := h.Status(); status.State != host.Refused || !strings.Contains(status.Reason, "give the handler a user, or leave out access.read") {
		t.Errorf("as root in a sandbox: %+v", status)
	}
}

// The socket is removed with the process, however that ends.
func TestCacheOfACrashedProcess(t *testing.T) {
	t.Parallel()
	h := start(t, readerSpec("pods"), host.Options{Cache: allSources.Cache, Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	first := readBy(t, h, reading{Source: "pods"})
	p, err := os.FindProcess(h.Status().PID)
	if err != nil || p.Kill() != nil {
		t.Fatal(err)
	}
	waitFor(t, "another process", func() bool { return h.Status().Restarts == 1 && h.Status().State == host.Running })
	second := readBy(t, h, reading{Source: "pods"})
	checkAll(t, second)
	if first.Socket == second.Socket {
		t.Error("two processes have had one socket")
	}
	if _, err := os.Stat(strings.TrimPrefix(first.Socket, "unix:")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first process's socket: %v", err)
	}
}
