package cache

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

func TestMain(m *testing.M) {
	syncTimeout = 4 * time.Second
	goleak.VerifyTestMain(m)
}

// shorten shortens a time limit until the end of the test, and of servers that it starts afterwards.
// Other tests do not wait for limits, which a busy machine must not exceed.
func shorten(t *testing.T, limit *time.Duration, d time.Duration) {
	t.Helper()
	was := *limit
	*limit = d
	t.Cleanup(func() { *limit = was })
}

// fake is a cache: of each source its objects, by key in order. The index "byLetter" has an object
// under its name's first letter.
type fake struct {
	mu       sync.Mutex
	sources  map[string]fakeSource
	unsynced map[string]bool
}

type fakeSource []fakeObject

type fakeObject struct{ key, json string }

func (f *fake) Names() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.sources {
		names = append(names, name)
	}
	return names
}

func (f *fake) Open(ctx context.Context, name string) (Source, error) {
	f.mu.Lock()
	s, ok := f.sources[name]
	unsynced := f.unsynced[name]
	f.mu.Unlock()
	switch {
	case !ok:
		return nil, ErrNoSource
	case unsynced:
		<-ctx.Done()
		return nil, fmt.Errorf("it is listing: %w", ctx.Err())
	}
	return s, nil
}

func (s fakeSource) Get(namespace, name string) ([]byte, bool) {
	for _, o := range s {
		if space, n := wire.SplitKey(o.key); space == namespace && n == name {
			return []byte(o.json), true
		}
	}
	return nil, false
}

// List's selectors are part of the text.
func (s fakeSource) List(namespace, selector string) (Objects, error) {
	if selector == "!" {
		return nil, fmt.Errorf("found '', expected: identifier")
	}
	return s.filter(func(space, _, json string) bool {
		return (namespace == "" || space == namespace) && strings.Contains(json, selector)
	}), nil
}

func (s fakeSource) ByIndex(index, value string) (Objects, bool) {
	return s.filter(func(_, name, _ string) bool { return name[:1] == value }), index == "byLetter"
}

func (s fakeSource) IndexValues(index string) (values []string, ok bool) {
	for _, o := range s {
		_, name := wire.SplitKey(o.key)
		values = append(values, name[:1])
	}
	slices.Sort(values)
	return slices.Compact(values), index == "byLetter"
}

func (s fakeSource) Indexes() []string { return []string{"byLetter"} }

func (s fakeSource) filter(is func(namespace, name, json string) bool) fakeSource {
	var out fakeSource
	for _, o := range s {
		if namespace, name := wire.SplitKey(o.key); is(namespace, name, o.json) {
			out = append(out, o)
		}
	}
	return out
}

func (s fakeSource) Len() int          { return len(s) }
func (s fakeSource) Key(i int) string  { return s[i].key }
func (s fakeSource) JSON(i int) []byte { return []byte(s[i].json) }

// pods are in the order of their keys.
var pods = fakeSource{
	{"a/web", `{"n":1,"tier":"web"}`}, {"a/worker", `{"n":2}`}, {"a-b/api", `{"n":3}`}, {"shop/web", `{"n":4,"tier":"web"}`},
}

// served is a server for the test's length, of which this process is the handler's.
func served(t *testing.T, sources Sources, read ...string) *Server {
	t.Helper()
	return servedTo(t, 0, slog.New(slog.DiscardHandler), sources, read...)
}

func servedTo(t *testing.T, ancestor int, log *slog.Logger, sources Sources, read ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ic") // short, as a socket's path must be
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(filepath.Join(dir, "cache"), sources, Reader{Handler: "oncall", Sources: read}, log)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(ancestor) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
		_ = os.RemoveAll(dir)
	})
	return s
}

func connect(t *testing.T, s *Server) (handlerpb.CacheClient, *grpc.ClientConn) {
	t.Helper()
	conn, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return handlerpb.NewCacheClient(conn), conn
}

// elementsOf returns all elements of an answer, and the sizes of its pages.
func elementsOf[P any, E ~[]byte | ~string](t *testing.T, pages grpc.ServerStreamingClient[P], err error, of func(*P) []E) (all []string, sizes []int) {
	t.Helper()
	for err == nil {
		var page *P
		if page, err = pages.Recv(); err == nil {
			size := 0
			for _, e := range of(page) {
				all = append(all, string(e))
				size += len(e)
			}
			sizes = append(sizes, size)
		}
	}
	if err.Error() != "EOF" {
		t.Fatal(err)
	}
	return all, sizes
}

// waitFor polls a condition that nothing announces.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
