package apistub_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/integration/apistub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes   = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// newServer serves pods, nodes and widgets.
func newServer(t *testing.T) (*apistub.Server, dynamic.Interface) {
	t.Helper()
	s := apistub.New(t)
	s.Serve(pods, "Pod", true)
	s.Serve(nodes, "Node", false)
	s.Serve(widgets, "Widget", true)
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func pod(name, app string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","labels":{"app":%q}},"spec":{"n":9007199254740993}}`,
		name, app)
}

func TestObjectsAreStoredLikeAServer(t *testing.T) {
	s, client := newServer(t)
	made := s.Apply(pods, pod("a", "web"))
	again := s.Apply(pods, pod("a", "<db>"))
	if made.GetUID() == "" || made.GetUID() != again.GetUID() || made.GetResourceVersion() == again.GetResourceVersion() {
		t.Errorf("identity: uid %q then %q, resourceVersion %q then %q",
			made.GetUID(), again.GetUID(), made.GetResourceVersion(), again.GetResourceVersion())
	}
	got, err := client.Resource(pods).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(again, got); diff != "" {
		t.Error(diff)
	}
	if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "n"); n != 9007199254740993 {
		t.Errorf("a large integer became %d", n)
	}
	if other := s.Apply(pods, `{"metadata":{"name":"a","namespace":"shop","uid":"u2"}}`); other.GetUID() != "u2" {
		t.Errorf("uid given was not kept: %q", other.GetUID())
	}
	s.Delete(pods, "shop", "a")
	if _, err := client.Resource(pods).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v", err)
	}
}

func TestListSelectsAndPages(t *testing.T) {
	s, client := newServer(t)
	for i := range 5 {
		s.Apply(pods, pod(fmt.Sprint("p", i), []string{"web", "db"}[i%2]))
	}
	s.Apply(pods, `{"metadata":{"name":"p9"},"status":{"phase":"Failed"}}`)

	for _, c := range []struct {
		reason, namespace string
		opts              metav1.ListOptions
		want              []string
	}{
		{"all of them", "", metav1.ListOptions{},
			[]string{"default/p9", "shop/p0", "shop/p1", "shop/p2", "shop/p3", "shop/p4"}},
		{"one namespace", "default", metav1.ListOptions{}, []string{"default/p9"}},
		{"by label", "", metav1.ListOptions{LabelSelector: "app=db"}, []string{"shop/p1", "shop/p3"}},
		{"by name", "", metav1.ListOptions{FieldSelector: "metadata.name=p2"}, []string{"shop/p2"}},
		{"by another field", "", metav1.ListOptions{FieldSelector: "status.phase=Failed"}, []string{"default/p9"}},
		{"an absent field is empty", "shop", metav1.ListOptions{FieldSelector: "status.phase!="}, nil},
		{"resourceVersion 0 knows no pages", "shop", metav1.ListOptions{ResourceVersion: "0", Limit: 1},
			[]string{"shop/p0", "shop/p1", "shop/p2", "shop/p3", "shop/p4"}},
	} {
		list, err := client.Resource(pods).Namespace(c.namespace).List(t.Context(), c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		if diff := cmp.Diff(c.want, keys(list)); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}

	// Later pages show the same moment as the first one.
	first, err := client.Resource(pods).List(t.Context(), metav1.ListOptions{Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	s.Delete(pods, "shop", "p4")
	s.Apply(pods, pod("p3", "changed"))
	s.Apply(pods, pod("p7", "new"))
	rest, err := client.Resource(pods).List(t.Context(), metav1.ListOptions{Limit: 4, Continue: first.GetContinue()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/p3", "shop/p4"}, keys(rest)); diff != "" {
		t.Error(diff)
	}
	if rest.GetContinue() != "" || rest.GetResourceVersion() != first.GetResourceVersion() ||
		rest.Items[0].GetLabels()["app"] != "db" {
		t.Errorf("second page is of another moment: %v", rest.Object)
	}
	s.Expire()
	_, err = client.Resource(pods).List(t.Context(), metav1.ListOptions{Limit: 4, Continue: first.GetContinue()})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("continue after Expire: %v", err)
	}
	// The dynamic client would retry ten times because of Retry-After, so the test does not use it.
	raw := discovery.NewDiscoveryClientForConfigOrDie(s.Config()).RESTClient()
	err = raw.Get().AbsPath("/api/v1/pods").Param("resourceVersion", "1000000").MaxRetries(0).Do(t.Context()).Error()
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("list of the future: %v", err)
	}
}

// On the wire, items of core lists have no apiVersion and kind. Items of custom resources have
// both.
func TestListItemsOnTheWire(t *testing.T) {
	s, _ := newServer(t)
	s.Apply(pods, pod("a", "web"))
	s.Apply(widgets, pod("a", "web"))
	for path, kinds := range map[string]int{"/api/v1/pods": 0, "/apis/example.com/v1/widgets": 1} {
		if body := fetch(t, s, path); strings.Count(body, `{"kind":"Pod","apiVersion":"v1"`)+
			strings.Count(body, `{"kind":"Widget","apiVersion":"example.com/v1"`) != kinds {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestWatchResumesWhileHistoryLasts(t *testing.T) {
	s, client := newServer(t)
	s.SetHistory(3)
	from := s.Apply(pods, pod("a", "web")).GetResourceVersion()
	s.Apply(pods, pod("b", "web"))
	s.Apply(pods, pod("a", "db"))
	s.Delete(pods, "shop", "b")

	w := open(t, client, pods, metav1.ListOptions{ResourceVersion: from})
	want := []string{"ADDED shop/b", "MODIFIED shop/a", "DELETED shop/b"}
	if diff := cmp.Diff(want, take(t, w, 3)); diff != "" {
		t.Error(diff)
	}
	w.Stop()

	// A watch that selects by label sees objects begin and cease to match.
	w = open(t, client, pods, metav1.ListOptions{ResourceVersion: from, LabelSelector: "app=web"})
	want = []string{"ADDED shop/b", "DELETED shop/a", "DELETED shop/b"}
	if diff := cmp.Diff(want, take(t, w, 3)); diff != "" {
		t.Error(diff)
	}
	w.Stop()

	s.Apply(pods, pod("c", "web")) // the fourth since
	w = open(t, client, pods, metav1.ListOptions{ResourceVersion: from})
	wantGone(t, w)
}

func TestExpireEndsOpenWatches(t *testing.T) {
	s, client := newServer(t)
	w := open(t, client, pods, metav1.ListOptions{ResourceVersion: s.ResourceVersion()})
	s.AwaitWatches(pods, 1)
	s.Apply(pods, pod("a", "web"))
	take(t, w, 1)
	s.Expire()
	wantGone(t, w)
	s.AwaitWatches(pods, 0)
}

func TestWatchWithoutResourceVersionBeginsWithTheState(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		s, client := newServer(t)
		s.SetWatchList(watchList)
		s.Apply(pods, pod("a", "web"))
		w := open(t, client, pods, metav1.ListOptions{})
		take(t, w, 1)
		s.Apply(pods, pod("b", "web"))
		if diff := cmp.Diff([]string{"ADDED shop/b"}, take(t, w, 1)); diff != "" {
			t.Errorf("WatchList %v: %s", watchList, diff)
		}
		w.Stop()
	}
}

func TestWatchList(t *testing.T) {
	s, client := newServer(t)
	s.Apply(pods, pod("b", "web"))
	s.Apply(pods, pod("a", "web"))
	yes := true
	opts := metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	w := open(t, client, pods, opts)
	want := []string{"ADDED shop/a", "ADDED shop/b", "BOOKMARK end " + s.ResourceVersion()}
	if diff := cmp.Diff(want, take(t, w, 3)); diff != "" {
		t.Error(diff)
	}
	s.Apply(nodes, `{"metadata":{"name":"n"}}`)
	s.Bookmark()
	if diff := cmp.Diff([]string{"BOOKMARK " + s.ResourceVersion()}, take(t, w, 1)); diff != "" {
		t.Error(diff)
	}
	w.Stop()

	s.SetWatchList(false)
	if _, err := client.Resource(pods).Watch(t.Context(), opts); !apierrors.IsInvalid(err) {
		t.Errorf("WatchList switched off: %v", err)
	}
}

func TestGarbageEndsTheClientsStream(t *testing.T) {
	s, client := newServer(t)
	w := open(t, client, pods, metav1.ListOptions{ResourceVersion: s.ResourceVersion()})
	s.AwaitWatches(pods, 1)
	s.Garbage(pods, `{"type":"ADDED","object":{`+"\n\x00")
	s.Garbage(pods, "}\n")
	for ev := range w.ResultChan() {
		if ev.Type != kwatch.Error {
			t.Errorf("an event out of garbage: %v", ev)
		}
	}
}

func TestForbidFailAndWithdraw(t *testing.T) {
	s, client := newServer(t)
	list := func(gvr schema.GroupVersionResource) error {
		_, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		return err
	}
	s.Forbid(pods, true)
	if err := list(pods); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden: %v", err)
	}
	if err := list(nodes); err != nil {
		t.Errorf("another resource: %v", err)
	}
	s.Forbid(pods, false)
	if err := list(pods); err != nil {
		t.Errorf("allowed again: %v", err)
	}

	s.Fail(func(r *http.Request) *metav1.Status {
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			return &metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
		}
		return nil
	})
	if err := list(nodes); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("failing: %v", err)
	}
	if err := list(pods); err != nil {
		t.Errorf("another resource: %v", err)
	}

	disco := discovery.NewDiscoveryClientForConfigOrDie(s.Config())
	if got := discovered(t, disco); !cmp.Equal(got, []string{"example.com/v1 widgets", "v1 bindings", "v1 nodes", "v1 pods"}) {
		t.Errorf("discovered %v", got)
	}
	last := metav1.ListOptions{ResourceVersion: s.ResourceVersion()}
	w := open(t, client, widgets, last)
	s.AwaitWatches(widgets, 1)
	s.Withdraw(widgets)
	if ev, more := <-w.ResultChan(); more {
		t.Errorf("watch of a withdrawn resource: %v", ev)
	}
	if err := list(widgets); !apierrors.IsNotFound(err) {
		t.Errorf("withdrawn: %v", err)
	}
	if got := discovered(t, disco); !cmp.Equal(got, []string{"v1 bindings", "v1 nodes", "v1 pods"}) {
		t.Errorf("discovered %v", got)
	}
	if _, err := disco.ServerResourcesForGroupVersion("example.com/v1"); !apierrors.IsNotFound(err) {
		t.Errorf("group version of a withdrawn resource: %v", err)
	}
	s.Serve(widgets, "Widget", true)
	wantGone(t, open(t, client, widgets, last))
}

func TestListsAreHeldAndSlow(t *testing.T) {
	s, client := newServer(t)
	release := s.HoldLists()
	var held sync.WaitGroup
	for range 3 {
		held.Go(func() {
			if _, err := client.Resource(pods).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	s.Await("three lists at once", func() bool { return s.Requests().MaxListing == 3 })
	release()
	held.Wait()
	if got := s.Requests().Lists[pods]; got != 3 {
		t.Errorf("%d lists counted", got)
	}

	const slow = 20 * time.Millisecond
	s.SlowLists(slow)
	start := time.Now()
	if _, err := client.Resource(pods).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < slow {
		t.Errorf("a slow list took %v", took)
	}
}

func TestCloseWhileListsAreHeldAndWatchesAreOpen(t *testing.T) {
	s, client := newServer(t)
	w := open(t, client, pods, metav1.ListOptions{ResourceVersion: s.ResourceVersion()})
	s.AwaitWatches(pods, 1)
	s.HoldLists()
	done := make(chan error)
	go func() {
		_, err := client.Resource(pods).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		done <- err
	}()
	s.Await("a held list", func() bool { return s.Requests().MaxListing == 1 })
	s.Close()
	if err := <-done; err == nil {
		t.Error("a list that was held succeeded")
	}
	for range w.ResultChan() {
	}
}

// open starts a watch that stops when the test ends.
func open(t *testing.T, c dynamic.Interface, gvr schema.GroupVersionResource, opts metav1.ListOptions) kwatch.Interface {
	t.Helper()
	w, err := c.Resource(gvr).Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// take returns the next n events of a watch, each as TYPE KEY. The key of a bookmark is its
// resourceVersion.
func take(t *testing.T, w kwatch.Interface, n int) []string {
	t.Helper()
	var got []string
	for range n {
		ev, more := <-w.ResultChan()
		if !more {
			t.Fatalf("watch ended after %q", got)
		}
		u, ok := ev.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("after %q: %v", got, ev)
		}
		key, _ := cache.MetaNamespaceKeyFunc(u)
		if ev.Type == kwatch.Bookmark {
			key = u.GetResourceVersion()
			if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				key = "end " + key
			}
		}
		got = append(got, string(ev.Type)+" "+key)
	}
	return got
}

func wantGone(t *testing.T, w kwatch.Interface) {
	t.Helper()
	ev, more := <-w.ResultChan()
	if !more || ev.Type != kwatch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(ev.Object)) {
		t.Errorf("want 410 as an ERROR event, got %v %v", ev, more)
	}
	if ev, more := <-w.ResultChan(); more {
		t.Errorf("after 410: %v", ev)
	}
}

func keys(list *unstructured.UnstructuredList) []string {
	var out []string
	_ = list.EachListItem(func(o runtime.Object) error {
		key, err := cache.MetaNamespaceKeyFunc(o)
		out = append(out, key)
		return err
	})
	return out
}

func discovered(t *testing.T, disco discovery.DiscoveryInterface) []string {
	t.Helper()
	_, lists, err := disco.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range lists {
		for _, r := range l.APIResources {
			out = append(out, l.GroupVersion+" "+r.Name)
		}
	}
	slices.Sort(out)
	return out
}

func fetch(t *testing.T, s *apistub.Server, path string) string {
	t.Helper()
	body, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config()).RESTClient().Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
