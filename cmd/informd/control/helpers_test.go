package control

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(askSocket); socket != "" {
		askAndExit(socket)
	}
	goleak.VerifyTestMain(m)
}

// askSocket names a socket that the test binary, as another process, is to ask. With an argument it
// does not wait for the answer.
const askSocket = "CONTROL_TEST_SOCKET"

func askAndExit(socket string) {
	if len(os.Args) > 1 && os.Args[1] == "flood" {
		flood(socket)
	}
	if len(os.Args) > 1 && os.Args[1] == "listen" {
		listener, err := net.Listen("unix", socket)
		fmt.Println("listening", err)
		if err == nil {
			_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "{}")
			}))
		}
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		_, err := net.Dial("unix", socket) // it ends with the process
		fmt.Print(err)
		os.Exit(0)
	}
	status, err := NewClient(socket).Status(context.Background())
	fmt.Print(status.Version, err)
	os.Exit(0)
}

// flood connects as fast as it can, until its standard input ends. It connects as C does, without
// Go's poller.
func flood(socket string) {
	for range 4 {
		go func() {
			runtime.LockOSThread()
			for {
				fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
				if err != nil {
					continue
				}
				_ = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
				_ = syscall.Close(fd)
			}
		}()
	}
	fmt.Println("flooding")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// backend is a scripted daemon. Its functions may panic or fail.
type backend struct {
	mu      sync.Mutex
	letters []Letter
	targets []explain.Target
	objects Found
	asked   []Query
	paused  map[string]bool
	stuck   map[string]bool // letters that can be neither retried nor dropped
	pending int             // changes that are not written
	written func() error    // nil means that the disk is well
	status  func() Status
	reload  func(ctx context.Context, name string) (Reloaded, error)
}

func newBackend() *backend {
	return &backend{paused: map[string]bool{}, stuck: map[string]bool{}, status: func() Status {
		return Status{
			Version: "v9",
			Sources: []SourceStatus{
				{Name: "pods", Resource: "v1/pods", State: "synced", Indexes: []string{"byNode", "byImage"}},
				{Name: "secrets", Resource: "v1/secrets", State: "listing", Reason: "just so"},
			},
			Rules:    []RuleStatus{{Name: "crashes", Handler: "oncall"}, {Name: "quiet", Former: "calm", Handler: "oncall"}},
			Handlers: []HandlerStatus{{Name: "oncall", State: "running"}, {Name: "idle", State: "running"}},
		}
	}}
}

func (b *backend) Status() Status { return b.status() }

func (b *backend) Objects(q Query) (Found, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, q)
	s := b.objects
	s.Objects = slices.Clone(s.Objects)
	return s, nil
}

func (b *backend) Letters() ([]Letter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	letters := slices.Clone(b.letters)
	for i := range letters {
		letters[i].Event = nil
	}
	return letters, nil
}

func (b *backend) Letter(id string) (Letter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.letters {
		if l.ID == id {
			return l, nil
		}
	}
	return Letter{}, fmt.Errorf("letter %q: %w", id, ErrNotFound)
}

func (b *backend) RetryLetter(id string) error { return b.DropLetter(id) }

func (b *backend) DropLetter(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck[id] {
		return fmt.Errorf("letter %q is stuck", id)
	}
	n := len(b.letters)
	b.pending++
	b.letters = slices.DeleteFunc(b.letters, func(l Letter) bool { return l.ID == id })
	if len(b.letters) == n {
		return fmt.Errorf("letter %q: %w", id, ErrNotFound)
	}
	return nil
}

func (b *backend) SetPaused(rule string, paused bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rule != "crashes" {
		return fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	b.paused[rule] = paused
	b.pending++
	return nil
}

func (b *backend) Written(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written != nil {
		return b.written()
	}
	b.pending = 0
	return nil
}

func (b *backend) RetryRule(rule, object string) (int, error) {
	if rule != "crashes" {
		return 0, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	return 1, nil
}

func (b *backend) ReloadHandler(ctx context.Context, name string) (Reloaded, error) {
	return b.reload(ctx, name)
}

func letter(id, rule string) Letter {
	return Letter{
		ID: id, Rule: rule, Handler: "oncall", Resource: "v1/pods", Namespace: "shop", Name: "web-0", Attempts: 3,
		Since: time.Unix(1, 0).UTC(), Died: time.Unix(2, 0).UTC(), Reason: "no",
		Event: &handler.Event{ID: id, Rule: rule, Event: "updated", Name: "web-0"},
	}
}

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// shortDir is a folder whose sockets have short paths.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve runs a server until the end of the test. with changes it before.
func serve(t testing.TB, b Backend, with ...func(*Server)) (c *Client, socket string) {
	t.Helper()
	return serveWith(t, b, Options{}, with...)
}

func serveWith(t testing.TB, b Backend, opts Options, with ...func(*Server)) (c *Client, socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "control.sock")
	s, err := New(socket, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range with {
		change(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); err == nil {
			t.Error("the socket is still there")
		}
	})
	return NewClient(socket), socket
}

// raw is an HTTP client that is not a Client.
func raw(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

func (b *backend) Resync(_ context.Context, rule string) (int, error) {
	if rule != "settings" {
		return 0, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending++
	return 3, nil
}

func (b *backend) Events(rule string, after uint64) (Events, error) {
	if rule != "" && rule != "settings" {
		return Events{}, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	event := Event{Time: at, Rule: "settings", Handler: "oncall", Object: "shop/web-0", Outcome: explain.Outcome{Event: "updated", What: "selected", ID: "settings/1/updated/7"}}
	declined, sent, done := event, event, event
	declined.Object, declined.What = "shop/web-1", "when"
	sent.What, sent.Attempt = "sent", 2
	done.What, done.Attempt, done.DurationSeconds, done.LatencySeconds = "done", 2, 0.25, 1.5
	out := Events{Started: at, Last: 4, Items: []Event{event, declined, sent, done}}
	if after > 0 {
		out.Items = out.Items[min(after, 4):]
	}
	return out, nil
}

func (b *backend) Explain(rule, namespace, name string, _ bool) (explain.Explanation, error) {
	if rule != "settings" {
		return explain.Explanation{}, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	x := explain.Explanation{Rule: rule, Object: namespace + "/" + name, State: "active", Standing: explain.Absent}
	x.Events = []string{"added", "updated", "deleted", "synced"}
	x.Source = explain.Source{Name: "pods", Resource: "v1/pods", Selections: []explain.Selection{{LabelSelector: "app=web"}}}
	x.Conclude()
	return x, nil
}

func (b *backend) Reload(context.Context) (ReloadedAll, error) {
	return ReloadedAll{Rules: Changes{Added: []string{"new"}}, Notes: []string{"a note"}}, nil
}

func (b *backend) Plan(_ context.Context, files []File) (Planned, error) {
	return Planned{Kept: len(files), Rules: []PlannedRule{{Name: "new", Change: "added", Text: "is new"}}}, nil
}

func (b *backend) Targets(rule string) (iter.Seq[explain.Target], error) {
	if rule != "" && rule != "crashes" {
		return nil, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Values(b.targets), nil
}
