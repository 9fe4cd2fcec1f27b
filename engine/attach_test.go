package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// keeper is a handler that keeps its events, and answers as a test says.
type keeper struct {
	mu     sync.Mutex
	events []handler.Event
	answer func(handler.Event) error
}

func (k *keeper) Ready(context.Context) error { return nil }

func (k *keeper) Limit() (int, bool) { return 8, false }

func (k *keeper) Grown() <-chan struct{} { return nil }

func (k *keeper) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, ev)
	if k.answer == nil {
		return handler.Answer{}, nil
	}
	return handler.Answer{}, k.answer(ev)
}

// await waits for an event that satisfies the condition.
func (k *keeper) await(t *testing.T, what string, suits func(handler.Event) bool) handler.Event {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		events := slices.Clone(k.events)
		k.mu.Unlock()
		if i := slices.IndexFunc(events, suits); i >= 0 {
			return events[i]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no event %s among %d", what, len(events))
		}
	}
}

// attached returns the values at a path of the attached objects, by name.
func attached(t *testing.T, ev handler.Event, at ...string) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for name, objects := range ev.Attached {
		out[name] = []string{}
		for _, text := range objects {
			v := decode(t, string(text))
			for _, key := range at {
				v = v.(map[string]any)[key]
			}
			out[name] = append(out[name], fmt.Sprint(v))
		}
	}
	return out
}

const attachSources = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {bySize: object.data.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: secrets}
spec: {resource: v1/secrets, indexes: {byName: object.metadata.name}}
`

func (l *life) putSecret(name, value string) {
	l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"value":%q}}`, name, value))
}

// Attachments are as fresh as each attempt, whole, and independent of the payload.
func TestAttach(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.putSecret("a", "one")
	l.put("b", "1")
	l.put("a", "1")
	k := &keeper{answer: func(ev handler.Event) error {
		if ev.Attempt == 1 && ev.Event == handler.Updated {
			return handler.RetryAfter(time.Millisecond, errors.New("again"))
		}
		return nil
	}}
	const attach = `, attach: {secrets: 'lookup("secrets.byName", object.metadata.name)', others: 'filter(byIndex("bySize", object.data.size), .metadata.name != object.metadata.name)', itself: object, was: old}`
	_, stop := l.startWith(attachSources+aRule("whole", attach)+aRule("part", `, payload: object.data.size`+attach), k)
	defer stop()
	for _, rule := range []string{"whole", "part"} {
		ev := k.await(t, "of "+rule, func(ev handler.Event) bool { return ev.Rule == rule && ev.Name == "a" })
		if (ev.Payload != nil) != (rule == "part") || (ev.Object != nil) != (rule == "whole") {
			t.Errorf("%s: payload %s, object %s", rule, ev.Payload, ev.Object)
		}
		want := map[string][]string{"secrets": {"a"}, "others": {"b"}, "itself": {"a"}, "was": {}}
		if diff := cmp.Diff(want, attached(t, ev, "metadata", "name")); diff != "" {
			t.Errorf("%s: %s", rule, diff)
		}
		if rule == "whole" && !bytes.Equal(ev.Object, ev.Attached["itself"][0]) {
			t.Errorf("attached is %s of %s", ev.Attached["itself"], ev.Object)
		}
	}
	l.put("a", "2")
	first := k.await(t, "updated", func(ev handler.Event) bool { return ev.Rule == "part" && ev.Event == handler.Updated })
	if diff := cmp.Diff(map[string][]string{"secrets": {"a"}, "others": {}, "itself": {"a"}, "was": {"a"}}, attached(t, first, "metadata", "name")); diff != "" {
		t.Error(diff)
	}
	second := k.await(t, "repeated", func(ev handler.Event) bool { return ev.Rule == "part" && ev.ID == first.ID && ev.Attempt == 2 })
	if len(second.Attached) != 4 {
		t.Errorf("the second attempt has %v", second.Attached)
	}
}

// An event that waits over a restart gets attachments of the time after it. Meanwhile nothing of
// them was on disk, least of all of secrets.
func TestAttachmentsAreNotPersisted(t *testing.T) {
	t.Parallel()
	const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
	l := newLife(t)
	l.server.Serve(nodes, "Node", false)
	l.putSecret("a", value)
	l.put("a", "1")
	manifests := strings.Replace(attachSources, "attempts: 2", "attempts: 0, maxBackoff: 1ms", 1) +
		aRule("r", `, attach: {secrets: 'lookup("secrets.byName", object.metadata.name)'}`)
	k := &keeper{answer: func(handler.Event) error { return errors.New("not now") }}
	_, stop := l.startWith(manifests, k)
	// the attempt during which informd ends does not count
	ev := k.await(t, "with a secret", func(ev handler.Event) bool { return ev.Attempt == 2 })
	if diff := cmp.Diff(map[string][]string{"secrets": {value}}, attached(t, ev, "data", "value")); diff != "" {
		t.Error(diff)
	}
	stop()
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l.putSecret("a", "another")
	k = new(keeper)
	_, stop = l.startWith(manifests, k)
	defer stop()
	again := k.await(t, "that waited", func(handler.Event) bool { return true })
	if again.ID != ev.ID || again.Attempt < 2 {
		t.Errorf("%s, attempt %d; want %s, attempt 2 or later", again.ID, again.Attempt, ev.ID)
	}
	if diff := cmp.Diff(map[string][]string{"secrets": {"another"}}, attached(t, again, "data", "value")); diff != "" {
		t.Error(diff)
	}
}

// If attaching fails, the event becomes a dead letter. informd neither delivers less of it nor
// holds up later ones.
func TestUnattachable(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.putSecret("a", "x")
	l.put("a", "1")
	k := new(keeper)
	e, stop := l.startWith(attachSources+aRule("r", `, attach: {secrets: 'object.data.size == "1" ? "a text" : lookup("secrets.byName", object.metadata.name)'}`), k)
	defer stop()
	letter := func() (id string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			letters, err := e.Letters()
			if err == nil && len(letters) == 1 {
				if reason := letters[0].Reason; !strings.Contains(reason, "attach secrets: attach gives a string, not objects") {
					t.Errorf("the reason is %s", reason)
				}
				return letters[0].ID
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d dead letters, %v", len(letters), err)
			}
		}
	}
	id := letter()
	if status := e.Status().Rules[0]; status.Errors == 0 {
		t.Errorf("%+v", status)
	}
	l.put("a", "2")
	k.await(t, "that comes later", func(ev handler.Event) bool { return len(ev.Attached["secrets"]) == 1 })
	if err := e.RetryLetter(id); err != nil {
		t.Fatal(err)
	}
	if again := letter(); again != id {
		t.Errorf("letter %s, want %s", again, id)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) != 1 {
		t.Errorf("%d events were delivered", len(k.events))
	}
}

// A dead letter is delivered again with the attachments of that time, but not before the sources
// have caught up.
func TestRetriedLetterIsAttachedAnew(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.put("a", "1")
	manifests := lookupSources + aRule("zones", `, attach: {nodes: 'lookup("nodes.byName", object.data.size)'}`)
	manifests = strings.Replace(manifests, ", keep: needed", "", 1)
	k := &keeper{answer: func(handler.Event) error { return handler.Reject(nil) }}
	e, stop := l.startWith(manifests, k)
	var id string
	for deadline := time.Now().Add(patience); id == "" && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if letters, _ := e.Letters(); len(letters) == 1 {
			id = letters[0].ID
		}
	}
	stop()
	l.breakNodes(true)
	k = new(keeper)
	e, stop = l.startWith(manifests, k)
	defer stop()
	retry := func(done func(error) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			err := e.RetryLetter(id)
			if done(err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	retry(func(err error) bool { return err != nil && strings.Contains(err.Error(), "have not caught up") })
	putNode(l.server, "1", "east")
	l.breakNodes(false)
	retry(func(err error) bool { return err == nil })
	ev := k.await(t, "that was dead", func(handler.Event) bool { return true })
	if diff := cmp.Diff(map[string][]string{"nodes": {"east"}}, attached(t, ev, "spec", "zone")); diff != "" {
		t.Error(diff)
	}
}

// An event with many attachments is as large as allowed, and no larger.
func TestAttachmentsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for i := range 10 {
		l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"large-%d"},"data":{"size":"x","text":%q}}`, i, strings.Repeat("y", 1<<20)))
	}
	k := new(keeper)
	e, stop := l.startWith(attachSources+aRule("r", `, when: object.metadata.name == "large-0", attach: {all: 'byIndex("bySize", "x")'}`)+
		aRule("s", `, when: object.metadata.name == "large-0", attach: {some: 'take(byIndex("bySize", "x"), 7)'}`), k)
	defer stop()
	k.await(t, "of 7 MiB", func(ev handler.Event) bool { return ev.Rule == "s" && len(ev.Attached["some"]) == 7 })
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		letters, _ := e.Letters()
		if len(letters) == 1 && strings.Contains(letters[0].Reason, "attach all: the objects exceed 8 MiB") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("dead letters %v", letters)
		}
	}
}
