package source

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/delta"
)

// compare compares a side's cache and indexes with the truth.
func (d *differential) compare(s *side) {
	cached := map[string]runtime.Object{}
	indexed := map[string]map[string][]string{}
	for index := range indexValues {
		indexed[index] = map[string][]string{}
	}
	for _, o := range s.list("", labels.Everything()) {
		cached[tell(delta.Synced, o).key] = o
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(d.truth.now)), slices.Sorted(maps.Keys(cached))); diff != "" {
		d.t.Errorf("the cache (-server +cache):\n%s", diff)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(cached)) {
		o := d.truth.now[key]
		d.truth.same(d.t, "in the cache: "+o.String(), o.object, cached[key])
		for index, values := range indexValues {
			for _, value := range values(tree(o.object)) {
				if keys := indexed[index][value]; !slices.Contains(keys, key) {
					indexed[index][value] = append(keys, key)
				}
			}
		}
	}
	for index, values := range indexed {
		got := map[string][]string{}
		for _, value := range s.values(index) {
			keys, found := s.keys(index, value), s.byIndex(index, value)
			slices.Sort(keys)
			got[value] = keys
			for _, o := range found {
				if key := tell(delta.Synced, o).key; o != cached[key] || !slices.Contains(keys, key) {
					d.t.Errorf("index %s has another %s under %q than the cache", index, key, value)
				}
			}
			if len(found) != len(keys) {
				d.t.Errorf("index %s has %d objects and %d keys under %q", index, len(found), len(keys), value)
			}
		}
		if diff := cmp.Diff(values, got); diff != "" {
			d.t.Errorf("index %s (-server +index):\n%s", index, diff)
		}
		if absent := s.byIndex(index, "no such value"); len(absent) > 0 {
			d.t.Errorf("index %s has %d objects under a value that none has", index, len(absent))
		}
	}
	d.read(s, cached)
}

// read compares the results of a side's lister.
func (d *differential) read(s *side, cached map[string]runtime.Object) {
	namespace := pick(d.random, []string{"", "shop", "pay", "nowhere"})
	selector := pick(d.random, []string{"", "tier=web", "tier!=web", selected, "app.kubernetes.io/name", "hidden notin (yes)", "tier=nothing"})
	parsed, err := labels.Parse(selector)
	if err != nil {
		d.t.Fatal(err)
	}
	want, got := []string{}, []string{}
	for key, o := range d.truth.now {
		u := o.object.(*unstructured.Unstructured)
		if (namespace == "" || namespace == u.GetNamespace()) && parsed.Matches(labels.Set(u.GetLabels())) {
			want = append(want, key)
		}
	}
	for _, o := range s.list(namespace, parsed) {
		got = append(got, tell(delta.Synced, o).key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("in %q, labelled %q (-server +cache):\n%s", namespace, selector, diff)
	}
	name := fmt.Sprintf("o%02d", d.random.IntN(80))
	o, found := s.get("shop", name)
	if in, there := cached["shop/"+name]; found != there || found && o != in {
		d.t.Errorf("shop/%s is there: %v; found: %v", name, there, found)
	}
}
