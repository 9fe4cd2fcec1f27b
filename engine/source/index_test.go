package source

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

var (
	everything = Index{Paths: new(object.Paths), Values: func(any) []string { return []string{"yes"} }}

	byVersion = Index{Paths: specV, Values: func(tree any) []string { return []string{versionIn(tree)} }}

	byLetter = Index{Paths: object.Identity(), Values: func(tree any) []string {
		meta, _ := tree.(map[string]any)["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		return strings.Split(name, "")
	}}
)

func collected(b object.Bucket, err error) ([]*object.Object, error) { return b.Collect(), err }

// agrees reports whether an informer's sets have what client-go's index has, in order.
func agrees(t testing.TB, i *Informer, index, value string) {
	t.Helper()
	i.cache.mu.Lock() // no generation is shown meanwhile
	defer i.cache.mu.Unlock()
	got, err := i.cache.byIndex(index, value)
	stock, err2 := i.cache.store().ByIndex(index, value)
	if err != nil || err2 != nil {
		t.Error(err, err2)
	}
	want := make([]*object.Object, 0, len(stock))
	for _, e := range stock {
		want = append(want, e.(*entry).Object)
	}
	slices.SortFunc(want, object.Compare)
	if !slices.Equal(got.Collect(), want) || got.Len() != len(want) {
		t.Errorf("%s %q: %d objects, client-go has %d", index, value, got.Len(), len(want))
	}
}

// An index whose function gives something else each time must not keep what has gone.
func TestIndexFunctionThatIsImpure(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1), body("b", 1))
	run(t, s)
	e.expectAll(t, "synced a 1", "synced b 1")
	n := 0
	impure := Index{Paths: specV, Values: func(any) []string { n++; return []string{"all", fmt.Sprint(n), "all"} }}
	if err := i.AddIndexers(map[string]Index{"impure": impure}); err != nil {
		t.Fatal(err)
	}
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 2))
	server.Delete(pods, "shop", "b")
	e.expect(t, "updated a 1→2", "deleted b 1")
	if got := names(collected(i.cache.byIndex("impure", "all"))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the index has %v", got)
	}
	for _, value := range i.cache.valuesIn("impure") {
		agrees(t, i, "impure", value)
	}
	if values := i.cache.valuesIn("impure"); len(values) != 2 {
		t.Errorf("the index has the values %v", values)
	}
}

// A reader sees every object that stays, at any moment of an update.
func TestReadersSeeNoHalfUpdate(t *testing.T) {
	t.Parallel()
	s, _ := newInformers(t, apistub.New(t).Config(), Options{})
	i := s.Informer(Selection{Resource: pods})
	if err := i.AddIndexers(map[string]Index{"all": everything}); err != nil {
		t.Fatal(err)
	}
	const n = 600 // more than a leaf
	fill := func() {
		for at := range n {
			if err := i.cache.store().Update(benchMember(at)); err != nil {
				t.Error(err)
			}
		}
	}
	fill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			fill()
		}
	}()
	for isOver := false; !isOver; {
		select {
		case <-done:
			isOver = true
		default:
		}
		found, err := i.cache.byIndex("all", "yes")
		if err != nil || found.Len() != n || !slices.IsSortedFunc(found.Collect(), object.Compare) {
			t.Fatalf("%d objects, in the wrong order, or %v", found.Len(), err)
		}
	}
}

func names(objects []*object.Object, err error) []string {
	out := []string{}
	if err != nil {
		out = append(out, err.Error())
	}
	for _, o := range objects {
		out = append(out, o.Name())
	}
	return out
}

// A lookup takes no time for the objects themselves: what it needs does not grow with their number.
func TestLookupsCopyNoBucket(t *testing.T) {
	const lookups = 100
	needs := func(objects int) uint64 {
		i := filled(t, objects)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range lookups {
			if bucket, err := i.cache.byIndex("all", "yes"); err != nil || bucket.Len() != objects {
				t.Fatalf("%d objects, %v", bucket.Len(), err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / lookups
	}
	if few, many := needs(10), needs(10_000); many > few+1000 {
		t.Errorf("a lookup among 10 objects takes %d bytes, and among 10,000 %d", few, many)
	}
}

func TestIndexer(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("ab", 1), body("bc", 1), body("cd", 2))
	if err := i.AddIndexers(map[string]Index{"version": byVersion}); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	awaitSynced(t, i)
	server.AwaitWatches(pods, 1)
	// An index that is added late covers the objects that exist, and a name that exists keeps its
	// function.
	if err := i.AddIndexers(map[string]Index{"letter": byLetter, "version": everything}); err != nil {
		t.Fatal(err)
	}
	e.expectAll(t, "synced ab 1", "synced bc 1", "synced cd 2")
	server.Apply(pods, body("cd", 1))
	server.Delete(pods, "shop", "ab")
	e.expect(t, "updated cd 2→1", "deleted ab 1") // by now the store has them

	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"by version 1", names(collected(i.cache.byIndex("version", "1"))), []string{"bc", "cd"}},
		{"by version 2", names(collected(i.cache.byIndex("version", "2"))), []string{}},
		{"by letter c", names(collected(i.cache.byIndex("letter", "c"))), []string{"bc", "cd"}},
		{"letters", i.cache.valuesIn("letter"), []string{"b", "c", "d"}},
		{"an index that is not there", names(collected(i.cache.byIndex("colour", "red"))), []string{"Index with name colour does not exist"}},
		{"all", names(i.cache.list("shop", nil), nil), []string{"bc", "cd"}},
		{"another namespace", names(i.cache.list("pay", nil), nil), []string{}},
	} {
		if c.what == "all" && c.got[0] == "cd" {
			c.got[0], c.got[1] = c.got[1], c.got[0]
		}
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.what, diff)
		}
	}
	if n := len(i.cache.allIndexes()); n != 2 {
		t.Errorf("%d indexers", n)
	}
	for _, bad := range []map[string]Index{{"": everything}, {"x": {}}} {
		if err := i.AddIndexers(bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// If an index function fails, client-go ends the process, with the store's lock held.
func TestIndexFunctionThatPanics(t *testing.T) {
	t.Parallel()
	server, s, i, e, lines := serving(t, true, body("a", 1), body("b", 2))
	panicky := Index{Paths: specV, Values: func(tree any) []string {
		if versionIn(tree) == "2" {
			panic("two")
		}
		return byVersion.Values(tree)
	}}
	if err := i.AddIndexers(map[string]Index{"panicky": panicky}); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	e.expectAll(t, "synced a 1", "synced b 2")
	server.AwaitWatches(pods, 1)
	server.Apply(pods, body("a", 2))
	server.Apply(pods, body("b", 3))
	e.expect(t, "updated a 1→2", "updated b 2→3")
	if diff := cmp.Diff([]string{"3"}, i.cache.valuesIn("panicky")); diff != "" {
		t.Error(diff)
	}
	if n := i.Stats().IndexPanics; n != 2 {
		t.Errorf("%d panics were counted", n)
	}
	if said := lines.count("an index function has panicked"); said != 1 {
		t.Errorf("logged %d times in a minute", said)
	}
}

// Two sources that share an informer may give one name to different indexes. A source of several
// namespaces reads as one.
func TestSourceIsAView(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(pods, "Pod", true)
	for _, o := range []string{
		`{"metadata":{"namespace":"shop","name":"x","labels":{"tier":"web"}},"spec":{"v":1}}`,
		`{"metadata":{"namespace":"pay","name":"y","labels":{"tier":"db"}},"spec":{"v":1}}`,
		`{"metadata":{"namespace":"other","name":"z"},"spec":{"v":1}}`,
	} {
		server.Apply(pods, o)
	}
	s, _ := newInformers(t, server.Config(), Options{})
	shop, pay := s.Informer(Selection{Resource: pods, Namespace: "shop"}), s.Informer(Selection{Resource: pods, Namespace: "pay"})
	for _, i := range []*Informer{shop, pay} {
		if err := i.AddIndexers(map[string]Index{"object.spec.v": byVersion, "letters": byLetter}); err != nil {
			t.Fatal(err)
		}
	}
	both := NewSource("both", []*Informer{shop, pay}, map[string]string{"by": "object.spec.v", "late": "late"})
	one := NewSource("one", []*Informer{shop}, map[string]string{"by": "letters"})
	if both.HasSynced() {
		t.Error("synced before it ran")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := both.WaitForCacheSync(over); err == nil || err.Error() != "v1/pods in namespace shop has not synced: pending: context canceled" {
		t.Errorf("the wait: %v", err)
	}
	run(t, s)
	awaitSynced(t, shop, pay)
	if err := both.WaitForCacheSync(t.Context()); err != nil || !both.HasSynced() {
		t.Error("not synced", err)
	}
	for _, i := range []*Informer{shop, pay} {
		if err := i.AddIndexers(map[string]Index{"late": everything}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := both.Get("shop", "x"); !ok {
		t.Error("x is not there")
	}
	web, _ := labels.Parse("tier=web")
	if _, ok := both.Get("other", "z"); ok {
		t.Error("z is of another namespace")
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"both by 1", names(collected(both.ByIndex("by", "1"))), []string{"y", "x"}}, // by key: pay/y, shop/x
		{"one by x", names(collected(one.ByIndex("by", "x"))), []string{"x"}},
		{"one by 1", names(collected(one.ByIndex("by", "1"))), []string{}},
		{"late", names(collected(both.ByIndex("late", "yes"))), []string{"y", "x"}},
		{"values", both.ListIndexFuncValues("by"), []string{"1"}},
		{"unknown", names(collected(one.ByIndex("late", "yes"))), []string{`source "one" has no index "late"`}},
		{"in pay", names(both.List("pay", nil), nil), []string{"y"}},
		{"labelled", names(both.List("", web), nil), []string{"x"}},
		{"elsewhere", names(both.List("other", nil), nil), []string{}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.what, diff)
		}
	}
	if got := both.GetIndexers(); len(got) != 2 || got["by"].Values == nil || got["late"].Values == nil {
		t.Errorf("indexers %v", got)
	}
	if both.Name() != "both" || len(both.Informers()) != 2 {
		t.Error("the source has another name or other informers")
	}
}
