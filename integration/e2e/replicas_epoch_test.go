package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// Events say in which epoch they are sent, which grows from leader to leader: after a crash, and beside
// one that was stopped and goes on. Whoever leads performs the rule's own actions.
func TestEpochsOfReplicas(t *testing.T) {
	t.Parallel()
	shared := cluster.Shared(t)
	k := harness.NewKube(t, shared)
	manifest := k.Text(harness.Source("maps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("all", `source: maps, where: object.metadata.name startsWith "turn-", handler: log`) +
		harness.Rule("marks", `source: maps, where: object.metadata.name startsWith "turn-", actions: [
			{patch: {merge: {data: {marked: 'yes'}}}}]`))
	certs := harness.ShortDir(t)
	if code, _, stderr := harness.Informd(t, "certs", certs, "--names", "a,b,c"); code != 0 {
		t.Fatalf("informd certs: %s", stderr)
	}
	names := []string{"a", "b", "c"}
	var peers []string
	dirs, running := make(map[string]string), make(map[string]*harness.Daemon)
	for _, name := range names {
		peers = append(peers, name+"="+freeOnAllHosts(t))
		dirs[name] = harness.ShortDir(t)
	}
	start := func(name string) {
		running[name] = harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", dirs[name],
			"--log-level", "info", "--name", name, "--peers", strings.Join(peers, ","), "--peer-tls", certs)
	}
	for _, name := range names {
		start(name)
	}
	turn := 0
	// next makes a change, and returns who sends the event, in which epoch.
	next := func() (leader string, epoch handler.Epoch) {
		t.Helper()
		turn++
		object := fmt.Sprint("turn-", turn)
		k.Create(harness.ConfigMap(object, "{}"))
		k.Eventually("an event of "+object, func() bool {
			for name, d := range running {
				d.Until("anything", func() bool {
					for _, ev := range d.Events {
						if ev.Name == object && ev.Rule == "all" {
							leader, epoch = name, ev.Epoch
						}
					}
					return true
				})
			}
			return leader != ""
		})
		k.Eventually(object+" to be marked", func() bool {
			cm, err := k.ConfigMap(object)
			return err == nil && cm.Data["marked"] == "yes"
		})
		return leader, epoch
	}
	newer := func(epoch, before handler.Epoch) {
		t.Helper()
		if order, ok := epoch.Compare(before); !ok || order <= 0 || epoch.Generation != 1 {
			t.Errorf("the epoch is %v, and was %v before", epoch, before)
		}
	}

	leader, first := next()
	if first.Cluster == "" || first.Generation != 1 || first.Term == 0 {
		t.Errorf("the first epoch is %v", first)
	}
	if again, same := next(); again != leader || same != first {
		t.Logf("another one leads already: %s in %v", again, same) // the machine is very busy
		leader, first = again, same
	}

	killed := running[leader]
	delete(running, leader)
	_ = killed.Cmd.Process.Kill()
	<-killed.Ended
	second, epoch := next()
	newer(epoch, first)

	start(leader)
	running[leader].Poll("the replica to follow", func() bool {
		code, _ := running[leader].Get("/readyz")
		return code == 200
	})
	stopped := running[second]
	delete(running, second)
	if err := stopped.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, last := next()
	newer(last, epoch)
	if err := stopped.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_, after := next()
	if order, ok := after.Compare(last); !ok || order < 0 {
		t.Errorf("the epoch is %v, and was %v before", after, last)
	}
	time.Sleep(time.Second) // for what the former leader may still send
	stopped.Until("anything", func() bool {
		for _, ev := range stopped.Events {
			if order, _ := ev.Epoch.Compare(last); order >= 0 && ev.Epoch != after {
				t.Errorf("the one that was stopped sent %s in %v", ev.ID, ev.Epoch)
			}
		}
		return true
	})
}

// freeOnAllHosts returns an address whose port is free on all hosts, because replicas listen on all.
func freeOnAllHosts(t *testing.T) string {
	t.Helper()
	for {
		free := harness.FreeAddress(t)
		_, port, err := net.SplitHostPort(free)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			_ = l.Close()
			return free
		}
	}
}
