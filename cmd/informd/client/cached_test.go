package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// shelf is a cache of one source, pods, with an index by tier.
type shelf struct {
	handler.Cache
	objects []string
}

func (s shelf) all() (out []json.RawMessage) {
	for _, o := range s.objects {
		out = append(out, json.RawMessage(o))
	}
	return out
}

func (s shelf) Get(_ context.Context, source, namespace, name string) (json.RawMessage, bool, error) {
	for _, o := range s.all() {
		if row, _ := rowOf(o); row.Namespace == namespace && row.Name == name {
			return o, true, nil
		}
	}
	return nil, false, nil
}

func (s shelf) List(_ context.Context, source string, o handler.ListOptions) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if source != "pods" {
			yield(nil, handler.ErrDenied)
			return
		}
		for _, o := range s.all() {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (s shelf) ByIndex(_ context.Context, _, index, value string) ([]json.RawMessage, error) {
	if index != "byTier" {
		return nil, handler.ErrUnknown
	}
	return slices.DeleteFunc(s.all(), func(o json.RawMessage) bool {
		row, _ := rowOf(o)
		return row.Labels["tier"] != value
	}), nil
}

// What a command of a handler gets is what a person gets from the daemon.
func TestGetFromAHandlersCache(t *testing.T) {
	cache := shelf{objects: []string{
		`{"kind":"Pod","metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7","labels":{"tier":"front"}}}`,
		`{"kind":"Pod","metadata":{"namespace":"shop","name":"db","uid":"u2","resourceVersion":"8","labels":{"tier":"back"}}}`,
		`{"kind":"Pod","metadata":{"namespace":"test","name":"web","uid":"u3","resourceVersion":"9"}}`,
	}}
	for _, test := range []struct {
		arguments, out, failure string
	}{
		{"pods", "NAMESPACE   NAME   RESOURCEVERSION   AGE\nshop        web    7                 -\nshop        db     8                 -\ntest        web    9                 -\n", ""},
		{"pods -o name", "shop/web\nshop/db\ntest/web\n", ""},
		{"pods -o name -n test", "test/web\n", ""},
		{"pods -o name web", "shop/web\ntest/web\n", ""},
		{"pods -o name shop/web", "shop/web\n", ""},
		{"pods -o name -l tier=back", "shop/db\n", ""},
		{"pods -o name --index byTier=front", "shop/web\n", ""},
		{"pods -o name --index byTier=front -n test", "", ""},
		{"pods shop/none", "", `source pods has no object "none" in namespace shop`},
		{"pods --index byNode=a", "", "unknown"},
		{"nodes", "", "not allowed"},
	} {
		var get getFlags
		cmd := newGetCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(new(bytes.Buffer))
		if err := cmd.ParseFlags(strings.Fields(test.arguments)); err != nil {
			t.Fatal(err)
		}
		get.namespace, _ = cmd.Flags().GetString("namespace")
		get.selector, _ = cmd.Flags().GetString("selector")
		get.index, _ = cmd.Flags().GetString("index")
		get.output = cmd.Flag("output").Value.String()
		query, err := get.query(cmd.Flags().Args())
		if err != nil {
			t.Fatal(err)
		}
		cmd.SetContext(t.Context())
		err = get.read(cmd, cache, query)
		if diff := cmp.Diff(test.out, out.String()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.arguments, diff)
		}
		if (err == nil) != (test.failure == "") || err != nil && !strings.Contains(err.Error(), test.failure) {
			t.Errorf("%s: %v, want %q", test.arguments, err, test.failure)
		}
	}
}

// A flag that names a daemon asks that daemon, wherever the command runs.
func TestWhichCache(t *testing.T) {
	if _, ok := new(controlFlags).handlersCache(); ok {
		t.Error("there is a handler's cache outside of a handler")
	}
	t.Setenv("INFORMD_CACHE_SOCKET", "unix:/nowhere")
	if _, ok := new(controlFlags).handlersCache(); !ok {
		t.Error("the handler's cache is not used")
	}
	if _, ok := (&controlFlags{stateDir: "/state"}).handlersCache(); ok {
		t.Error("--state-dir is not heeded")
	}
}
