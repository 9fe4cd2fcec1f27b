package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

func TestNewCache(t *testing.T) {
	pod := func(namespace, name, node, labels string) json.RawMessage {
		return json.RawMessage(`{"metadata":{"namespace":"` + namespace + `","name":"` + name +
			`","labels":` + labels + `},"spec":{"nodeName":"` + node + `"}}`)
	}
	byNode := func(object json.RawMessage) []string {
		var pod struct{ Spec struct{ NodeName string } }
		if err := json.Unmarshal(object, &pod); err != nil {
			t.Error(err)
		}
		return []string{pod.Spec.NodeName}
	}
	web := pod("shop", "web", "n1", `{"app":"web"}`)
	cache := NewCache(t, map[string]Source{
		"pods": {
			Objects: []json.RawMessage{web, pod("shop", "db", "n2", `{}`), pod("a-b", "x", "n1", `{}`),
				pod("a", "c", "n1", `{}`)},
			Indexes: map[string]func(json.RawMessage) []string{"byNode": byNode},
		},
		"secrets": {Denied: true},
	})
	ctx := t.Context()

	got, found, err := cache.Get(ctx, "pods", "shop", "web")
	if string(got) != string(web) || !found || err != nil {
		t.Errorf("got %s, %v, %v", got, found, err)
	}
	if got, found, err := cache.Get(ctx, "pods", "shop", "none"); got != nil || found || err != nil {
		t.Errorf("what does not exist: %s, %v, %v", got, found, err)
	}
	many, err := cache.GetMany(ctx, "pods", "none", "shop/web")
	if err != nil || len(many) != 2 || many[0] != nil || string(many[1]) != string(web) {
		t.Errorf("many: %s, %v", many, err)
	}
	list := func(o handler.ListOptions) (names []string) {
		for object, err := range cache.List(ctx, "pods", o) {
			var pod struct{ Metadata struct{ Name string } }
			if err := errors.Join(err, json.Unmarshal(object, &pod)); err != nil {
				t.Fatal(err)
			}
			names = append(names, pod.Metadata.Name)
		}
		return names
	}
	for _, c := range []struct {
		why  string
		o    handler.ListOptions
		want []string
	}{
		{"in the order of namespaces, then names", handler.ListOptions{}, []string{"c", "x", "db", "web"}},
		{"of a namespace", handler.ListOptions{Namespace: "shop"}, []string{"db", "web"}},
		{"by labels", handler.ListOptions{Selector: "app in (web)"}, []string{"web"}},
		{"a page", handler.ListOptions{After: "a/c", Limit: 2}, []string{"x", "db"}},
	} {
		if got := list(c.o); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
	if keys, err := cache.IndexKeys(ctx, "pods", "byNode", "n1"); err != nil ||
		!slices.Equal(keys, []string{"a/c", "a-b/x", "shop/web"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if found, err := cache.ByIndex(ctx, "pods", "byNode", "n2"); err != nil || len(found) != 1 {
		t.Errorf("by index: %s, %v", found, err)
	}
	if values, err := cache.IndexValues(ctx, "pods", "byNode"); err != nil ||
		!slices.Equal(values, []string{"n1", "n2"}) {
		t.Errorf("values %q, %v", values, err)
	}

	ended, end := context.WithCancel(ctx)
	end()
	for _, c := range []struct {
		why string
		ask func() error
		is  error
	}{
		{"a source that access.read does not name", func() error { _, _, err := cache.Get(ctx, "secrets", "a", "b"); return err }, handler.ErrDenied},
		{"a source that does not exist", func() error { _, err := cache.GetMany(ctx, "nodes", "a"); return err }, handler.ErrUnknown},
		{"an index that does not exist", func() error { _, err := cache.IndexValues(ctx, "pods", "byName"); return err }, handler.ErrUnknown},
		{"the caller has gone", func() error { _, err := cache.ByIndex(ended, "pods", "byNode", "n1"); return err }, context.Canceled},
		{"a list of a denied source", func() error {
			for _, err := range cache.List(ctx, "secrets", handler.ListOptions{}) {
				return err
			}
			return nil
		}, handler.ErrDenied},
	} {
		if err := c.ask(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.why, err, c.is)
		}
	}
	for _, err := range cache.List(ctx, "pods", handler.ListOptions{Selector: "a in"}) {
		if err == nil {
			t.Error("a selector that does not parse selects")
		}
	}
	got[0] = 'x'
	if again, _, _ := cache.Get(ctx, "pods", "shop", "web"); string(again) != string(web) {
		t.Error("the caller does not own what it got")
	}
}
