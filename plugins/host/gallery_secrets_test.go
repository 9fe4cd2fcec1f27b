//go:build linux

package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// TestSecrets shows what a handler can reach that is not its own: everything with the daemon's
// rights, public things as another user, and nothing in a sandbox. The unconfined case shows that
// the probes work.
func TestSecrets(t *testing.T) {
	const secret = "the daemon's secret"
	inMemory := []byte(secret)
	dir := publicDir(t)
	private := filepath.Join(dir, "state")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(path string, mode os.FileMode) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(secret), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	state := put(filepath.Join(private, "events"), 0o644)
	kubeconfig := put(filepath.Join(dir, "kubeconfig"), 0o600)
	readable := put(filepath.Join(dir, "readable"), 0o644)
	shared := filepath.Join(dir, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()

	n := newNeighbour(t)
	sockets := shortDir(t)
	s := spec("echo")
	s.Name = "neighbour"
	ready(t, start(t, s, host.Options{RunDir: sockets}))
	socket, err := filepath.Glob(sockets + "/plugin-dir*/plugin*")
	if err != nil || len(socket) != 1 {
		t.Fatal(socket, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepting := make(chan struct{})
	go func() { defer close(accepting); accept(listener) }()
	defer func() { _ = listener.Close(); <-accepting }()

	here := target{PID: os.Getpid(), Address: addressOf(inMemory), Size: len(inMemory), Port: listener.Addr().(*net.TCPAddr).Port}
	at := func(path string) target { to := here; to.Path = path; return to }
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	hidden := strings.Contains(string(mounts), "hidepid=") // other users' processes
	cases := []struct {
		probe  string
		at     target
		finds  string // without confinement
		asUser bool   // another user finds it, too: it is everybody's
	}{
		{"memory", here, secret, false},
		{"memory by system call", here, secret, false},
		{"trace", here, "attached", false},
		{"signal", here, "sent", false},
		{"environment", here, "PATH=", false},
		{"command line", here, "test", !hidden},
		{"open file", at(fmt.Sprint(open.Fd())), secret, false},
		{"file", at(state), secret, false},
		{"file", at(kubeconfig), secret, false},
		{"file", at(readable), secret, true},
		{"file", at("/etc/shadow"), "root:", false},
		{"folder", at(private), "events", false},
		{"folder", at("/proc/1"), "status", !hidden},
		{"writing", at(filepath.Join(private, "new")), "written", false},
		{"writing", at(filepath.Join(shared, "new")), "written", true},
		{"socket", at(socket[0]), "connected", false},
		{"network", here, "connected", true},
		{"privileges", here, "may gain privileges", true},
	}
	nothing := func(string, bool) bool { return false }
	for _, c := range []struct {
		confined string
		confine  confine.Spec
		may      func(probe string, asUser bool) bool
	}{
		{"by nothing", confine.Spec{}, func(string, bool) bool { return true }},
		{"to a sandbox", confine.Spec{Sandbox: true}, nothing},
		{"to another user", confine.Spec{User: rogueUser}, func(_ string, asUser bool) bool { return asUser }},
		{"to both", confine.Spec{Sandbox: true, User: rogueUser}, nothing},
		{"to both, with ports", confine.Spec{Sandbox: true, User: rogueUser, Network: confine.Network{Ports: []uint16{1}}}, nothing},
		{"to both, with the network", confine.Spec{Sandbox: true, User: rogueUser, Network: confine.Network{All: true}}, func(probe string, _ bool) bool {
			return probe == "network"
		}},
	} {
		t.Run(c.confined, func(t *testing.T) {
			confined := c.confine.Sandbox || c.confine.User != ""
			if os.Geteuid() != 0 && (!confined || c.confine.User != "") {
				t.Skip("without confinement only root sees everything, and only root can run a handler as another user")
			}
			mark := "ROGUE=" + strconv.Itoa(os.Getpid()) + "/" + t.Name()
			before := takeStock()
			t.Cleanup(func() { before.checkNow(t, mark) }) // once the host has ended
			stream := n.traffic(t)
			t.Cleanup(func() { stream.end(t) })
			s := spec("probe")
			s.Path, s.Dir = publicBinary(t), publicDir(t)
			s.Confine, s.Env = c.confine, append(s.Env, mark)
			h := start(t, s, host.Options{RunDir: publicDir(t), TempDir: publicDir(t)})
			waitFor(t, "its start", func() bool { st := h.Status().State; return st == host.Running || st == host.Refused })
			if st := h.Status(); st.State == host.Refused && strings.Contains(st.Reason, "landlock") {
				t.Skip("this kernel has no sandbox: ", st.Reason)
			}
			ready(t, h)
			if confined && h.Status().Confined == "" {
				t.Error("the status does not say what it is confined to")
			}
			for _, p := range cases {
				found, err := ask(t, h, p.probe, p.at)
				what := strings.TrimSpace(p.probe + " " + p.at.Path)
				switch may := c.may(p.probe, p.asUser); {
				case may && (err != nil || !strings.Contains(found, p.finds)):
					t.Errorf("%s: found %.100q, %v; there is %q", what, found, err, p.finds)
				case !may && err == nil:
					t.Errorf("%s: found %.100q", what, found)
				}
			}
			if _, err := ask(t, h, "its own files", here); err == nil || err.Error() != "all well" {
				t.Errorf("what it may: %v", err)
			}
			if found, err := ask(t, h, "inherited", here); err == nil {
				t.Errorf("it has inherited %s", found)
			}
		})
	}
}

// ask sends a probe.
func ask(t *testing.T, h *host.Host, name string, at target) (found string, err error) {
	t.Helper()
	ev := pod(name)
	ev.Object, ev.Old = nil, nil
	if ev.Payload, err = json.Marshal(at); err != nil {
		t.Fatal(err)
	}
	a, err := h.Handle(t.Context(), ev)
	if err == nil {
		err = json.Unmarshal(a.Actions[0].Object, &found)
	}
	return found, err
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// publicDir returns a temporary directory that every user can reach.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// publicBinary returns a copy of this binary that every user may execute. The folder of the
// original is private.
func publicBinary(t *testing.T) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(publicDir(t), "rogue")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
