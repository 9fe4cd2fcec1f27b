package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// relay passes bytes on between informd and the API server. While it is stalled, it takes connections
// and bytes, and passes on nothing.
type relay struct {
	kubeconfig string

	mu      sync.Mutex
	running chan struct{} // closed while bytes pass
}

func newRelay(t *testing.T, kubeconfig string) *relay {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	target := strings.TrimPrefix(config.Host, "https://")
	listener, err := net.Listen("tcp", "127.0.0.1:0") // for which the certificate is
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{
		kubeconfig: harness.WriteFile(t, "kubeconfig", strings.ReplaceAll(string(text), target, listener.Addr().String())),
		running:    make(chan struct{}),
	}
	close(r.running)
	var serving sync.WaitGroup
	over := make(chan struct{})
	serving.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			end := sync.OnceFunc(func() { _ = from.Close(); _ = to.Close() })
			serving.Go(func() { <-over; end() })
			serving.Go(func() { defer end(); r.pass(to, from, over) })
			serving.Go(func() { defer end(); r.pass(from, to, over) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(over)
		serving.Wait()
	})
	return r
}

func (r *relay) pass(to io.Writer, from io.Reader, over <-chan struct{}) {
	for bytes := make([]byte, 32<<10); ; {
		n, err := from.Read(bytes)
		r.mu.Lock()
		running := r.running
		r.mu.Unlock()
		select {
		case <-running:
		case <-over:
			return
		}
		if _, cannot := to.Write(bytes[:n]); cannot != nil || err != nil {
			return
		}
	}
}

// stall passes on nothing until the returned function is called.
func (r *relay) stall() (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = make(chan struct{})
	return sync.OnceFunc(func() { close(r.running) })
}

// A proxy goes silent while all connections live. Status, readiness and the log say
// so, and no timer acts on what it cannot know: one object has recovered meanwhile. Afterwards
// informd catches up by itself.
func TestSilence(t *testing.T) {
	t.Parallel()
	k, between := harness.NewKube(t, cluster.Shared(t)), newRelay(t, cluster.Shared(t).Kubeconfig())
	state := harness.NewStateDir(t, between.kubeconfig, harness.ShortDir(t))
	d := state.Settled(k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("bad", "source: configmaps, handler: log, where: object.data.state == 'bad', for: 20s") +
		harness.Rule("all", "source: configmaps, handler: log, delivery: every, payload: {state: object.data.state}")))
	recovers, stays := k.Create(harness.ConfigMap("recovers", "{state: bad}")), k.Create(harness.ConfigMap("stays", "{state: bad}"))
	k.Sees(d, "all NS/recovers added")
	k.Sees(d, "all NS/stays added")

	resume := between.stall()
	defer resume()
	stalled := time.Now()
	k.Patch(recovers, "data: {state: good}")
	d.PollFor(2*harness.Patience, "informd to be unready", func() bool {
		code, report := d.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(report, "[-] source configmaps")
	})
	code, status, stderr := harness.Informd(t, "status", "--state-dir", state.Dir)
	if code != 0 || !strings.Contains(status, "unreachable") && !strings.Contains(status, "failing") {
		t.Errorf("status, exit code %d:\n%s%s", code, status, stderr)
	}
	if took := time.Since(stalled); took < 21*time.Second {
		t.Fatalf("after %v, the timers were not due", took)
	}
	if !strings.Contains(d.Logged(), "level=WARN") {
		t.Errorf("no warning:\n%s", d.Logged())
	}
	heard, err := strconv.ParseFloat(d.Metric(`informd_source_last_heard_seconds{source="configmaps"}`), 64)
	if err != nil || heard < 20 {
		t.Errorf("the metric says that the API server was heard %v seconds ago: %v", heard, err)
	}
	told := d.Await("what was told", func([]handler.Event) bool { return true })
	if briefs := strings.Join(harness.Cut(k.Briefs(told)), "\n"); strings.Contains(briefs, "bad NS/") {
		t.Errorf("a timer acted in the dark:\n%s", briefs)
	}

	resume()
	k.Sees(d, "all NS/recovers updated")
	k.Sees(d, "bad NS/stays added")
	k.Patch(stays, "data: {state: good}")
	k.Sees(d, "bad NS/stays deleted")
	d.AwaitReady()
	var now struct {
		Sources []struct {
			State            string
			Since, LastHeard time.Time
		}
	}
	if err := json.Unmarshal([]byte(state.Command("status", "-o", "json")), &now); err != nil {
		t.Fatal(err)
	}
	if s := now.Sources[0]; s.State != "synced" || s.Since.Before(stalled) || s.LastHeard.Before(s.Since) {
		t.Errorf("the proxy stalled at %v: %+v", stalled, s)
	}
	d.Stop()
	if briefs := strings.Join(harness.Cut(k.Briefs(d.Events)), "\n"); strings.Contains(briefs, "bad NS/recovers") {
		t.Errorf("told of an object that had recovered:\n%s", briefs)
	}
}
