package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A replica whose store is in a newer format than its informd reads stays a replica, and does not
// lead, whoever else is lost: informd cluster status says why.
func TestReplicaOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	shared := cluster.Shared(t)
	k := harness.NewKube(t, shared)
	manifest := k.Text(harness.Source("maps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("all", `source: maps, where: object.metadata.name startsWith "turn-", handler: log`))
	certs := harness.ShortDir(t)
	if code, _, stderr := harness.Informd(t, "certs", certs, "--names", "a,b,c"); code != 0 {
		t.Fatalf("informd certs: %s", stderr)
	}
	var peers []string
	states, running := make(map[string]string), make(map[string]*harness.Daemon)
	for _, name := range []string{"a", "b", "c"} {
		peers = append(peers, name+"="+freeOnAllHosts(t))
		states[name] = harness.ShortDir(t)
	}
	start := func(name string) {
		running[name] = harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", states[name],
			"--log-level", "info", "--name", name, "--peers", strings.Join(peers, ","), "--peer-tls", certs)
	}
	// sender returns who sends the event of the next turn.
	turn := 0
	sender := func() (name string) {
		t.Helper()
		turn++
		object := fmt.Sprint("turn-", turn)
		k.Create(harness.ConfigMap(object, "{}"))
		k.Eventually("an event of "+object, func() bool {
			for of, d := range running {
				d.Until("anything", func() bool {
					for _, ev := range d.Events {
						if ev.Name == object {
							name = of
						}
					}
					return true
				})
			}
			return name != ""
		})
		return name
	}
	for name := range states {
		start(name)
	}
	leader := sender()
	old := ""
	for name := range states {
		if name != leader {
			old = name
		}
	}
	running[old].Stop()
	db, err := pebble.Open(filepath.Join(states[old], "store"), &pebble.Options{
		FormatMajorVersion: pebble.FormatValueSeparation, DisableWAL: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	newer := records.FormatOf(records.NewestFormat + 1)
	if err := errors.Join(db.Set(records.FormatKey, newer, pebble.NoSync), db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}

	start(old)
	const why = "it cannot lead until it is updated"
	running[old].AwaitLog(why)
	running[old].Poll("the replica to follow", func() bool {
		code, _ := running[old].Get("/readyz")
		return code == 200
	})
	k.Eventually("the status to say why", func() bool {
		_, stdout, _ := harness.Informd(t, "cluster", "status", "--state-dir", states[leader])
		line, _ := harness.FindLine(stdout, old+" ", why)
		return strings.Contains(line, "follower")
	})
	for range 3 { // the other two take turns, with the older one to make a majority
		killed := sender()
		if killed == old {
			t.Fatal("the older one leads")
		}
		running[killed].Kill()
		delete(running, killed)
		if next := sender(); next == killed || next == old {
			t.Errorf("%s leads after %s", next, killed)
		}
		start(killed)
		running[killed].Poll("the replica to follow", func() bool {
			code, _ := running[killed].Get("/readyz")
			return code == 200
		})
	}
	t.Logf("the older one was chosen %d times", harness.Count(running[old].Logged(), "this informd leads"))
	select {
	case <-running[old].Ended:
		t.Error("the older one has ended")
	default:
	}
}
