package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
	"github.com/informd/informd/plugins/serve"
)

// witnessCommand, as the first argument, makes the test binary a remote handler with its files in the
// folder that the second argument names.
const witnessCommand = "witness"

// witnessed is a line of the file seen: an event that the handler got.
type witnessed struct {
	Name  string
	Epoch handler.Epoch
}

// serveWitness notes all events, except those of objects named late while there is a file wait: these
// fail.
func serveWitness(dir string) {
	var mu sync.Mutex // held while a line is written
	h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		if _, err := os.Stat(filepath.Join(dir, "wait")); err == nil && strings.HasPrefix(ev.Name, "late") {
			return handler.Answer{}, errors.New("it waits")
		}
		line, err := json.Marshal(witnessed{ev.Name, ev.Epoch})
		if err != nil {
			return handler.Answer{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		f, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return handler.Answer{}, err
		}
		_, err = f.Write(append(line, '\n'))
		return handler.Answer{}, errors.Join(err, f.Close())
	})
	err := serve.Remote(h, serve.RemoteOptions{
		Address: os.Getenv("WITNESS_ADDRESS"), CertFile: filepath.Join(dir, "witness.pem"),
		KeyFile: filepath.Join(dir, "witness.key"), ClientCAFile: filepath.Join(dir, "ca.pem"),
	})
	fmt.Fprintln(os.Stderr, err)
}

// epochsSeen returns in which epochs a witness got events of an object.
func epochsSeen(t *testing.T, dir, name string) (epochs []handler.Epoch) {
	t.Helper()
	for _, line := range harness.LinesOf(t, dir, "seen") {
		var s witnessed
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Name == name {
			epochs = append(epochs, s.Epoch)
		}
	}
	return epochs
}

// An informd that goes on with the state of three replicas begins a new generation, before it delivers
// anything. So handlers refuse what the other two still send, and nothing is lost.
func TestOneOutOfThree(t *testing.T) {
	t.Parallel()
	shared := cluster.Shared(t)
	k := harness.NewKube(t, shared)
	dir, certs := harness.ShortDir(t), harness.ShortDir(t)
	ca := testca.New(t, dir, "ca")
	at := harness.FreeAddress(t)
	host, _, _ := net.SplitHostPort(at)
	ca.Issue(t, "witness", host)
	cert, key := ca.Issue(t, "informd")
	witness := exec.Command(os.Args[0], witnessCommand, dir)
	witness.Env, witness.Stderr = append(os.Environ(), "WITNESS_ADDRESS="+at), os.Stderr
	if err := witness.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = witness.Process.Kill(); _ = witness.Wait() })
	manifest := k.Text(harness.Source("maps", harness.ConfigMaps) +
		harness.Handler("witness", fmt.Sprintf("address: %q, tls: {ca: %q, cert: %q, key: %q}, "+
			"retry: {backoff: 100ms, maxBackoff: 1s}", "dns:///"+at, ca.File, cert, key)) +
		harness.Rule("all", `source: maps, where: object.metadata.name contains "turn", handler: witness`))
	if code, _, stderr := harness.Informd(t, "certs", certs, "--names", "a,b,c"); code != 0 {
		t.Fatalf("informd certs: %s", stderr)
	}
	names := []string{"a", "b", "c"}
	var peers []string
	states, running := make(map[string]string), make(map[string]*harness.Daemon)
	for _, name := range names {
		peers = append(peers, name+"="+freeOnAllHosts(t))
		states[name] = harness.ShortDir(t)
	}
	start := func(name string) {
		running[name] = harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", states[name],
			"--log-level", "info", "--name", name, "--peers", strings.Join(peers, ","), "--peer-tls", certs)
	}
	for _, name := range names {
		start(name)
	}
	seen := func(object string) handler.Epoch {
		t.Helper()
		k.Eventually("an event of "+object, func() bool { return len(epochsSeen(t, dir, object)) > 0 })
		return epochsSeen(t, dir, object)[0]
	}

	harness.Touch(t, dir, "wait")
	k.Create(harness.ConfigMap("turn-1", "{}"))
	first := seen("turn-1")
	if first.Generation != 1 {
		t.Errorf("the first epoch is %v", first)
	}
	k.Create(harness.ConfigMap("late-turn", "{}")) // it is on its way when informd goes on alone
	leader := ""
	k.Eventually("the event of late-turn to fail", func() bool {
		for name, d := range running {
			if harness.Count(d.Logged(), "it waits") > 0 {
				leader = name
			}
		}
		return leader != ""
	})
	for _, name := range names {
		if name != leader {
			running[name].Stop()
		}
	}
	running[leader].Stop()
	k.Create(harness.ConfigMap("turn-2", "{}")) // while nobody runs
	if err := os.RemoveAll(filepath.Join(states[leader], "raft")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "wait")); err != nil {
		t.Fatal(err)
	}
	want := handler.Epoch{Cluster: first.Cluster, Generation: 2, Term: 1}
	for _, turn := range []string{"turn-3", "turn-4"} { // the second start is in the same generation
		one := harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", states[leader])
		k.Create(harness.ConfigMap(turn, "{}"))
		for _, object := range []string{"late-turn", "turn-2", turn} {
			if got := seen(object); got != want {
				t.Errorf("the epoch of %s is %v, want %v", object, got, want)
			}
		}
		if n := len(epochsSeen(t, dir, "turn-1")); n != 1 {
			t.Errorf("the first event came %d times", n)
		}
		if turn == "turn-4" {
			one.Kill()
		} else {
			one.Stop()
		}
	}

	// The other two are enough for a leader.
	for _, name := range names {
		if name != leader {
			start(name)
		}
	}
	k.Create(harness.ConfigMap("turn-5", "{}"))
	k.Eventually("the handler to refuse what the others send", func() bool {
		for name, d := range running {
			if name != leader && harness.Count(d.Logged(), "newest "+want.String()) > 0 {
				return true
			}
		}
		return false
	})
	if got := epochsSeen(t, dir, "turn-5"); len(got) > 0 {
		t.Errorf("the handler got it in %v", got)
	}
	for name, d := range running {
		if name != leader {
			d.Stop()
		}
	}
	harness.RunInformd(t, shared.Kubeconfig(), manifest, "--state-dir", states[leader])
	if got := seen("turn-5"); got != want {
		t.Errorf("the epoch of turn-5 is %v, want %v", got, want)
	}
}
