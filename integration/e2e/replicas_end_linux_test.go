package e2e

import (
	"errors"
	"fmt"
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
// even if its handler is frozen in a delivery, and if the disk of its certificate or its log hangs,
// too.
func TestReplicasEndInTime(t *testing.T) {
	t.Parallel()
	harms := map[string]func(d *harness.Daemon, certs string) error{
		"a handler and the disk of the certificate": func(_ *harness.Daemon, certs string) error {
			path := filepath.Join(certs, "tls.crt")
			if err := os.Remove(path); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600) // whoever opens it hangs
		},
	}
	if harness.Soak() {
		harms["a handler is frozen"] = func(*harness.Daemon, string) error { return nil }
		harms["a handler and the log"] = func(d *harness.Daemon, _ string) error { return hangLog(d) }
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endReplicaInTime(t, harm)
		})
	}
}

// hangLog fills the pipe of a daemon's log. Nobody reads it until the daemon has ended.
func hangLog(d *harness.Daemon) error {
	pid, hangs := d.Cmd.Process.Pid, make(chan struct{})
	go d.Until("the end", func() bool { // nothing is read meanwhile
		close(hangs)
		for !harness.HasEnded(pid) {
			time.Sleep(10 * time.Millisecond)
		}
		return true
	})
	<-hangs
	pipe, err := syscall.Open(fmt.Sprintf("/proc/%d/fd/2", pid), syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(pipe)
	for range 3 { // what is being read at first makes room
		for err == nil {
			_, err = syscall.Write(pipe, []byte("x\n"))
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		err = nil
	}
	return nil
}

func endReplicaInTime(t *testing.T, harm func(d *harness.Daemon, certs string) error) {
	stalls := harness.Stalls(t)
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
	if err := harm(d, certsOf[leader]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond) // it looks at its certificate once a second
	began := time.Now()
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next := delivering()
	led := time.Since(began)
	select {
	case <-d.Ended:
	case <-time.After(harness.Patience):
		_ = d.Cmd.Process.Signal(syscall.SIGQUIT)
		<-d.Ended
	}
	took := time.Since(began)
	t.Logf("%s led; %s delivered after %v, and the former leader ended after %v", leader, next, led, took)
	if led > 28*time.Second+stalls() { // it hands over after 22
		t.Errorf("another replica delivered after %v only", led)
	}
	if took > 30*time.Second+stalls() {
		log := d.Logged()
		t.Errorf("the replica ended after %v:\n%s", took, log[max(0, len(log)-6000):])
	}
}
