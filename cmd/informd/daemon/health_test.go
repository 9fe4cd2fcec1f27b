package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/host"
)

// troubled is a host whose status quotes what others said.
type troubled struct {
	hosted
	status host.Status
}

func (t troubled) Status() host.Status { return t.status }

// Anybody can read /readyz. It has names and states, and no word that a handler, the API server or a
// manifest says: each may quote what only few may read.
func TestReadinessHasStatesOnly(t *testing.T) {
	const said = "cannot parse hunter2"
	status := admin.Status{
		Sources: []admin.SourceStatus{
			{Name: "pods", State: source.Failing, Reason: said},
			{Name: "nodes", State: source.Listing, Reason: "20 objects so far"}, // informd's own words
		},
		State: &state.Status{Trouble: said},
	}
	h := &handlers{all: handlerSet{
		{name: "crashes", host: &namedHost{troubled{status: host.Status{
			State: host.BackingOff, Reason: said, LastFailure: host.Failure{Reason: said}, LastLog: []string{said},
		}}, "crashes"}},
		{name: "complains", host: &namedHost{troubled{status: host.Status{
			State: host.Running, Problem: said,
		}}, "complains"}},
	}}
	ready, report := readiness(status, h, &control.LastReload{Error: said},
		&control.RightsStatus{Needed: 3, Missing: 1, Lines: []string{said}, Unknown: said}, nil)
	const want = `[-] source pods: failing
[-] source nodes: listing (20 objects so far)
    handler crashes: backing off
    handler complains: running, reports a problem
    state: NOT durable
    manifests: NOT reloaded
    rights: 1 of 3 are missing
not ready; informd status says why
`
	if ready || report != want {
		t.Errorf("ready: %v\n%s\nwant\n%s", ready, report, want)
	}
	_, report = readiness(admin.Status{State: new(state.Status), IsLoading: true}, &handlers{}, nil, nil, nil)
	if want := "    state: not loaded yet\nready\n"; report != want {
		t.Errorf("got\n%s\nwant\n%s", report, want)
	}
	_, report = readiness(admin.Status{}, &handlers{}, nil, &control.RightsStatus{Unknown: said}, nil)
	if want := "    rights: not known\nready\n"; report != want {
		t.Errorf("got\n%s\nwant\n%s", report, want)
	}
}

// A daemon that stops takes no more events, so it is not ready, whatever its sources are.
func TestNotReadyWhileStopping(t *testing.T) {
	sources := []admin.SourceStatus{{Name: "pods", State: source.Synced, Ready: true}}
	ready, report := readiness(admin.Status{Sources: sources, IsStopping: true}, &handlers{}, nil, nil, nil)
	if want := "[-] informd: stopping\n[+] source pods: synced\nnot ready; informd status says why\n"; ready || report != want {
		t.Errorf("ready: %v\n%s\nwant\n%s", ready, report, want)
	}
}

// A replica is ready when it has caught up with the others, whether it leads or not, and whatever its
// sources are.
func TestReadinessOfReplicas(t *testing.T) {
	blind := []admin.SourceStatus{{Name: "pods", State: source.Failing}}
	for line, own := range map[string]replica.Info{
		"[+] replica a: follower\n":                {Role: replica.Follows, Leader: "b", IsCaughtUp: true},
		"[+] replica a: leader\n":                  {Role: replica.Leads, Leader: "a", IsCaughtUp: true},
		"[-] replica a: follower, not caught up\n": {Role: replica.Follows, Leader: "b"},
		"[-] replica a: learner\n":                 {Role: replica.Learns, Leader: "b", IsCaughtUp: true},
		"[-] replica a: candidate\n":               {Role: replica.Searches, IsCaughtUp: true},
		"[-] replica a: follower, in trouble\n": {
			Role: replica.Follows, Leader: "b", IsCaughtUp: true, Trouble: "it says hunter2",
		},
	} {
		own.Name = "a"
		ready, report := readiness(admin.Status{Sources: blind}, &handlers{}, nil, nil, &own)
		end := "ready\n"
		if line[1] == '-' {
			end = "not ready; informd status says why\n"
		}
		if want := line + "[-] source pods: failing\n" + end; report != want || ready != (line[1] == '+') {
			t.Errorf("ready: %v\n%s\nwant\n%s", ready, report, want)
		}
		ready, _ = readiness(admin.Status{IsStopping: true}, &handlers{}, nil, nil, &own)
		if ready {
			t.Error("a replica that stops is ready")
		}
	}
}

// A server that fails while the daemon runs says so at once, and not only when that ends.
func TestServerFails(t *testing.T) {
	s, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.show(http.NewServeMux())
	said := &awaited{text: "no longer serving", heard: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, slog.New(slog.NewTextHandler(said, nil))) }()
	if err := s.listener.Close(); err != nil { // as if the system had
		t.Fatal(err)
	}
	<-said.heard
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "serve 127.0.0.1:") {
		t.Errorf("got %v", err)
	}
}

// awaited is a log that signals when a text is written to it.
type awaited struct {
	text  string
	heard chan struct{}
	once  sync.Once
}

func (a *awaited) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(a.text)) {
		a.once.Do(func() { close(a.heard) })
	}
	return len(p), nil
}
