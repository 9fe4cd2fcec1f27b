package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/host/cache"
)

// Handlers see sources as the engine has them, in the order of their keys.
func TestCached(t *testing.T) {
	c := startDaemon(t).cached
	if names := c.Names(); !slices.Equal(names, []string{"pods", "secrets", "thin"}) {
		t.Errorf("the sources are %v", names)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := c.Open(ctx, "pod"); !errors.Is(err, cache.ErrNoSource) {
		t.Errorf("a source that there is not: %v", err)
	}
	pods, err := c.Open(ctx, "pods")
	if err != nil {
		t.Fatal(err)
	}
	keys := func(all cache.Objects) (out []string) {
		for i := range all.Len() {
			out = append(out, all.Key(i))
			if _, name, _ := strings.Cut(all.Key(i), "/"); !strings.Contains(string(all.JSON(i)), `"name":"`+name+`"`) {
				t.Errorf("%s is %s", all.Key(i), all.JSON(i))
			}
		}
		return out
	}
	for _, test := range []struct {
		namespace, selector string
		want                []string
	}{
		{"", "", []string{"pay/web-0", "shop/web-0", "shop/web-1", "shop/web-2"}},
		{"shop", "", []string{"shop/web-0", "shop/web-1", "shop/web-2"}},
		{"", "app=web", []string{"shop/web-0", "shop/web-1", "shop/web-2"}},
		{"pay", "app=web", nil},
		{"none", "", nil},
	} {
		all, err := pods.List(test.namespace, test.selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := keys(all); !slices.Equal(got, test.want) {
			t.Errorf("in %q with %q: %v", test.namespace, test.selector, got)
		}
	}
	if _, err := pods.List("", "a in"); err == nil {
		t.Error("a selector that is none")
	}
	if json, ok := pods.Get("pay", "web-0"); !ok || !strings.Contains(string(json), `"more"`) && !strings.Contains(string(json), `"node":"b"`) {
		t.Errorf("%s, %v", json, ok)
	}
	if _, ok := pods.Get("pay", "web-1"); ok {
		t.Error("an object that there is not")
	}
	on, ok := pods.ByIndex("byNode", "a")
	if got := keys(on); !ok || !slices.Equal(got, []string{"shop/web-0", "shop/web-1", "shop/web-2"}) {
		t.Errorf("by index: %v, %v", got, ok)
	}
	if _, ok := pods.ByIndex("byNod", "a"); ok {
		t.Error("by an index that there is not")
	}
	if values, ok := pods.IndexValues("byNode"); !ok || !slices.Equal(values, []string{"a", "b"}) {
		t.Errorf("values: %v, %v", values, ok)
	}
	if _, ok := pods.IndexValues("byNod"); ok {
		t.Error("values of an index that there is not")
	}
	if !slices.Equal(pods.Indexes(), []string{"byNode"}) {
		t.Errorf("indexes: %v", pods.Indexes())
	}

	// Handlers see only the fields that a source keeps.
	thin, err := c.Open(ctx, "thin")
	if err != nil {
		t.Fatal(err)
	}
	if json, ok := thin.Get("shop", "web-0"); !ok || strings.Contains(string(json), `"more"`) || !strings.Contains(string(json), `"node":"a"`) {
		t.Errorf("of a source that keeps what is needed: %s, %v", json, ok)
	}
}
