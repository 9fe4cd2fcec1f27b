package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// A probe tries these. As root, an unconfined probe succeeds at all but two: no handler may use the
// control socket, and another handler's calls need a certificate.
var (
	attempts = []string{
		"daemon's memory, by its file", "daemon's memory, by its number", "daemon's environment", "daemon's descriptors", "daemon's signals",
		"state directory, to read", "state directory, to write", "kubeconfig", "control socket", "another handler's socket", "another handler's calls",
		"network", "network, a port that may be allowed", "network, datagrams", "network, to be served", "privileges",
		"the manifest's folder",
	}
	// rootsAttempts are those at which only root can succeed: the daemon is not dumpable.
	rootsAttempts = []string{"daemon's memory, by its file", "daemon's memory, by its number", "daemon's environment", "daemon's descriptors", "privileges"}
	network       = []string{"network", "network, a port that may be allowed", "network, datagrams", "network, to be served"}
	granted       = []string{"granted: files", "granted: temporary files", "granted: its folder", "granted: commands"}
)

// A confined handler reaches what its manifest grants and nothing else: not the daemon's memory,
// environment, state, kubeconfig or control socket, not another handler's socket, and not the
// network. An unconfined handler reaches all that the daemon's user may; otherwise the test would
// show nothing.
func TestConfinedHandlers(t *testing.T) {
	t.Parallel()
	listeners := make([]net.Listener, 2)
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer listeners[i].Close()
	}
	allowed := listeners[1].Addr().(*net.TCPAddr).Port
	type probe struct {
		spec    string
		reaches []string
	}
	probes := map[string]probe{
		"free":    {"", slices.DeleteFunc(slices.Clone(attempts), func(s string) bool { return s == "control socket" || s == "another handler's calls" })},
		"boxed":   {"sandbox: true, files: {read: [./given], write: [./results]}", nil},
		"ports":   {fmt.Sprintf("sandbox: true, network: [%d], files: {read: [./given], write: [./results]}", allowed), []string{"network, a port that may be allowed"}},
		"network": {"sandbox: true, network: all, files: {read: [./given], write: [./results]}", network},
	}
	if os.Getuid() == 0 {
		probes["nobody"] = probe{"user: nobody", append([]string{"the manifest's folder"}, network...)}
		for _, name := range []string{"ports", "network"} { // informd as root refuses these without a user
			probes[name] = probe{probes[name].spec + ", user: nobody", probes[name].reaches}
		}
		probes["nobody-boxed"] = probe{"user: nobody, sandbox: true, files: {read: [./given], write: [./results]}", nil}
	} else {
		free := probes["free"]
		free.reaches = slices.DeleteFunc(free.reaches, func(s string) bool { return slices.Contains(rootsAttempts, s) })
		probes["free"] = free
	}
	var manifests strings.Builder
	manifests.WriteString(harness.Source("configmaps", "resource: v1/configmaps"))
	for name, p := range probes {
		spec := fmt.Sprintf("command: [./player, probe, %q, %s]", "DIR/results", name)
		if p.spec != "" {
			spec += ", " + p.spec
		}
		manifests.WriteString(harness.Handler(name, spec) + harness.Rule(name, "source: configmaps, handler: "+name))
	}
	s := harness.NewStage(t, manifests.String())
	results, given := filepath.Join(s.Dir, "results"), filepath.Join(s.Dir, "given")
	if err := os.Mkdir(results, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(results, 0o777); err != nil { // so that the user nobody can write there, whatever the umask
		t.Fatal(err)
	}
	if err := os.WriteFile(given, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Open(t, nil)
	for name := range probes {
		var h harness.HandlerStatus
		s.Poll(name+" to run", func() bool { h = s.StatusOf(name); return h.State == "running" || h.State == "refused" })
		if h.State == "refused" && strings.Contains(h.Reason, "landlock") {
			t.Skipf("this kernel has no sandbox: %s", h.Reason)
		}
		if h.State != "running" {
			t.Fatalf("%s: %+v", name, h)
		}
		if confined := probes[name].spec != ""; (h.Confined != "") != confined {
			t.Errorf("%s: informd status has it confined to %q", name, h.Confined)
		} else if confined {
			s.Until("a line in the log that says that "+name+" is confined to "+h.Confined, func() bool {
				_, found := harness.FindLine(s.Log.String(), "handler="+name+" ", h.Confined)
				return found
			})
			t.Logf("%s is confined to %s", name, h.Confined)
		}
	}
	s.AwaitRunning("steady")
	pid := s.Playing("steady")
	if len(pid) != 1 {
		t.Fatalf("steady are the processes %v", pid)
	}
	s.Stub.Apply(harness.ConfigMapResource, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"targets"},"data":{"PID":"%d","State":%q,"Kubeconfig":%q,`+
		`"Control":%q,"Socket":%q,"Address":%q,"Allowed":%q,"Granted":%q}}`,
		s.Cmd.Process.Pid, s.State, s.Kubeconfig, filepath.Join(s.State, "control.sock"), socketOf(t, pid[0]),
		listeners[0].Addr(), listeners[1].Addr(), given))

	for name, probe := range probes {
		var got map[string]string
		s.Poll(name+"'s results", func() bool {
			text, err := os.ReadFile(filepath.Join(results, name+".json"))
			return err == nil && json.Unmarshal(text, &got) == nil
		})
		for _, attempt := range append(attempts, granted...) {
			err, tried := got[attempt]
			reached := tried && err == ""
			// Kernels cannot yet keep a process from the socket of another one of its user, if it
			// may connect at all. There, only the calls count.
			if attempt == "another handler's socket" && strings.Contains(probe.spec, "network:") {
				continue
			}
			switch want := slices.Contains(probe.reaches, attempt) || slices.Contains(granted, attempt); {
			case !tried:
				t.Errorf("%s did not try: %s", name, attempt)
			case reached && !want:
				t.Errorf("%s reached: %s", name, attempt)
			case !reached && want:
				t.Errorf("%s did not reach: %s: %s", name, attempt, err)
			}
		}
	}
	s.Stop()
}

// socketOf returns the unix socket that a process listens on.
func socketOf(t *testing.T, pid int) string {
	t.Helper()
	inodes := make(map[string]bool)
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasPrefix(to, "socket:[") { // it may have been closed
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) == 8 && inodes[f[6]] && f[3] == "00010000" { // it listens
			return f[7]
		}
	}
	t.Fatalf("process %d listens on no unix socket", pid)
	return ""
}

// A daemon that cannot enforce a limit or a user does not start that handler. The handler's status
// says why, and the others run.
func TestUnenforceableConfinement(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	refused := map[string]string{"another-user": "user: '65533'", "processes": "limits: {processes: 10}", "cpu": "limits: {cpu: 500m}"}
	if os.Getuid() != 0 { // this user may have a delegated cgroup, which can enforce limits
		refused = map[string]string{"another-user": "user: '65533'"}
	}
	var manifests strings.Builder
	for name, spec := range refused {
		manifests.WriteString(harness.Handler(name, "command: [./player, victim, none, ./tempting], "+spec) + harness.Rule(name, "source: widgets, handler: "+name))
	}
	s := harness.NewStage(t, manifests.String())
	var attributes *syscall.SysProcAttr
	if os.Getuid() == 0 { // root may enforce all of them
		attributes = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chmod(filepath.Dir(harness.Binary), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(s.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		s.Kubeconfig = filepath.Join(s.Dir, "kubeconfig")
		if err := os.WriteFile(s.Kubeconfig, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{s.Dir, s.Rules(), s.Kubeconfig, s.Run, s.Temp, s.State} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Open(t, attributes, "HOME="+s.Dir, "XDG_STATE_HOME="+s.Dir)
	for name, spec := range refused {
		h := s.AwaitState(name, "refused")
		field, _, _ := strings.Cut(strings.NewReplacer("limits: {", "", "'", "").Replace(spec), ":")
		if !strings.Contains(h.Reason, field) {
			t.Errorf("%s: the reason does not say %q: %s", name, field, h.Reason)
		}
		t.Logf("%s: %s", name, h.Reason)
		if got := s.Playing("victim"); len(got) > 0 {
			t.Errorf("%s runs nevertheless: %v", name, got)
		}
		var line string
		s.Until("an error about "+name+" in the log", func() (found bool) {
			line, found = harness.FindLine(s.Log.String(), "handler="+name+" ", "level=ERROR")
			return found
		})
		if strings.Contains(line, "panic") {
			t.Errorf("%s: %s", name, line)
		}
	}
	s.Stub.Update(harness.WidgetResource, 100)
	s.Poll("steady to be told of everything", func() bool {
		return s.Metric(`informd_handler_deliveries_total{handler="steady",result="done",rule="steady"}`) == strconv.Itoa(harness.WidgetCount+100)
	})
	s.Stop()
}
