package apistub_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/integration/apistub"
)

// few is a synthetic resource with that many objects in two namespaces.
type few int

func (f few) Len() int { return int(f) }

func (few) Identity(i int) (namespace, name string, set labels.Set) {
	return []string{"shop", "pay"}[i%2], fmt.Sprintf("o-%d", 100-i), labels.Set{"third": fmt.Sprint(i % 3)}
}

func (f few) Append(b []byte, i, updates int, rv int64) []byte {
	namespace, name, set := f.Identity(i)
	return fmt.Appendf(b, `{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"%d","labels":{"third":%q}},"spec":{"n":%d}}`,
		namespace, name, rv, set["third"], updates)
}

// past is the test's own record of a resource: the updates, and the objects after each of them.
type past struct {
	events []string
	rvs    []int64
	states []map[string]string
}

func describe(u *unstructured.Unstructured) (key, text string) {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "n")
	key = u.GetNamespace() + "/" + u.GetName()
	return key, fmt.Sprintf("%s %d @%s", key, n, u.GetResourceVersion())
}

// A synthetic resource is served like one whose objects were stored one by one.
func TestSynthetic(t *testing.T) {
	for _, n := range []int{1, 2, 7, 30} {
		s, client := newServer(t)
		s.Apply(nodes, `{"metadata":{"name":"n"}}`)
		objects := few(n)
		first := s.Synthesize(pods, "Pod", true, objects)
		state := map[string]string{}
		for i := range n {
			namespace, name, _ := objects.Identity(i)
			state[namespace+"/"+name] = fmt.Sprintf("%s/%s 0 @%d", namespace, name, first+int64(i))
		}
		p := past{rvs: []int64{first + int64(n) - 1}, states: []map[string]string{state}}
		for _, updates := range []int{1, 3, n, 0, 2*n + 1} {
			from := s.Update(pods, updates)
			for range updates {
				i, own := apistub.Turn(n, len(p.events))
				namespace, name, _ := objects.Identity(i)
				text := fmt.Sprintf("%s/%s %d @%d", namespace, name, own, from)
				state = maps.Clone(state)
				state[namespace+"/"+name] = text
				p.events, p.rvs, p.states = append(p.events, text), append(p.rvs, from), append(p.states, state)
				from++
			}
			if updates%2 == 1 {
				s.Apply(nodes, `{"metadata":{"name":"n"}}`) // takes a resourceVersion
			}
		}
		if got := slices.Collect(maps.Keys(state)); len(got) != n {
			t.Fatalf("%d objects took turns, of %d", len(got), n)
		}

		for k, rv := range p.rvs {
			exact := metav1.ListOptions{ResourceVersion: fmt.Sprint(rv), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
			if diff := cmp.Diff(p.states[k], list(t, client, exact)); diff != "" {
				t.Fatalf("%d objects after %d updates: %s", n, k, diff)
			}
			w := open(t, client, pods, metav1.ListOptions{ResourceVersion: fmt.Sprint(rv)})
			var got []string
			for range p.events[k:] {
				ev := <-w.ResultChan()
				_, text := describe(ev.Object.(*unstructured.Unstructured))
				if got = append(got, text); ev.Type != "MODIFIED" {
					t.Errorf("%v", ev)
				}
			}
			if diff := cmp.Diff(p.events[k:], got); len(got) > 0 && diff != "" {
				t.Fatalf("%d objects, since %d updates: %s", n, k, diff)
			}
			w.Stop()
		}

		// The pages of a list are consistent, whatever changes meanwhile.
		paged := map[string]string{}
		for o := (metav1.ListOptions{Limit: 4}); ; {
			page, err := client.Resource(pods).List(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Items {
				key, text := describe(&page.Items[i])
				paged[key] = text
			}
			s.Update(pods, 1)
			if o.Continue = page.GetContinue(); o.Continue == "" {
				break
			}
			if len(page.Items) != 4 {
				t.Errorf("a page of %d", len(page.Items))
			}
		}
		if diff := cmp.Diff(state, paged); diff != "" {
			t.Errorf("%d objects by page: %s", n, diff)
		}
	}
}

// list returns the objects that match, by key.
func list(t *testing.T, client dynamic.Interface, o metav1.ListOptions) map[string]string {
	t.Helper()
	l, err := client.Resource(pods).List(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range l.Items {
		key, text := describe(&l.Items[i])
		out[key] = text
	}
	return out
}

func TestSyntheticObjectsAreServed(t *testing.T) {
	s, client := newServer(t)
	s.Synthesize(pods, "Pod", true, few(9))
	from := s.ResourceVersion()
	s.Update(pods, 9)

	got, err := client.Resource(pods).Namespace("pay").Get(t.Context(), "o-97", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "n"); n != 1 {
		t.Errorf("after one update: %v", got)
	}
	if _, err := client.Resource(pods).Namespace("pay").Get(t.Context(), "o-98", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("of another namespace: %v", err)
	}
	chosen := slices.Sorted(maps.Keys(list(t, client, metav1.ListOptions{LabelSelector: "third=2"})))
	if diff := cmp.Diff([]string{"pay/o-95", "shop/o-92", "shop/o-98"}, chosen); diff != "" {
		t.Error(diff)
	}
	w, err := client.Resource(pods).Namespace("pay").Watch(t.Context(), metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if got := take(t, w, 4); slices.ContainsFunc(got, func(e string) bool { return e[:13] != "MODIFIED pay/" }) {
		t.Errorf("of one namespace: %q", got)
	}
	s.Expire()
	wantGone(t, w)
	if _, err := client.Resource(pods).List(t.Context(), metav1.ListOptions{
		ResourceVersion: from, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a list of before: %v", err)
	}
}
