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
	level := "info"
	start := func(name string) {
		running[name] = harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", states[name],
			"--log-level", level, "--name", name, "--peers", strings.Join(peers, ","), "--peer-tls", certs)
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
	// other returns the replica that is neither the older one nor one with a name.
	other := func(than string) string {
		for name := range states {
			if name != old && name != than {
				return name
			}
		}
		return ""
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

	level = "debug" // see wasChosen
	start(old)
	level = "info"
	wasChosen := func() int {
		return harness.Count(running[old].Logged(), "this replica was chosen, and cannot lead")
	}
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
	for round := range 3 { // the other two take turns, with the older one to make a majority
		leading := sender()
		next := other(leading)
		if leading == old {
			t.Fatal("the older one leads")
		}
		before := wasChosen()
		isForced := round > 0
		if isForced { // the next one lacks an entry that the older one has, which is chosen then
			running[next].Kill()
			delete(running, next)
			if got := sender(); got != leading {
				t.Errorf("%s leads in place of %s", got, leading)
			}
		}
		running[leading].Kill()
		delete(running, leading)
		if isForced {
			start(next)
		}
		if got := sender(); got != next {
			t.Errorf("%s leads after %s", got, leading)
		}
		if isForced {
			running[old].Poll("the older one to be chosen", func() bool { return wasChosen() > before })
		}
		start(leading)
		running[leading].Poll("the replica to follow", func() bool {
			code, _ := running[leading].Get("/readyz")
			return code == 200
		})
	}
	if n := harness.Count(running[old].Logged(), "this informd leads"); n > 0 {
		t.Errorf("the older one began to lead %d times", n)
	}
	select {
	case <-running[old].Ended:
		t.Error("the older one has ended")
	default:
	}
}
