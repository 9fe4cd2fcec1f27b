package source

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// The cases are forms of a list, and what the informer makes of them. If client-go can read the
// list too, the cache must hold what client-go reads.
func TestListBodies(t *testing.T) {
	t.Parallel()
	const at10 = `"resourceVersion":"10"`
	a, b := podAt("a", 1, 5), podAt("b", 2, 6)
	bare := func(pod string) string { return strings.Replace(pod, `"apiVersion":"v1","kind":"Pod",`, "", 1) }
	usual := podList(at10, bare(a), bare(b))
	both := []string{"synced a 1", "synced b 2"}
	large := strings.Replace(a, `"spec":{`, `"spec":{"text":"`+strings.Repeat(`0123456789\"`, 500_000)+`",`, 1)
	var many, manyHeard []string
	for n := range 1000 {
		many = append(many, podAt(fmt.Sprintf("p%04d", n), n, n+1))
		manyHeard = append(manyHeard, fmt.Sprintf("synced p%04d %d", n, n))
	}

	for _, c := range []struct {
		reason     string
		lists      []reply // only the last one counts, or its pages
		heard      []string
		unreadable int
		ours       bool // client-go cannot read it
	}{
		{reason: "its items have no type", lists: []reply{{body: usual}}, heard: both},
		{reason: "its items have their type", lists: []reply{{body: podList(at10, a, b)}}, heard: both},
		{reason: "one of them has", lists: []reply{{body: podList(at10, a, bare(b))}}, heard: both},
		{reason: "half a type is a type",
			lists: []reply{{body: podList(at10, `{"kind":"Pod",`+bare(a)[1:], `{"apiVersion":"v1",`+bare(b)[1:])}},
			heard: both},
		{reason: "space everywhere", lists: []reply{{body: "\r\n" + spaced(usual)}}, heard: both},
		{reason: "pretty-printed", lists: []reply{{body: pretty(usual)}}, heard: both},
		{reason: "its metadata last",
			lists: []reply{{body: `{"kind":"PodList","apiVersion":"v1","items":[` + bare(a) + "," + bare(b) + `],"metadata":{` + at10 + `}}`}},
			heard: both},
		{reason: "its type last, and its items have theirs",
			lists: []reply{{body: `{"metadata":{` + at10 + `},"items":[` + a + "," + b + `],"apiVersion":"v1","kind":"PodList"}`}},
			heard: both},
		{reason: "its type last",
			lists: []reply{{body: `{"metadata":{` + at10 + `},"items":[` + bare(a) + "," + bare(b) + `],"apiVersion":"v1","kind":"PodList"}`}},
			heard: both},
		{reason: "its type last but the other half",
			lists: []reply{{body: `{"kind":"PodList","items":[` + bare(a) + "," + b + `],"apiVersion":"v1","metadata":{` + at10 + `}}`}},
			heard: both},
		{reason: "its type last but one half",
			lists: []reply{{body: `{"apiVersion":"v1","items":[` + bare(a) + "," + b + `],"kind":"PodList","metadata":{` + at10 + `}}`}},
			heard: both},
		{reason: "a type that does not end in List says nothing of its items'",
			lists: []reply{{body: strings.Replace(usual, "PodList", "Pods", 1)}},
			heard: both, ours: true},
		{reason: "more than it needs",
			lists: []reply{{body: strings.Replace(usual, `"items"`, `"more":{"items":[`+podAt("c", 3, 7)+`],"metadata":{"resourceVersion":"9"}},"items"`, 1)}},
			heard: both},
		{reason: "more in its metadata",
			lists: []reply{{body: strings.Replace(usual, `"metadata":{`, `"metadata":{"selfLink":"","remainingItemCount":null,"more":[1.5e3],`, 1)}},
			heard: both},
		{reason: "escaped names",
			lists: []reply{{body: strings.NewReplacer(`"items"`, `"\u0069tems"`, `"metadata"`, `"meta\u0064ata"`, `"kind"`, `"\u006bind"`, `"name"`, `"\u006eame"`).Replace(usual)}},
			heard: both},
		{reason: "the last metadata counts",
			lists: []reply{{body: strings.Replace(usual, `"metadata"`, `"metadata":{"resourceVersion":"9","continue":"more"},"metadata"`, 1)}},
			heard: both},
		{reason: "the last items count",
			lists: []reply{{body: strings.Replace(usual, `"items"`, `"items":[`+podAt("c", 3, 7)+`],"items"`, 1)}},
			heard: both},
		{reason: "the last items count, also if they are none",
			lists: []reply{{body: strings.TrimSuffix(usual, "}") + `,"items":null}`}}},
		{reason: "its type has parameters", lists: []reply{{body: usual, contentType: "application/json; charset=utf-8"}}, heard: both},
		{reason: "it has no type", lists: []reply{{body: usual, contentType: "none"}}, heard: both},
		{reason: "something behind it", lists: []reply{{body: usual + "\n\n"}}, heard: both},

		{reason: "no items", lists: []reply{{body: podList(at10)}}},
		{reason: "items are null",
			lists: []reply{{body: `{"kind":"PodList","apiVersion":"v1","metadata":{` + at10 + `},"items":null}`}}},
		{reason: "an item that is larger than any buffer", lists: []reply{{body: podList(at10, large, bare(b))}}, heard: both},
		{reason: "more items than fit into a buffer", lists: []reply{{body: podList(at10, many...)}}, heard: manyHeard},
		{reason: "pages",
			lists: []reply{{body: podList(`"resourceVersion":"10","continue":"2"`, a)}, {body: podList(`"continue":"3","resourceVersion":"10"`, many[:300]...)}, {body: podList(at10, b)}},
			heard: append(slices.Clone(both), manyHeard[:300]...)},
		{reason: "an empty page",
			lists: []reply{{body: podList(`"resourceVersion":"10","continue":"2"`)}, {body: podList(at10, a, b)}},
			heard: both},

		// The informer leaves out and counts an item that is no object.
		{reason: "items of several kinds",
			lists: []reply{{body: podList(at10, "null", a, "7", `"a"`, "[]", "{}", "true", b)}},
			heard: both, unreadable: 6, ours: true},
		{reason: "items without a name",
			lists: []reply{{body: podList(at10, `{"metadata":null}`, a, `{"metadata":{"name":""}}`, `{"metadata":{"name":7}}`, `{"metadata":[]}`, b)}},
			heard: both, unreadable: 4, ours: true},
		{reason: "a number that nobody could decode",
			lists: []reply{{body: podList(at10, a, strings.Replace(podAt("c", 1, 7), `"v":1`, `"v":-1e999`, 1), b)}},
			heard: both, unreadable: 1, ours: true},
		{reason: "an item too deep",
			lists: []reply{{body: podList(at10, a, b, deep(podAt("c", 1, 7), 10_100))}},
			heard: both, unreadable: 1, ours: true},
		{reason: "an item deep enough", lists: []reply{{body: podList(at10, a, deep(b, 9_000))}}, heard: both},

		// The informer requests the list again if the answer is no list, and takes no part of it.
		{reason: "pages of HTML",
			lists: []reply{{body: "<html>Please log in</html>", contentType: "text/html"}, {body: "<html></html>", contentType: "text/html", status: http.StatusBadGateway}, {body: "", status: http.StatusServiceUnavailable, contentType: "none"}, {body: usual}},
			heard: both, ours: true},
		{reason: "nothing", lists: []reply{{}, {body: " \n"}, {end: breaks}, {body: usual}}, heard: both, ours: true},
		{reason: "items left out: there are none",
			lists: []reply{{body: `{"kind":"PodList","apiVersion":"v1","metadata":{` + at10 + `}}`}}},
		{reason: "other JSON",
			lists: []reply{{body: "null"}, {body: "[]"}, {body: `"PodList"`}, {body: "[" + usual + "]"}, {body: usual}},
			heard: both, ours: true},
		{reason: "items that are no list",
			lists: []reply{{body: strings.Replace(podList(at10), "[]", "{}", 1)}, {body: strings.Replace(podList(at10), "[]", `"none"`, 1)}, {body: usual}},
			heard: both, ours: true},
		{reason: "metadata that is none",
			lists: []reply{{body: strings.Replace(podList(at10), `{`+at10+`}`, `7`, 1)}, {body: strings.Replace(podList(at10), `"10"`, `10`, 1)}, {body: usual}},
			heard: both, ours: true},
		{reason: "not JSON among the items",
			lists: []reply{{body: strings.Replace(podList(at10, podAt("c", 1, 7), a), "},{", "} {", 1)}, {body: podList(at10, podAt("c", 1, 7), "what")}, {body: usual}},
			heard: both, ours: true},
		{reason: "not JSON behind the items",
			lists: []reply{{body: strings.TrimSuffix(podList(at10, podAt("c", 1, 7)), "}") + "]"}, {body: usual}},
			heard: both, ours: true},
		{reason: "a Status",
			lists: []reply{{body: failure(http.StatusTooManyRequests, "TooManyRequests"), status: http.StatusTooManyRequests}, {body: usual}},
			heard: both, ours: true},
		{reason: "a Status, said to be fine",
			lists: []reply{{body: failure(http.StatusServiceUnavailable, "ServiceUnavailable")}, {body: usual}},
			heard: both, ours: true},
		{reason: "another object",
			lists: []reply{{body: "{}"}, {body: `{"message":"maintenance"}`}, {body: a}, {body: usual}},
			heard: both, ours: true},
	} {
		for _, by := range ways {
			if !by.suits(c.lists) {
				continue
			}
			t.Run(c.reason+", "+by.name, func(t *testing.T) {
				t.Parallel()
				s := &script{by: by, lists: slices.Clone(c.lists), watches: []reply{{body: event("ADDED", podAt("end", 1, 90)), end: stays}}}
				i, e := s.follow(t)
				if len(c.heard) > 0 {
					e.expectAll(t, slices.Clone(c.heard)...)
				}
				e.expect(t, "added end 1")
				if diff := cmp.Diff([]string{"10"}, s.asked()); diff != "" {
					t.Errorf("watches began at other positions (-want +got):\n%s", diff)
				}
				if n := i.Stats().Unreadable; n != uint64(c.unreadable) {
					t.Errorf("%d unreadable objects were counted, want %d", n, c.unreadable)
				}
				if c.ours {
					return
				}
				want := readByClientGo(t, &script{by: by, lists: slices.Clone(c.lists)})
				for _, o := range i.cache.list("shop", nil) {
					if o.Name() == "end" {
						continue
					}
					if want[o.Name()] == nil {
						t.Errorf("client-go does not have %s", o.Name())
					} else if diff := difference(tree(want[o.Name()]), tree(o)); diff != "" {
						t.Errorf("%s: %s", o.Name(), diff)
					}
					delete(want, o.Name())
				}
				for name := range want {
					t.Errorf("client-go has %s too", name)
				}
			})
		}
	}
}

// readByClientGo returns what the dynamic client reads.
func readByClientGo(t *testing.T, s *script) map[string]*unstructured.Unstructured {
	t.Helper()
	client, err := dynamic.NewForConfig(s.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for next := (metav1.ListOptions{}); ; {
		page, err := client.Resource(pods).List(t.Context(), next)
		if err != nil {
			t.Fatalf("client-go cannot read it: %v", err)
		}
		_ = page.EachListItem(func(o runtime.Object) error {
			u := o.(*unstructured.Unstructured)
			all[u.GetName()] = u
			return nil
		})
		if next.Continue = page.GetContinue(); next.Continue == "" {
			return all
		}
	}
}

// If the connection of a list ends early, in good order or not and at any byte, the informer takes
// no part of the list.
func TestListsCutAnywhere(t *testing.T) {
	// Not t.Parallel: these are hundreds of requests in a row, which take long beside other tests.
	whole := spaced(podList(`"resourceVersion":"10"`, podAt("a", 1, 5), podAt("b", 2, 6)))
	for _, by := range []way{atOnce, compressed} {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel()
			s := &script{by: by}
			for size := range len(strings.TrimSpace(whole)) {
				s.lists = append(s.lists, reply{body: whole[:size], end: []ending{ends, breaks}[size%2]})
			}
			s.lists = append(s.lists, reply{body: whole})
			_, e := s.follow(t)
			e.expectAll(t, "synced a 1", "synced b 2")
			e.silent(t)
		})
	}
}

// deep makes the object nest levels deep.
func deep(object string, levels int) string {
	return strings.TrimSuffix(object, "}") + `,"deep":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
}
