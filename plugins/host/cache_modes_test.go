package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/serve"
)

// cached is a cache whose sources all have the same objects: a thousand pods on ten nodes, by key
// in order.
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

// reader is a handler that makes the reads that events ask for, and answers with the results.
type reader struct{ cache handler.Cache }

// reading is the payload of an event for reader.
type reading struct {
	Source string
	Path   string // of another socket; empty: the own
}

// found is reader's answer.
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

// number returns the index of an object in the cache.
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
