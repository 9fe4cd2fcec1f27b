package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// Kubernetes gives a Pod 30 seconds. A replica that leads ends within them, and another one leads,
// even if its handler is frozen in a delivery, and if the disk of its certificate hangs, too.
func TestReplicasEndInTime(t *testing.T) {
	t.Parallel()
	harms := map[string]func(certs string) error{
		"a handler and the disk of the certificate": func(certs string) error {
			path := filepath.Join(certs, "tls.crt")
			if err := os.Remove(path); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600) // whoever opens it hangs
		},
	}
	if harness.Soak() {
		harms["a handler is frozen"] = func(string) error { return nil }
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endReplicaInTime(t, harm)
		})
	}
}

func endReplicaInTime(t *testing.T, harm func(certs string) error) {
	shared := cluster.Shared(t)
	k := harness.NewKube(t, shared)
	manifest := k.Text(harness.Source("maps", harness.ConfigMaps) +
		harness.Handler("sleeps", "builtin: exec, timeout: 10m, config: {command: [sleep, '600']}") +
		harness.Rule("all", `source: maps, where: object.metadata.name == "one", handler: sleeps`))
	certs, certsOf := harness.ShortDir(t), make(map[string]string)
	if code, _, stderr := harness.Informd(t, "certs", certs, "--names", "a,b,c"); code != 0 {
		t.Fatalf("informd certs: %s", stderr)
	}
	var peers []string
	for _, name := range []string{"a", "b", "c"} {
		peers = append(peers, name+"="+freeOnAllHosts(t))
		certsOf[name] = harness.ShortDir(t)
		if err := os.CopyFS(certsOf[name], os.DirFS(certs)); err != nil {
			t.Fatal(err)
		}
	}
	running := make(map[string]*harness.Daemon)
	for name, certs := range certsOf {
		running[name] = harness.RunInformd(t, shared.Kubeconfig(), manifest, "--log-level", "info",
			"--state-dir", harness.ShortDir(t), "--name", name, "--peers", strings.Join(peers, ","),
			"--peer-tls", certs)
	}
	k.Create(harness.ConfigMap("one", "{}"))
	// delivering waits until a replica delivers the event.
	delivering := func() (leader string) {
		t.Helper()
		k.Eventually("a replica to deliver", func() bool {
			for name, d := range running {
				_, metrics := d.GetWithin(2*time.Second, "/metrics")
				if strings.Contains(metrics, "\ninformd_handler_in_flight{handler=\"sleeps\"} 1\n") {
					leader = name
					return true
				}
			}
			return false
		})
		return leader
	}
	leader := delivering()
	d := running[leader]
	delete(running, leader)
	for _, pid := range harness.Descendants(d.Cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err := harm(certsOf[leader]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond) // it looks at its certificate once a second
	began := time.Now()
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Ended:
	case <-time.After(harness.Patience):
		_ = d.Cmd.Process.Signal(syscall.SIGQUIT)
		<-d.Ended
	}
	took := time.Since(began)
	t.Logf("the replica ended after %v", took)
	if took > 30*time.Second {
		log := d.Logged()
		t.Errorf("the replica ended after %v:\n%s", took, log[max(0, len(log)-6000):])
	}
	t.Logf("%s led, and %s leads after %v more", leader, delivering(), time.Since(began)-took)
}
