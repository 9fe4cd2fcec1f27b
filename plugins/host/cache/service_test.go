package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/plugins/handlerpb"
)

func TestReads(t *testing.T) {
	c, _ := connect(t, served(t, &fake{sources: map[string]fakeSource{"pods": pods, "none": nil}}, "pods", "none"))
	objects := func(pages grpc.ServerStreamingClient[handlerpb.ObjectPage], err error) []string {
		all, _ := elementsOf(t, pages, err, (*handlerpb.ObjectPage).GetObjects)
		return all
	}
	keys := func(pages grpc.ServerStreamingClient[handlerpb.KeyPage], err error) []string {
		all, _ := elementsOf(t, pages, err, (*handlerpb.KeyPage).GetKeys)
		return all
	}
	values := func(pages grpc.ServerStreamingClient[handlerpb.ValuePage], err error) []string {
		all, _ := elementsOf(t, pages, err, (*handlerpb.ValuePage).GetValues)
		return all
	}
	json := func(n ...int) (out []string) {
		for _, n := range n {
			out = append(out, pods[n-1].json)
		}
		return out
	}
	list := func(r *handlerpb.ListRequest) []string { r.Source = "pods"; return objects(c.List(t.Context(), r)) }
	ask := func(after string, limit uint32) *handlerpb.ByIndexRequest {
		return &handlerpb.ByIndexRequest{Source: "pods", Index: "byLetter", Value: "w", After: after, Limit: limit}
	}
	for _, test := range []struct {
		what      string
		got, want []string
	}{
		{"a list", list(&handlerpb.ListRequest{}), json(1, 2, 3, 4)},
		{"of a namespace", list(&handlerpb.ListRequest{Namespace: "a"}), json(1, 2)},
		{"by labels", list(&handlerpb.ListRequest{LabelSelector: "web"}), json(1, 4)},
		{"so many", list(&handlerpb.ListRequest{Limit: 3}), json(1, 2, 3)},
		{"more than there are", list(&handlerpb.ListRequest{Limit: 1<<32 - 1}), json(1, 2, 3, 4)},
		{"the rest: namespaces come before names", list(&handlerpb.ListRequest{After: "a/worker"}), json(3, 4)},
		{"after what is not there", list(&handlerpb.ListRequest{After: "a/x"}), json(3, 4)},
		{"after all", list(&handlerpb.ListRequest{After: "zzz/a"}), nil},
		{"a part", list(&handlerpb.ListRequest{After: "a/web", Limit: 2}), json(2, 3)},
		{"nothing", objects(c.List(t.Context(), &handlerpb.ListRequest{Source: "none"})), nil},
		{"by index", objects(c.ByIndex(t.Context(), ask("", 0))), json(1, 2, 4)},
		{"so many by index", objects(c.ByIndex(t.Context(), ask("a/web", 1))), json(2)},
		{"keys", keys(c.IndexKeys(t.Context(), ask("", 0))), []string{"a/web", "a/worker", "shop/web"}},
		{"keys after one", keys(c.IndexKeys(t.Context(), ask("a/worker", 0))), []string{"shop/web"}},
		{"no such value", keys(c.IndexKeys(t.Context(), &handlerpb.ByIndexRequest{Source: "pods", Index: "byLetter", Value: "x"})), nil},
		{"values", values(c.IndexValues(t.Context(), &handlerpb.IndexValuesRequest{Source: "pods", Index: "byLetter"})), []string{"a", "w"}},
		{"values after one", values(c.IndexValues(t.Context(), &handlerpb.IndexValuesRequest{Source: "pods", Index: "byLetter", After: proto.String("a")})), []string{"w"}},
		{"several, in the order asked for", objects(c.GetMany(t.Context(), &handlerpb.GetManyRequest{
			Source: "pods", Keys: []string{"shop/web", "shop/gone", "", "a/web", "shop/web", "web", "a/b/c"},
		})), []string{pods[3].json, "", "", pods[0].json, pods[3].json, "", ""}},
		{"none of several", objects(c.GetMany(t.Context(), &handlerpb.GetManyRequest{Source: "pods"})), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %q, want %q", test.what, test.got, test.want)
		}
	}
	for name, want := range map[string]string{"web": pods[3].json, "gone": ""} {
		got, err := c.Get(t.Context(), &handlerpb.GetRequest{Source: "pods", Namespace: "shop", Name: name})
		if err != nil || string(got.GetObject()) != want {
			t.Errorf("%s: %s, %v", name, got.GetObject(), err)
		}
	}
}

// Every error says what to do, in words that fit into a log.
func TestErrors(t *testing.T) {
	f := &fake{sources: map[string]fakeSource{"pods": pods, "nodes": nil, "late": nil}, unsynced: map[string]bool{"late": true}}
	c, _ := connect(t, served(t, f, "pods", "late", "new"))
	nothing, _ := connect(t, served(t, nil, "pods"))
	get := func(source string) error {
		_, err := c.Get(t.Context(), &handlerpb.GetRequest{Source: source})
		return err
	}
	first := func(pages grpc.ServerStreamingClient[handlerpb.ObjectPage], err error) error {
		if err == nil {
			_, err = pages.Recv()
		}
		return err
	}
	hurried, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, late := c.Get(hurried, &handlerpb.GetRequest{Source: "late"})
	_, untried := nothing.Get(t.Context(), &handlerpb.GetRequest{Source: "pods"})
	for _, test := range []struct {
		err  error
		code codes.Code
		want string
	}{
		{get("nodes"), codes.PermissionDenied, `handler "oncall" may not read source "nodes": to allow it, add to its manifest spec: {access: {read: [pods, late, new, nodes]}}`},
		{get("pod"), codes.NotFound, `there is no source "pod"; did you mean "pods"?`},
		{get(""), codes.NotFound, `there is no source ""`},
		{get(strings.Repeat("x", 60_000)), codes.NotFound, `xxx"…`},
		{get("a\n\x1b[31m"), codes.NotFound, `there is no source "a\n\x1b[31m"`},
		{get("new"), codes.NotFound, `source "new" is new in the manifests: it can be read once informd is restarted`},
		{get("late"), codes.Unavailable, `source "late" cannot be read now: it is listing`},
		{late, codes.Unavailable, `source "late" cannot be read now: it is listing`}, // not that the time is over, which says nothing
		{untried, codes.Unavailable, "there is no cache to read"},
		{first(c.ByIndex(t.Context(), &handlerpb.ByIndexRequest{Source: "pods", Index: "byLeter"})), codes.NotFound, `source "pods" has no index "byLeter"; did you mean "byLetter"?`},
		{first(c.ByIndex(t.Context(), &handlerpb.ByIndexRequest{Source: "nodes", Index: "byLetter"})), codes.PermissionDenied, `may not read source "nodes"`},
		{first(c.List(t.Context(), &handlerpb.ListRequest{Source: "pods", LabelSelector: "!"})), codes.InvalidArgument, `the label selector "!" does not parse`},
		{first(c.List(t.Context(), &handlerpb.ListRequest{Source: "pods", LabelSelector: strings.Repeat("a", maxSelector+1)})), codes.InvalidArgument, "longer than 1024 bytes"},
		{first(c.GetMany(t.Context(), &handlerpb.GetManyRequest{Source: "pods", Keys: make([]string, handlerpb.MaxGetKeys+1)})), codes.InvalidArgument, "201 keys are more than the 200"},
		{get(strings.Repeat("x", handlerpb.MaxReadBytes)), codes.ResourceExhausted, "larger than max"},
	} {
		if s := status.Convert(test.err); s.Code() != test.code || !strings.Contains(s.Message(), test.want) || len(s.Message()) > 300 {
			t.Errorf("%v: %.300s, want %v: …%s…", s.Code(), s.Message(), test.code, test.want)
		}
	}
}

// Whatever the sizes of the objects, they arrive complete, in pages of bounded size.
func TestPages(t *testing.T) {
	var many fakeSource
	for i := range 3000 {
		size := []int{0, 1, 900, maxCopied - 1, maxCopied, maxCopied + 1, 3000}[i%7]
		if i == 1500 {
			size = 5 << 20
		}
		many = append(many, fakeObject{fmt.Sprintf("a/x%04d", i), fmt.Sprintf("%04d", i) + strings.Repeat("x", size)})
	}
	s := served(t, &fake{sources: map[string]fakeSource{"many": many}}, "many")
	c, _ := connect(t, s)
	for _, call := range []func() (grpc.ServerStreamingClient[handlerpb.ObjectPage], error){
		func() (grpc.ServerStreamingClient[handlerpb.ObjectPage], error) {
			return c.List(t.Context(), &handlerpb.ListRequest{Source: "many"})
		},
		func() (grpc.ServerStreamingClient[handlerpb.ObjectPage], error) {
			return c.ByIndex(t.Context(), &handlerpb.ByIndexRequest{Source: "many", Index: "byLetter", Value: "x"})
		},
	} {
		pages, err := call()
		all, sizes := elementsOf(t, pages, err, (*handlerpb.ObjectPage).GetObjects)
		if len(all) != len(many) {
			t.Fatalf("%d objects", len(all))
		}
		for i := range all {
			if all[i] != many[i].json {
				t.Fatalf("object %d: %.20s…, %d bytes", i, all[i], len(all[i]))
			}
		}
		large := 0
		for _, size := range sizes {
			if size > handlerpb.MaxPageBytes {
				large++
			}
		}
		if large != 1 || len(sizes) < 10 {
			t.Errorf("%d pages, %d of them too large; there is one large object", len(sizes), large)
		}
	}
	pages, err := c.IndexKeys(t.Context(), &handlerpb.ByIndexRequest{Source: "many", Index: "byLetter", Value: "x"})
	if all, sizes := elementsOf(t, pages, err, (*handlerpb.KeyPage).GetKeys); len(all) != len(many) || len(sizes) != 3 {
		t.Errorf("%d keys in %d pages; 1000 are in one", len(all), len(sizes))
	}
	object, err := c.Get(t.Context(), &handlerpb.GetRequest{Source: "many", Namespace: "a", Name: "x1500"})
	if err != nil || string(object.GetObject()) != many[1500].json {
		t.Errorf("the large one: %d bytes, %v", len(object.GetObject()), err)
	}
	s.untaken(t, 0)
}

// untaken waits until so many pages are with a server that were not taken.
func (s *Server) untaken(t *testing.T, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d pages", n), func() bool { return len(s.listener.pages) == n })
}
