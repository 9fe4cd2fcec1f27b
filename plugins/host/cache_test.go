package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/serve"
)

// cached is a cache whose sources all have the same objects: a thousand pods on ten nodes, by key in order.
type cached []string // the sources' names

const cachedPods = 1000

func (c cached) Names() []string { return c }

func (c cached) Open(_ context.Context, name string) (cache.Source, error) {
	if !slices.Contains(c, name) {
		return nil, cache.ErrNoSource
	}
	return cachedSource{}, nil
}

type cachedSource struct{}

func (cachedSource) Get(namespace, name string) ([]byte, bool) {
	var i int
	if n, err := fmt.Sscanf(name, "pod-%04d", &i); n != 1 || err != nil || namespace != "shop" || i >= cachedPods {
		return nil, false
	}
	return cachedObject(i), true
}

func cachedObject(i int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"pod-%04d"},"n":%d,"x":%q}`, i, i, strings.Repeat("x", 2000))
}

func (cachedSource) List(string, string) (cache.Objects, error) {
	return cachedObjects{0, 1, cachedPods}, nil
}

func (cachedSource) ByIndex(index, value string) (cache.Objects, bool) {
	node := slices.Index([]string{"node-0", "node-1", "node-2", "node-3", "node-4", "node-5", "node-6", "node-7", "node-8", "node-9"}, value)
	if node < 0 {
		return cachedObjects{}, index == "byNode"
	}
	return cachedObjects{node, 100, 10}, index == "byNode" // ten of the hundred
}

func (cachedSource) IndexValues(index string) ([]string, bool) {
	return []string{"node-0", "node-1"}, index == "byNode"
}

func (cachedSource) Indexes() []string { return []string{"byNode"} }

type cachedObjects struct{ first, step, n int }

func (o cachedObjects) Len() int          { return o.n }
func (o cachedObjects) Key(i int) string  { return fmt.Sprintf("shop/pod-%04d", o.first+i*o.step) }
func (o cachedObjects) JSON(i int) []byte { return cachedObject(o.first + i*o.step) }

// reader is a handler that reads what events ask for, and answers with it.
type reader struct{ cache handler.Cache }

// reading is the payload of such an event.
type reading struct {
	Source string
	Path   string // of another socket; empty: the own
}

// found is what such an event is answered with.
type found struct {
	Socket      string // the address in the environment
	Error       string
	Kind        string // of the error
	Get         string
	Gone        bool
	Many        []int
	Listed      int
	Part        []int
	ByIndex     []int
	IndexKeys   []string
	IndexValues []string
}

func (r *reader) UseCache(c handler.Cache) { r.cache = c }

func (r *reader) Configure(ctx context.Context, config json.RawMessage) error {
	if string(config) != `"read"` {
		return nil
	}
	_, _, err := r.cache.Get(ctx, "pods", "shop", "pod-0001")
	return err
}

func (r *reader) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	var to reading
	if err := json.Unmarshal(ev.Payload, &to); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	out := found{Socket: os.Getenv(handlerpb.EnvCacheSocket)}
	err := r.read(ctx, to, &out)
	switch {
	case err == nil:
	case errors.Is(err, handler.ErrDenied):
		out.Kind = "denied"
	case errors.Is(err, handler.ErrUnknown):
		out.Kind = "unknown"
	default:
		out.Kind = "other"
	}
	if err != nil {
		out.Error = err.Error()
	}
	object, err := json.Marshal(out)
	return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Object: object}}}, err
}

func (r *reader) read(ctx context.Context, to reading, out *found) (err error) {
	if to.Path != "" {
		conn, err := grpc.NewClient("unix:"+to.Path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = handlerpb.NewCacheClient(conn).Get(ctx, &handlerpb.GetRequest{Source: to.Source, Namespace: "shop", Name: "pod-0001"})
		return err
	}
	object, ok, err := r.cache.Get(ctx, to.Source, "shop", "pod-0007")
	if err != nil {
		return err
	}
	out.Get = string(object[:min(len(object), 61)])
	_, there, err := r.cache.Get(ctx, to.Source, "shop", "gone")
	if err != nil {
		return err
	}
	out.Gone = ok && !there
	keys := []string{"shop/gone"}
	for i := range 450 { // in three requests
		keys = append(keys, fmt.Sprintf("shop/pod-%04d", 999-i))
	}
	many, err := r.cache.GetMany(ctx, to.Source, keys...)
	if err != nil {
		return err
	}
	if len(many) != 451 || many[0] != nil {
		return fmt.Errorf("%d objects for 451 keys, the first %s", len(many), many[0])
	}
	out.Many = []int{number(many[1]), number(many[450])}
	for object, err := range r.cache.List(ctx, to.Source, handler.ListOptions{}) {
		if err != nil {
			return err
		}
		if number(object) != out.Listed {
			return fmt.Errorf("object %d is %d", out.Listed, number(object))
		}
		out.Listed++
	}
	for object, err := range r.cache.List(ctx, to.Source, handler.ListOptions{After: "shop/pod-0500", Limit: 100}) {
		if err != nil {
			return err
		}
		if out.Part = append(out.Part, number(object)); len(out.Part) == 2 {
			break // the rest is not wanted
		}
	}
	onNode, err := r.cache.ByIndex(ctx, to.Source, "byNode", "node-3")
	if err != nil {
		return err
	}
	for _, object := range onNode {
		out.ByIndex = append(out.ByIndex, number(object))
	}
	if out.IndexKeys, err = r.cache.IndexKeys(ctx, to.Source, "byNode", "node-3"); err != nil {
		return err
	}
	out.IndexKeys = out.IndexKeys[:2]
	if out.IndexValues, err = r.cache.IndexValues(ctx, to.Source, "byNode"); err != nil {
		return err
	}
	_, err = r.cache.ByIndex(ctx, to.Source, "byNod", "node-3")
	if !errors.Is(err, handler.ErrUnknown) || !strings.Contains(err.Error(), `did you mean "byNode"?`) {
		return fmt.Errorf("an index that there is not: %w", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.cache.ByIndex(over, to.Source, "byNode", "node-3"); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a context that has ended: %w", err)
	}
	return nil
}

// number is which object of the cache it is.
func number(object json.RawMessage) int {
	var o struct{ N int }
	if err := json.Unmarshal(object, &o); err != nil {
		return -1
	}
	return o.N
}

func init() {
	modes["reader"] = func() { serve.Main(&reader{}) }
}

// readBy has a reader read.
func readBy(t *testing.T, h *host.Host, r reading) (out found) {
	t.Helper()
	payload, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	ev := pod("read")
	ev.Object, ev.Old, ev.Payload = nil, nil, payload
	answer, err := h.Handle(t.Context(), ev)
	if err != nil || len(answer.Actions) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	if err := json.Unmarshal(answer.Actions[0].Object, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readerSpec is a reader that may read some sources.
func readerSpec(read ...string) host.Spec {
	s := spec("reader")
	s.Read = read
	return s
}

var allSources = host.Options{Cache: cached{"nodes", "pods", "secrets"}}

// wantAll is what a reader finds.
var wantAll = found{
	Get: `{"metadata":{"namespace":"shop","name":"pod-0007"},"n":7,"x":`, Gone: true, Many: []int{999, 550}, Listed: 1000,
	Part: []int{501, 502}, ByIndex: []int{3, 103, 203, 303, 403, 503, 603, 703, 803, 903},
	IndexKeys: []string{"shop/pod-0003", "shop/pod-0103"}, IndexValues: []string{"node-0", "node-1"},
}

func checkAll(t *testing.T, got found) {
	t.Helper()
	got.Socket, got.Get = "", got.Get[:min(len(got.Get), len(wantAll.Get))]
	if diff := cmp.Diff(wantAll, got); diff != "" {
		t.Error(diff)
	}
}

func TestCache(t *testing.T) {
	h := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	checkAll(t, readBy(t, h, reading{Source: "pods"}))

	got := readBy(t, h, reading{Source: "secrets"})
	if want := `read the cache: not allowed: handler "reader" may not read source "secrets": its manifest would allow it by spec: {access: {read: [pods, secrets]}}`; got.Kind != "denied" || got.Error != want {
		t.Errorf("%s: %s", got.Kind, got.Error)
	}
	if got := readBy(t, h, reading{Source: "pds"}); got.Kind != "unknown" || !strings.Contains(got.Error, `did you mean "pods"?`) {
		t.Errorf("%s: %s", got.Kind, got.Error)
	}
	// Three refusals: of the two sources, and of the index that there is not.
	waitFor(t, "the counts", func() bool { s := h.Status(); return s.Reads >= 12 && s.Refused == 3 })
}

// Without access.read there is no socket, and a handler is told what would give it one.
func TestNoAccess(t *testing.T) {
	h := start(t, readerSpec(), allSources)
	ready(t, h)
	got := readBy(t, h, reading{Source: "pods"})
	if got.Socket != "" || got.Kind != "denied" || !strings.Contains(got.Error, "spec: {access: {read: [SOURCE, …]}}") {
		t.Errorf("%+v", got)
	}
}

// Where a handler is only tried there is nothing to read, and it learns that at once.
func TestTryWithoutCache(t *testing.T) {
	s := readerSpec("pods")
	s.Config = json.RawMessage(`"read"`)
	if err := try(t, s, host.Options{}); err == nil || !strings.Contains(err.Error(), "there is no cache to read: the handler has been started only to see whether it works") {
		t.Errorf("got %v", err)
	}
	if err := try(t, s, allSources); err != nil {
		t.Error(err)
	}
}

// A socket is its process's own: another handler of the same user is turned away.
func TestOtherHandlersCache(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("who is at a socket is known on Linux only")
	}
	log := &recorder{}
	rich := allSources
	rich.Logger = log.logger()
	h := start(t, readerSpec("secrets"), rich)
	poor := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	ready(t, poor)
	path := strings.TrimPrefix(readBy(t, h, reading{Source: "secrets"}).Socket, "unix:")
	if got := readBy(t, h, reading{Source: "secrets", Path: path}); got.Error != "" {
		t.Errorf("its own socket: %s", got.Error)
	}
	if got := readBy(t, poor, reading{Source: "secrets", Path: path}); got.Kind != "other" {
		t.Errorf("another's socket: %+v", got)
	}
	if !strings.Contains(strings.Join(log.lines(), "\n"), "WARN a process was turned away from the socket on which a handler reads the cache") {
		t.Errorf("the log does not tell: %v", log.lines())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", dir, err)
	}
}

// A reload takes up what may be read. Either process has a socket of its own, as long as it lives.
func TestReloadAccess(t *testing.T) {
	h := start(t, readerSpec("pods"), allSources)
	ready(t, h)
	before := readBy(t, h, reading{Source: "pods"})
	if err := h.Reload(t.Context(), readerSpec("nodes")); err != nil {
		t.Fatal(err)
	}
	after := readBy(t, h, reading{Source: "nodes"})
	checkAll(t, after)
	if got := readBy(t, h, reading{Source: "pods"}); got.Kind != "denied" {
		t.Errorf("what is no longer allowed: %+v", got)
	}
	if before.Socket == after.Socket || after.Socket == "" {
		t.Errorf("the sockets are %s and %s", before.Socket, after.Socket)
	}
	waitFor(t, "the end of the first socket", func() bool {
		_, err := os.Stat(strings.TrimPrefix(before.Socket, "unix:"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// What confines a handler lets it come to its socket, and opens no more than it has to.
func TestConfinedCache(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("handlers are confined on Linux only, and only root can run one as another user")
	}
	binary := publicBinary(t)
	confined := func(t *testing.T, c confine.Spec) *host.Host {
		s := readerSpec("pods")
		s.Path, s.Confine = binary, c
		o := allSources
		o.RunDir, o.TempDir = publicDir(t), publicDir(t)
		h := start(t, s, o)
		waitFor(t, "a state", func() bool { return h.Status().State == host.Running || h.Status().State == host.Refused })
		return h
	}
	for name, c := range map[string]confine.Spec{
		"as a user":              {User: rogueUser},
		"as a user in a sandbox": {User: rogueUser, Sandbox: true},
		"with a network":         {User: rogueUser, Sandbox: true, Network: confine.Network{Ports: []uint16{443}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := confined(t, c)
			if status := h.Status(); status.State == host.Refused {
				t.Skip("this kernel cannot confine: ", status.Reason)
			}
			checkAll(t, readBy(t, h, reading{Source: "pods"}))
			if says := strings.Contains(h.Status().Confined, "but for unix sockets that its user may connect to"); says != c.Sandbox {
				t.Errorf("it is said to be confined to %q", h.Status().Confined)
			}
		})
	}
	// Root may connect to every socket there is.
	h := confined(t, confine.Spec{Sandbox: true})
	if status := h.Status(); status.State != host.Refused || !strings.Contains(status.Reason, "give the handler a user, or leave out access.read") {
		t.Errorf("as root in a sandbox: %+v", status)
	}
}

// The socket goes with the process, however that ends.
func TestCacheOfACrashedProcess(t *testing.T) {
	h := start(t, readerSpec("pods"), host.Options{Cache: allSources.Cache, BackoffMin: time.Millisecond})
	ready(t, h)
	first := readBy(t, h, reading{Source: "pods"})
	p, err := os.FindProcess(h.Status().PID)
	if err != nil || p.Kill() != nil {
		t.Fatal(err)
	}
	waitFor(t, "another process", func() bool { return h.Status().Restarts == 1 && h.Status().State == host.Running })
	second := readBy(t, h, reading{Source: "pods"})
	checkAll(t, second)
	if first.Socket == second.Socket {
		t.Error("two processes have had one socket")
	}
	if _, err := os.Stat(strings.TrimPrefix(first.Socket, "unix:")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first process's socket: %v", err)
	}
}
