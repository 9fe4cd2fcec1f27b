package source

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// side is one of the two informers: what it reports, and how to read its cache.
type side struct {
	wire *fickle
	*recorder

	get     func(namespace, name string) (runtime.Object, bool)
	list    func(namespace string, s labels.Selector) []runtime.Object
	values  func(index string) []string
	keys    func(index, value string) []string
	byIndex func(index, value string) []runtime.Object
	widen   func() // does what Widen does, without keeping more; nil of client-go's
}

// indexValues are the indexes of both sides, as functions of an object's tree.
var indexValues = map[string]func(tree any) []string{
	cache.NamespaceIndex: func(tree any) []string { return stringsAt(tree, "metadata", "namespace") },
	"tags":               func(tree any) []string { return stringsAt(tree, "spec", "tags") },
}

// indexPaths are the paths that indexValues read.
var indexPaths = func() *object.Paths {
	p := new(object.Paths)
	p.Add("metadata", "namespace")
	p.Add("spec", "tags")
	return p
}()

// viewPaths are the paths that the consumer requests, and seenPaths those that it gets decoded.
var viewPaths, seenPaths = func() (view, seen *object.Paths) {
	view, seen = new(object.Paths), new(object.Paths)
	view.Add("metadata", "labels")
	view.Add("spec", "metadata")
	seen.Union(view)
	seen.Union(indexPaths)
	return view, seen
}()

// stringsAt returns the string at a path, or all strings of the list there.
func stringsAt(tree any, path ...string) (out []string) {
	for _, name := range path {
		m, _ := tree.(map[string]any)
		tree = m[name]
	}
	switch v := tree.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// ours runs an informer of informd. keep lists what it keeps of objects.
func ours(t *testing.T, config *rest.Config, sel Selection, keep *object.Paths, wire *fickle) *side {
	s, _ := newInformers(t, wire.under(config), Options{})
	i := s.Informer(sel)
	indexers := map[string]Index{}
	for name, values := range indexValues {
		indexers[name] = Index{Paths: indexPaths, Values: values}
	}
	if err := i.AddIndexers(indexers); err != nil {
		t.Fatal(err)
	}
	i.Keep(keep, viewPaths)
	r := newRecorder()
	last := map[delta.Key]*object.Object{}
	i.Consume(consumer(func(d delta.Delta, tree any) {
		// a list has another copy of the same state
		if d.Old != last[d.Key()] && (d.Old == nil || last[d.Key()] == nil ||
			d.Old.UID() != last[d.Key()].UID() || d.Old.ResourceVersion() != last[d.Key()].ResourceVersion()) {
			t.Errorf("%v: its old state is not the last one reported", tell(d.Type, d.Object))
		}
		if tree != nil {
			if diff := difference(d.Object.Decode(seenPaths), tree); diff != "" {
				t.Errorf("%v: the decoded tree differs: %s", tell(d.Type, d.Object), diff)
			}
		}
		last[d.Key()] = d.Object
		if d.Type == delta.Deleted {
			delete(last, d.Key())
		}
		r.hear(tell(d.Type, d.Object))
	}))
	run(t, s)
	return &side{
		wire: wire, recorder: r,
		get: func(namespace, name string) (runtime.Object, bool) { return i.cache.get(namespace, name) },
		list: func(namespace string, s labels.Selector) []runtime.Object {
			return objects(i.cache.list(namespace, s), nil)
		},
		values: i.cache.valuesIn,
		keys: func(index, value string) []string {
			agrees(t, i, index, value)
			found, err := collected(i.cache.byIndex(index, value))
			if err != nil {
				t.Error(err)
			}
			keys := []string{}
			for _, o := range found {
				keys = append(keys, o.Key())
			}
			return keys
		},
		byIndex: func(index, value string) []runtime.Object { return objects(collected(i.cache.byIndex(index, value))) },
		widen: func() {
			i.cache.mu.Lock()
			i.cache.widen(i.cache.keeping.wanted)
			complete := i.cache.keeping.completing
			i.cache.mu.Unlock()
			<-complete
		},
	}
}

// stock runs client-go's dynamic informer.
func stock(t *testing.T, config *rest.Config, sel Selection, wire *fickle) *side {
	client, err := dynamic.NewForConfig(wire.under(config))
	if err != nil {
		t.Fatal(err)
	}
	indexers := cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"tags":               func(o any) ([]string, error) { return indexValues["tags"](o.(*unstructured.Unstructured).Object), nil },
	}
	i := dynamicinformer.NewFilteredDynamicInformer(client, sel.Resource, sel.Namespace, 0, indexers,
		func(o *metav1.ListOptions) { o.LabelSelector = sel.LabelSelector }).Informer()
	r := newRecorder()
	if _, err := i.AddEventHandler(r.handler()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })

	lister := dynamiclister.New(i.GetIndexer(), sel.Resource)
	return &side{
		wire: wire, recorder: r,
		get: func(namespace, name string) (runtime.Object, bool) {
			o, err := lister.Namespace(namespace).Get(name)
			return o, err == nil
		},
		list: func(namespace string, s labels.Selector) []runtime.Object {
			if namespace == "" {
				return objects(lister.List(s))
			}
			return objects(lister.Namespace(namespace).List(s))
		},
		values: i.GetIndexer().ListIndexFuncValues,
		keys: func(index, value string) []string {
			keys, err := i.GetIndexer().IndexKeys(index, value)
			if err != nil {
				t.Error(err)
			}
			return keys
		},
		byIndex: func(index, value string) []runtime.Object { return objects(i.GetIndexer().ByIndex(index, value)) },
	}
}

func objects[T any](found []T, err error) []runtime.Object {
	if err != nil {
		panic(err) // no such index
	}
	out := make([]runtime.Object, len(found))
	for i, f := range found {
		out[i] = any(f).(runtime.Object)
	}
	return out
}
