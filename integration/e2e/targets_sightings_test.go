package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/integration/harness"
)

// sightings are all states of some objects that a watch saw. Its last states are those that tests
// wait for: then it has seen everything before, too.
type sightings struct {
	t    *testing.T
	mu   sync.Mutex
	all  []sighting
	last map[string]*unstructured.Unstructured // by namespace and name, as in shop/pull
}

// sighting is one state of an object. A deletion has the last one.
type sighting struct {
	at     time.Time
	event  watch.EventType
	key    string
	object *unstructured.Unstructured
}

// follow watches the objects that match, in one namespace or in all, until the test ends. If the
// test fails, it logs what it saw.
func follow(
	t *testing.T, k *harness.Kube, resource, namespace string, match func(metav1.Object) bool,
) *sightings {
	t.Helper()
	s := &sightings{t: t, last: make(map[string]*unstructured.Unstructured)}
	client := k.Objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).
		Namespace(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	note := func(event watch.EventType, o *unstructured.Unstructured) {
		if match(o) {
			s.note(sighting{time.Now(), event, o.GetNamespace() + "/" + o.GetName(), o})
		}
	}
	for i := range list.Items {
		note(watch.Added, &list.Items[i])
	}
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				note(event.Type, o)
			}
		}
		if t.Context().Err() == nil {
			t.Error("the test's own watch has ended")
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		<-ended
		if t.Failed() {
			s.logAll()
		}
	})
	return s
}

func (s *sightings) note(one sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	if s.last[one.key] = one.object; one.event == watch.Deleted {
		delete(s.last, one.key)
	}
}

// now returns an object as it was seen last, or nil if it is not there.
func (s *sightings) now(key string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[key]
}

// keys returns the objects that are there.
func (s *sightings) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.last {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// of returns all sightings of an object, or of every object for "".
func (s *sightings) of(key string) (all []sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if key == "" || one.key == key {
			all = append(all, one)
		}
	}
	return all
}

// deleted returns the objects that were deleted, in order.
func (s *sightings) deleted() (keys []string) {
	for _, one := range s.of("") {
		if one.event == watch.Deleted {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// wantDeleted checks which objects were deleted, each once.
func (s *sightings) wantDeleted(keys ...string) {
	s.t.Helper()
	got := s.deleted()
	slices.Sort(got)
	slices.Sort(keys)
	if !slices.Equal(got, keys) {
		s.t.Errorf("the watch saw the deletions of %v, want %v", got, keys)
	}
}

// logged is how many sightings a failed test logs.
const logged = 200

func (s *sightings) logAll() {
	all := s.of("")
	if len(all) > logged {
		s.t.Logf("%d sightings more", len(all)-logged)
		all = all[len(all)-logged:]
	}
	for _, one := range all {
		s.t.Log(one)
	}
}

func (s sighting) String() string {
	data, _, _ := unstructured.NestedMap(s.object.Object, "data")
	return fmt.Sprintf("%s %s %s for %q of rule %q, version %s: %v", s.at.Format("15:04:05.000"),
		s.event, s.key, appliedFor(s.object), appliedBy(s.object), s.object.GetResourceVersion(), data)
}

// appliedFor and appliedBy return the source object and the rule in the marks of an object.
func appliedFor(o metav1.Object) string { return o.GetAnnotations()["informd.dev/source-object"] }
func appliedBy(o metav1.Object) string  { return o.GetLabels()["informd.dev/rule"] }

// dataOf returns a value of an object's data.
func dataOf(o *unstructured.Unstructured, key string) string {
	text, _, _ := unstructured.NestedString(o.Object, "data", key)
	return text
}

// letter is a dead letter.
type letter struct{ ID, Rule, Namespace, Name, Reason string }

// hasLetter reports whether there is a dead letter.
func hasLetter(t *testing.T, dir, id string) bool {
	t.Helper()
	return slices.ContainsFunc(letters(t, dir), func(l letter) bool { return l.ID == id })
}

// letters returns the dead letters.
func letters(t *testing.T, dir string) []letter {
	t.Helper()
	var list struct{ Items []letter }
	out, code := says(t, dir, "dead", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Fatalf("informd dead list: exit code %d, %v\n%s", code, err, out)
	}
	return list.Items
}
