package engine

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/plugins/handler"
)

const twoRules = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: whole}
spec: {source: maps, handler: record}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: text}
spec: {source: maps, handler: record, payload: object.data.text}
`

// awaitLetters waits until there are n dead letters, and sorts them by rule.
func awaitLetters(t *testing.T, e *Engine, n int) []delivery.Letter {
	t.Helper()
	// nothing announces a letter
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		letters, err := e.Letters() // an error until the saved ones are read
		if err == nil && len(letters) == n {
			slices.SortFunc(letters, func(a, b delivery.Letter) int { return strings.Compare(a.Rule, b.Rule) })
			return letters
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d dead letters, want %d; %v", len(letters), n, err)
		}
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	var well atomic.Bool
	record.answer = func(handler.Event) error {
		if well.Load() {
			return nil
		}
		return handler.Reject(errors.New("not today"))
	}
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"},"data":{"text":"x"}}`)
	e := run(t, server, twoRules, map[string]live.Handler{"record": record})

	letters := awaitLetters(t, e, 2)
	text, whole := letters[0], letters[1]
	one, err := e.Letter(whole.ID)
	if err != nil || one.Reason != "rejected: not today" || one.Attempts != 1 {
		t.Errorf("got %+v, %v", one, err)
	}
	ev := whole.Event()
	want := handler.Event{
		ID: whole.ID, Rule: "whole", Event: "synced", Attempt: 1, Resource: handler.Resource{Version: "v1", Resource: "configmaps"},
		Namespace: "shop", Name: "a", UID: ev.UID, ResourceVersion: ev.ResourceVersion, Object: whole.Delta.Object.JSON(),
	}
	if diff := cmp.Diff(want, ev); diff != "" {
		t.Error(diff)
	}
	if ev := text.Event(); string(ev.Payload) != `"x"` || ev.Object != nil {
		t.Errorf("with a payload the handler saw %+v", ev)
	}

	well.Store(true)
	if err := e.RetryLetter(whole.ID); err != nil {
		t.Fatal(err)
	}
	record.await(t, 3)
	if err := e.DropLetter(text.ID); err != nil {
		t.Fatal(err)
	}
	awaitLetters(t, e, 0)
	for _, do := range []func(string) error{e.RetryLetter, e.DropLetter} {
		if err := do(whole.ID); !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("a letter that was dropped or retried: %v", err)
		}
	}
}

func TestLetterWithoutARule(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	record.answer = func(handler.Event) error { return handler.Reject(nil) }
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	e := run(t, server, twoRules, map[string]live.Handler{"record": record})
	letter := awaitLetters(t, e, 2)[0]
	letter.ID, letter.Rule = strings.Replace(letter.ID, "text/", "gone/", 1), "gone"
	if _, err := e.dead.Add(letter); err != nil {
		t.Fatal(err)
	}

	if err := e.RetryLetter(letter.ID); err == nil || errors.Is(err, admin.ErrNotFound) || !strings.Contains(err.Error(), `no rule "gone"`) {
		t.Errorf("retry: %v", err)
	}
	awaitLetters(t, e, 3) // it is still there
	if err := e.RetryLetter("gone/other"); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("an unknown letter: %v", err)
	}
	if err := e.DropLetter(letter.ID); err != nil {
		t.Error(err)
	}
}

func TestSetPaused(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]live.Handler{"record": record})
	if err := e.SetPaused("whole", true); err != nil {
		t.Fatal(err)
	}
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"},"data":{"text":"x"}}`)
	if got := record.await(t, 1); !strings.HasPrefix(got[0], "text ") {
		t.Errorf("delivered %q", got)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		whole := e.Status().Rules[0]
		if whole.Paused && whole.Matches == 1 && whole.Queue.Waiting == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the paused rule has status %+v", whole)
		}
	}
	if err := e.SetPaused("whole", false); err != nil {
		t.Fatal(err)
	}
	if got := record.await(t, 2); !strings.HasPrefix(got[1], "whole ") {
		t.Errorf("delivered %q", got)
	}
	if err := e.SetPaused("hole", true); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("pausing an unknown rule: %v", err)
	}
}

// A rule performs its own actions for the object as it is, not as it was when the event became a
// dead letter.
func TestLetterOfARuleWithActions(t *testing.T) {
	t.Parallel()
	const manifests = mapSource + `---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: acts}
spec: {source: maps, where: 'object.data.size != "out"', actions: [{if: 'object.data.size == "" ? false : object.data.size', delete: {}}]}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: adds}
spec: {source: maps, events: [added, synced, updated], where: 'object.data.size != "out"', actions: [{if: 'object.data.size == "" ? false : object.data.size', delete: {}}]}
`
	for name, c := range map[string]struct {
		change func(*life)
		acts   bool // the rule has something to do
		adds   bool // and so has the rule that ignores deletions
	}{
		"changed":    {func(l *life) { l.put("a", "") }, true, true},
		"outside":    {func(l *life) { l.put("a", "out") }, true, false},
		"gone":       {func(l *life) { l.delete("a") }, true, false},
		"made again": {func(l *life) { l.delete("a"); l.put("a", "") }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.put("a", "text that is neither true nor false")
			e, stop := l.start(manifests, new(teller))
			defer stop()
			for deadline := time.Now().Add(patience); !e.phase.Loaded.Load() && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			letters := awaitLetters(t, e, 2)
			c.change(l)
			for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				now, there := e.rule("acts").OwnSource.View.Get("shop", "a")
				if !there && name == "gone" || there && now.ResourceVersion() != letters[0].Delta.Object.ResourceVersion() {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the change did not come")
				}
			}
			// A deletion of long ago prunes nothing of an object that exists again.
			p := e.rule("acts").Preparer
			if _, ok := p.AsItIs(delta.Delta{Type: delta.Deleted, Object: letters[0].Delta.Object}, time.Now(), func(err error) { p.Failures.Add(err, letters[0].Key) }); ok != (c.acts && !c.adds) {
				t.Errorf("AsItIs of a deletion: ok is %v", ok)
			}
			left := 0
			for i, does := range []bool{c.acts, c.adds} {
				err := e.RetryLetter(letters[i].ID)
				if !does {
					left++
				}
				if (err == nil) != does || err != nil && !strings.Contains(err.Error(), "drop it") {
					t.Errorf("rule %s: %v", letters[i].Rule, err)
				}
			}
			for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				waits := 0
				for _, r := range e.work().Rules {
					stats := r.Lane.Stats()
					waits += stats.Waiting + stats.InFlight
				}
				if waits == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("deliveries still wait")
				}
			}
			awaitLetters(t, e, left)
		})
	}
}

// retryLetter retries a letter when the sources have caught up with the server.
func retryLetter(t *testing.T, e *Engine, id string) error {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := e.RetryLetter(id)
		if err == nil || !strings.Contains(err.Error(), "not caught up") || time.Now().After(deadline) {
			return err
		}
	}
}

// If the payload of an event fails, the event becomes a dead letter. It can be delivered once the
// rule can make the payload, with what its sources hold then. Later events go on.
func TestFailedPayloadMakesALetter(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	k := new(keeper)
	manifests := func(payload string) string { return mapSource + aRule("r", ", payload: "+payload) }
	e, stop := l.startWith(manifests(`'{size: object.data.size == "1" ? object.data.size > 5 : "large"}'`), k)
	letters := awaitLetters(t, e, 1)
	if reason := letters[0].Reason; !strings.Contains(reason, "payload: cannot compare string with int") {
		t.Errorf("the reason is %s", reason)
	}
	if err := retryLetter(t, e, letters[0].ID); err == nil || !strings.Contains(err.Error(), "cannot make its payload: payload: cannot compare") {
		t.Errorf("retried while the payload still fails: %v", err)
	}
	l.put("a", "2")
	k.await(t, "that comes later", func(ev handler.Event) bool { return string(ev.Payload) == `{"size":"large"}` })
	if n := len(awaitLetters(t, e, 1)); n != 1 {
		t.Errorf("%d letters", n)
	}
	stop()
	e, stop = l.startWith(manifests("object.data.size"), k)
	defer stop()
	again := awaitLetters(t, e, 1)
	if err := retryLetter(t, e, again[0].ID); err != nil {
		t.Fatal(err)
	}
	k.await(t, "that was dead", func(ev handler.Event) bool { return ev.ID == letters[0].ID && string(ev.Payload) == `"1"` })
	awaitLetters(t, e, 0)
}

// Of a letter about a Secret nothing is kept over a restart but who it is about. If its payload
// still fails, a retry does not deliver it without one.
func TestLetterOfASecretWhosePayloadStillFails(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.putSecret("a", "1")
	manifests := secretSource + aRule("r", ", payload: object.data.value > 5")
	dead := func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 }
	l.run(manifests, new(teller), dead)
	l.expect(l.run(manifests, new(teller), func(e *Engine, _ []string) bool {
		letters, _ := e.Letters()
		if len(letters) != 1 {
			return false
		}
		if err := retryLetter(t, e, letters[0].ID); err == nil || !strings.Contains(err.Error(), "cannot make its payload: payload: cannot compare string with int") {
			t.Errorf("retried: %v", err)
		}
		return true
	}))
}

// What waits for a retry is tried at once, all of a rule or one object.
func TestRetryRule(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	record.answer = func(handler.Event) error { return handler.RetryAfter(time.Hour, errors.New("busy")) }
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"b"}}`)
	e := run(t, server, strings.Replace(mapSource+aRule("r", ""), "attempts: 2", "attempts: 9", 1), map[string]live.Handler{"record": record})
	delayed := func() bool { return e.Status().Rules[0].Queue.Delayed == 2 }
	record.await(t, 2)
	poll(t, "both to wait", delayed)
	if n, err := e.RetryRule("r", "shop/b"); n != 1 || err != nil {
		t.Errorf("of an object: %d, %v", n, err)
	}
	if got := record.await(t, 3)[2]; !strings.Contains(got, " b ") {
		t.Errorf("tried %s", got)
	}
	poll(t, "both to wait", delayed)
	if n, err := e.RetryRule("r", ""); n != 2 || err != nil {
		t.Errorf("of the rule: %d, %v", n, err)
	}
	record.await(t, 5)
	poll(t, "both to wait", delayed)
	_, err := e.RetryRule("r", "shop/c")
	if none, ok := errors.AsType[*admin.NotWaitingError](err); !ok || len(none.Waiting) != 2 {
		t.Errorf("of another object: %v", err)
	}
	if _, err := e.RetryRule("q", ""); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("of no rule: %v", err)
	}
	if err := e.SetPaused("r", true); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RetryRule("r", ""); err == nil {
		t.Error("a paused rule was retried")
	}
}

// Until the API server has identified the cluster, nobody knows what the saved state holds.
func TestStatusWhileTheStateIsNotLoaded(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	var away atomic.Bool
	away.Store(true)
	l.server.Fail(func(*http.Request) *metav1.Status {
		if away.Load() {
			return &apierrors.NewServiceUnavailable("away").ErrStatus
		}
		return nil
	})
	e, stop := l.start(mapSource+aRule("r", ""), new(teller))
	defer stop()
	if _, err := e.Letters(); !e.Status().IsLoading || err == nil || !strings.Contains(err.Error(), "not loaded yet") {
		t.Errorf("the state counts as loaded: %v", err)
	}
	away.Store(false)
	for deadline := time.Now().Add(patience); e.Status().IsLoading; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the state is never loaded")
		}
	}
	if letters, err := e.Letters(); len(letters) > 0 || err != nil {
		t.Errorf("there are letters: %v, %v", letters, err)
	}
}

// The status names a rule that waits for a retry after a restart, too.
func TestStatusShowsFailuresBeforeARestart(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	h := &teller{answer: func(handler.Event) error { return handler.RetryAfter(time.Hour, errors.New("busy")) }}
	for _, want := range []string{"busy", "shop/a failed before informd started, attempt 1"} {
		e, stop := l.start(mapSource+aRule("r", ""), h)
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			said := e.Status().Rules[0].Failure
			if strings.HasSuffix(said, want) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the status says %q, want %q", said, want)
			}
		}
		stop()
	}
}
