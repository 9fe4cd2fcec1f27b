package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// library plays informd's side. The name of a source says how calls about it end.
type library struct {
	handlerpb.UnimplementedCacheServer
	requests [][]string // for several keys
	left     chan error // how lists ended
}

func (l *library) fail(source string) error {
	var code codes.Code
	if _, err := fmt.Sscanf(source, "code-%d", &code); err != nil {
		return nil
	}
	return status.Error(code, "the reason")
}

func (l *library) Get(ctx context.Context, r *handlerpb.GetRequest) (*handlerpb.GetResponse, error) {
	if r.GetSource() == "slow" {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &handlerpb.GetResponse{}, l.fail(r.GetSource())
}

func (l *library) GetMany(r *handlerpb.GetManyRequest, to grpc.ServerStreamingServer[handlerpb.ObjectPage]) error {
	l.requests = append(l.requests, r.GetKeys())
	page := &handlerpb.ObjectPage{}
	for _, key := range r.GetKeys() {
		page.Objects = append(page.Objects, []byte(key))
	}
	if r.GetSource() == "short" {
		page.Objects = page.Objects[1:]
	}
	return to.Send(page)
}

func (l *library) List(r *handlerpb.ListRequest, to grpc.ServerStreamingServer[handlerpb.ObjectPage]) error {
	page := &handlerpb.ObjectPage{Objects: [][]byte{[]byte("1"), []byte("2")}}
	if err := cmp.Or(to.Send(page), l.fail(r.GetSource())); err != nil {
		return err
	}
	if r.GetSource() == "endless" {
		var err error
		for err == nil {
			err = to.Send(page)
		}
		l.left <- err
		return err
	}
	return nil
}

// borrow is a cache that is read at a library's.
func borrow(t *testing.T) (*cache, *library) {
	t.Helper()
	l := &library{left: make(chan error, 1)}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	handlerpb.RegisterCacheServer(server, l)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop(); <-served })
	return &cache{handlerpb.NewCacheClient(conn)}, l
}

func TestReadErrors(t *testing.T) {
	c, _ := borrow(t)
	for code, want := range map[codes.Code]error{
		codes.PermissionDenied: handler.ErrDenied, codes.NotFound: handler.ErrUnknown, codes.DeadlineExceeded: context.DeadlineExceeded,
	} {
		_, _, err := c.Get(t.Context(), fmt.Sprintf("code-%d", code), "", "")
		if !errors.Is(err, want) || err.Error() != fmt.Sprintf("read the cache: %v: the reason", want) {
			t.Errorf("%v: %v", code, err)
		}
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.InvalidArgument} {
		_, _, err := c.Get(t.Context(), fmt.Sprintf("code-%d", code), "", "")
		if err == nil || err.Error() != "read the cache: the reason" {
			t.Errorf("%v: %v", code, err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := c.Get(short, "slow", "", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past the deadline: %v", err)
	}
	// An error behind some objects comes after them.
	var seen []string
	for object, err := range c.List(t.Context(), "code-14", handler.ListOptions{}) {
		seen = append(seen, fmt.Sprint(string(object), err))
	}
	if want := []string{"1<nil>", "2<nil>", "read the cache: the reason"}; !slices.Equal(seen, want) {
		t.Errorf("got %q", seen)
	}
}

// Who stops reading a list ends it, also on the other side.
func TestAbandonedList(t *testing.T) {
	c, l := borrow(t)
	n := 0
	for _, err := range c.List(t.Context(), "endless", handler.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	if err := <-l.left; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

// However many keys there are, and however long, each request is within its bounds.
func TestManyKeys(t *testing.T) {
	for _, length := range []int{1, 253 + 64, 2000, 40_000} {
		c, l := borrow(t)
		keys := make([]string, 501)
		for i := range keys {
			keys[i] = fmt.Sprintf("%0*d", length, i)
		}
		got, err := c.GetMany(t.Context(), "pods", keys...)
		if err != nil || !slices.EqualFunc(got, keys, func(o json.RawMessage, key string) bool { return string(o) == key }) {
			t.Errorf("%d objects, %v", len(got), err)
		}
		for _, r := range l.requests {
			if size := len(strings.Join(r, "12345678")); len(r) > handlerpb.MaxGetKeys || size > handlerpb.MaxReadBytes {
				t.Fatalf("a request of %d keys and %d bytes", len(r), size)
			}
		}
	}
	c, _ := borrow(t)
	if got, err := c.GetMany(t.Context(), "pods"); len(got) != 0 || err != nil {
		t.Errorf("no keys: %v, %v", got, err)
	}
	if _, err := c.GetMany(t.Context(), "short", "a", "b"); err == nil || err.Error() != "read the cache: 1 objects for 2 keys" {
		t.Errorf("an answer that is too short: %v", err)
	}
}

// user is a handler that records the cache that it gets.
type user struct {
	full
	given []handler.Cache
}

func (u *user) UseCache(c handler.Cache) { u.given = append(u.given, c) }

// A handler gets a cache once, before its config, even if there is nothing to read. Its calls then
// say why.
func TestUseCache(t *testing.T) {
	for _, test := range []struct {
		why, cookie, want string
		denied            bool
	}{
		{"by hand", "", "there is no cache without informd", false},
		{"no access", handlerpb.CookieValue, "read the cache: not allowed: to allow it, add to the handler's manifest spec: {access: {read: [SOURCE, …]}}", true},
	} {
		t.Setenv(handlerpb.CookieKey, test.cookie)
		t.Setenv(handlerpb.EnvCacheSocket, "")
		u := &user{}
		u.configure = func(json.RawMessage) error {
			if len(u.given) != 1 {
				t.Errorf("%s: given %d caches before the config", test.why, len(u.given))
			}
			return nil
		}
		s := &service{handler: u}
		for range 2 {
			if _, err := s.Configure(t.Context(), &handlerpb.ConfigureRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		c := u.given[0]
		var errs []error
		_, _, err := c.Get(t.Context(), "pods", "", "x")
		errs = append(errs, err)
		_, err = c.GetMany(t.Context(), "pods", "x")
		errs = append(errs, err)
		for _, err = range c.List(t.Context(), "pods", handler.ListOptions{}) {
			errs = append(errs, err)
		}
		_, err = c.ByIndex(t.Context(), "pods", "i", "x")
		errs = append(errs, err)
		_, err = c.IndexKeys(t.Context(), "pods", "i", "x")
		errs = append(errs, err)
		_, err = c.IndexValues(t.Context(), "pods", "i")
		errs = append(errs, err)
		for _, err := range errs {
			if err == nil || err.Error() != test.want || errors.Is(err, handler.ErrDenied) != test.denied {
				t.Errorf("%s: %v", test.why, err)
			}
		}
		if len(errs) != 6 {
			t.Errorf("%d errors", len(errs))
		}
	}
}
