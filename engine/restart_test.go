package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/plugins/handler"
)

func forbid(where ...string) func(*http.Request) *metav1.Status {
	return func(r *http.Request) *metav1.Status {
		for _, w := range where {
			if strings.Contains(r.URL.String(), w) {
				return &metav1.Status{Status: "Failure", Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}
			}
		}
		return nil
	}
}

func (l *life) secret(name, size string) {
	l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size))
}

func TestChangedRuleReceivesDeletionsOfAGoneResource(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.expect(l.run(mapSource+aRule("r", `, where: object.data.size == "1"`), new(teller), n(1)), "r synced a →1")
	l.server.Withdraw(configMaps)
	after := mapSource + aRule("r", `, where: object.data.size == "2"`)
	told := l.run(after, new(teller), n(0))
	l.server.Serve(configMaps, "ConfigMap", true)
	l.put("x", "2")
	told = append(told, l.run(after, new(teller), n(1))...)
	l.expect(slices.Sorted(slices.Values(told)), "r deleted a →1", "r added x →2")
}

func TestResyncsDoNotChangeMembershipOfSecrets(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	l.secret("b", "2")
	rules := secretSource + aRule("r", `, where: object.data.size == "1", resync: 1s`)
	resynced := false
	l.run(rules, new(teller), func(_ *Engine, told []string) bool {
		if len(told) >= 2 && !resynced { // of a, once
			resynced = true
			l.secret("b", "3")
		}
		return resynced
	})
	l.server.Delete(secrets, "shop", "b")
	told := l.run(rules, new(teller), n(1)) // a, from the next resync
	if slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, " b ") }) {
		t.Errorf("told %q, but b was never inside the rule", told)
	}
}

func TestLetterOfASecretWaitsForTheCache(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("d", "1")
	rules := secretSource + aRule("r", "")
	l.run(rules, &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("no")) }},
		func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 })
	l.server.Fail(forbid("/secrets"))
	told, _ := l.attempt(rules, new(teller), patience, func(e *Engine, told []string) bool {
		letters, _ := e.Letters()
		for _, x := range letters {
			if err := e.RetryLetter(x.ID); err == nil || !strings.Contains(err.Error(), "try again") {
				t.Errorf("retry: %v", err)
			}
		}
		return len(letters) > 0
	})
	l.expect(told)
}

func TestPartialObjectsAreNotResynced(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("d", "1")
	rules := secretSource + aRule("r", ", resync: 1s")
	l.run(rules, new(teller), n(1))
	l.server.Fail(forbid("/secrets"))
	told, _ := l.attempt(rules, new(teller), 2*time.Second, n(1)) // a resync is due in this time
	l.expect(told)
}

func TestForbiddenNamespaceBlocksNothing(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	rules := strings.Replace(strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1), "attempts: 2", "attempts: 0", 1) +
		aRule("r", `, payload: "[event, object.data.size]"`)
	l.run(rules, &teller{answer: func(handler.Event) error { return errors.New("not now") }}, n(1))
	l.server.Fail(forbid("/namespaces/pay/"))
	l.put("a", "2")
	told, held := l.attempt(rules, new(teller), patience, n(1))
	if !held {
		t.Errorf("no event of a was delivered: %q", told)
	}
}

func TestServerThatRefusesAnEmptyList(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	rules := strings.Replace(mapSource, "configmaps}", "configmaps, fieldSelector: metadata.name=a}", 1) + aRule("r", "")
	l.server.Fail(forbid("no-such-object")) // as with RBAC and resourceNames: [a]
	l.run(rules, new(teller), n(1))
	l.put("a", "2")
	told, held := l.attempt(rules, new(teller), patience, n(1))
	if !held {
		t.Errorf("told %q", told)
	}
}

func TestChangedRuleResumesPerNamespace(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	source := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1)
	l.server.Apply(configMaps, `{"metadata":{"namespace":"pay","name":"p"},"data":{"size":"9"}}`)
	l.run(source+aRule("r", `, payload: event, where: object.data.size == "9"`), new(teller), n(1))
	l.server.Fail(forbid("/namespaces/pay/"))
	inShop := func(e *Engine, _ []string) bool {
		view, _ := e.Source("maps")
		return view.Informers()[0].HasSynced()
	}
	after := source + aRule("r", `, where: object.data.size == "1"`)
	told, _ := l.attempt(after, new(teller), patience, func(e *Engine, told []string) bool {
		return len(told) == 2 && !catchesUp(e) // otherwise the next run begins with it again
	})
	l.expect(told, "r synced a →1", "r deleted p →9")
	told, _ = l.attempt(after, new(teller), patience, inShop)
	l.expect(told)
	l.delete("a")
	told, _ = l.attempt(after, new(teller), patience, n(1))
	l.expect(told, "r deleted a →1")
}

func TestRefilledCacheRespectsEventsOfRules(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	rules := strings.Replace(secretSource, "attempts: 2", "attempts: 0", 1) + aRule("r", ", events: [added, updated, synced]")
	l.run(rules, &teller{answer: func(handler.Event) error { return errors.New("not now") }}, n(1))
	l.server.Delete(secrets, "shop", "a")
	told := l.run(rules, new(teller), n(1))
	for i, text := range told {
		told[i], _, _ = strings.Cut(text, " #") // the number of earlier attempts
	}
	l.expect(told, "r synced a →")
}

func TestRuleAboutAnotherResourceIsNew(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.run(strings.Replace(mapSource, "attempts: 2", "attempts: 0", 1)+aRule("r", ""), &teller{answer: func(handler.Event) error { return errors.New("not now") }}, n(1))
	l.secret("s", "1")
	l.expect(l.run(secretSource+aRule("r", ""), new(teller), n(1)), "r synced s →1")
}

func TestPauseEndsBeforeTheStateIsRead(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("r", "")
	l.run(rules, new(teller), func(e *Engine, _ []string) bool { return e.SetPaused("r", true) == nil })
	l.put("a", "1")
	l.server.Fail(func(r *http.Request) *metav1.Status {
		if strings.HasSuffix(r.URL.Path, "kube-system") {
			return &metav1.Status{Status: "Failure", Code: 503, Reason: metav1.StatusReasonServiceUnavailable}
		}
		return nil
	})
	resumed := false
	told, _ := l.attempt(rules, new(teller), patience, func(e *Engine, told []string) bool {
		if !resumed {
			resumed = true
			if err := e.SetPaused("r", false); err != nil {
				t.Error(err)
			}
			l.server.Fail(nil)
		}
		return len(told) == 1
	})
	l.expect(told, "r added a →1")
}

func TestPauseOfANewRuleSurvives(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	source := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1)
	l.run(source+aRule("r", ""), new(teller), n(1))
	l.server.Fail(forbid("/namespaces/pay/"))
	both := source + aRule("r", "") + aRule("q", "")
	l.attempt(both, new(teller), patience, func(e *Engine, told []string) bool {
		return len(told) == 1 && e.SetPaused("q", true) == nil
	})
	_, paused := l.attempt(both, new(teller), patience, func(e *Engine, _ []string) bool {
		view, _ := e.Source("maps")
		return view.Informers()[0].HasSynced() && e.rule("q").Lane.Paused()
	})
	if !paused {
		t.Error("q is not paused")
	}
}

func TestRuleThatNeverCaughtUpLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	source := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1)
	l.run(source+aRule("r", ""), new(teller), n(1))
	l.server.Fail(forbid("/namespaces/pay/"))
	both := source + aRule("r", "") + aRule("q", "")
	l.attempt(both, new(teller), patience, func(e *Engine, told []string) bool {
		_ = e.SetPaused("q", true)
		for _, s := range e.Status().Rules {
			if s.Name == "q" && s.Queue.Waiting == 1 {
				return true
			}
		}
		return false
	})
	l.server.Fail(nil)
	l.delete("a")
	l.run(source+aRule("r", ""), new(teller), n(1)) // without q
	l.put("b", "1")
	told := l.run(source+aRule("r", "")+aRule("q", ""), new(teller), n(2))
	l.expect(told, "r added b →1", "q synced b →1")
}

func TestGoneResourceBlocksNothing(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	rules := strings.Replace(mapSource, "attempts: 2", "attempts: 0", 1) + aRule("r", `, payload: "[event, object.data.size]"`) + aRule("plain", "")
	l.run(rules, &teller{answer: func(handler.Event) error { return errors.New("not now") }}, n(2))
	l.server.Withdraw(configMaps)
	l.run(rules, new(teller), func(_ *Engine, told []string) bool {
		return slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, `r deleted a ["deleted","1"]`) })
	})
}

// A run that ends within a list has no position. The next run lists as well, but its rules have
// followed the source: what has come meanwhile is added, and a rule that only asks for that must not
// miss it.
func TestObjectsThatCameBeforeARunThatEndsWithinALaterList(t *testing.T) {
	t.Parallel()
	for resource, source := range map[string]string{"configmaps": mapSource, "secrets": secretSource} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			put := func(name string) {
				l.server.Apply(schema.GroupVersionResource{Version: "v1", Resource: resource},
					fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":"1"}}`, name))
			}
			put("a")
			rules := source + aRule("r", "") + aRule("added", `, events: [added]`)
			l.expect(l.run(rules, new(teller), n(1)), "r synced a →1")
			put("x")
			refused := new(atomic.Bool)
			l.server.Fail(func(r *http.Request) *metav1.Status {
				status := noLists(resource, r)
				if status != nil {
					refused.Store(true)
				} else if r.URL.Query().Get("watch") != "" {
					status = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
				}
				return status
			})
			_, listed := l.attempt(rules, new(teller), patience, func(*Engine, []string) bool { return refused.Load() })
			if !listed {
				t.Fatal("the second run has not tried to list")
			}
			l.server.Fail(nil)
			l.expect(l.run(rules, new(teller), n(2)), "added added x →1", "r added x →1")
		})
	}
}

func TestGoneSecretIsDeliveredWhateverWhenReads(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	rules := secretSource + aRule("r", `, when: object.data.size == "1"`) + aRule("p", `, payload: "\"size \" + object.data.size"`) + aRule("plain", "")
	l.run(rules, new(teller), n(3))
	l.server.Delete(secrets, "shop", "a")
	l.expect(l.run(rules, new(teller), n(3)), "r deleted a →", "p deleted a null", "plain deleted a →")
}

// templated is a payload that fails without the Secret's data.
const templated = `, payload: {text: "of size ${object.data.size}"}`

// A payload that fails on what is left of a Secret makes a dead letter, and never null.
func TestPayloadOfGoneSecretIsNeverNull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    string
		refuses bool // the handler refuses the event before the restart
	}{
		"deleted meanwhile":                     {templated, false},
		"waiting, and deleted meanwhile":        {templated, true},
		"waiting, and the rule sees no deletes": {templated + ", events: [synced]", true},
		"in a group":                            {templated + `, group: {by: '"all"', wait: 100ms}`, false},
		"every event":                           {templated + ", delivery: every", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.secret("a", "1")
			rules := strings.Replace(secretSource, "attempts: 2", "attempts: 0", 1) + aRule("r", c.rule)
			before := &teller{answer: func(handler.Event) error {
				if c.refuses {
					return errors.New("not now")
				}
				return nil
			}}
			l.run(rules, before, func(e *Engine, told []string) bool {
				return len(told) > 0 && (c.refuses || e.Status().Rules[0].Queue.Waiting == 0)
			})
			l.server.Delete(secrets, "shop", "a")
			told := l.run(rules, new(teller), func(e *Engine, told []string) bool {
				letters, _ := e.Letters()
				if len(letters) == 0 {
					return len(told) > 0
				}
				for _, part := range []string{"a", "keeps only the identity of a Secret over a restart", "object.data.size", "payload: text"} {
					if !strings.Contains(letters[0].Reason, part) {
						t.Errorf("the reason lacks %q: %s", part, letters[0].Reason)
					}
				}
				if err := e.RetryLetter(letters[0].ID); err == nil || !strings.Contains(err.Error(), "cannot make its payload") {
					t.Errorf("a retry returns %v", err)
				}
				return true
			})
			l.expect(told)
		})
	}
}

// What a payload, when and group read of the identity is there.
func TestIdentityOfGoneSecretIsEnough(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	l.secret("b", "1")
	rules := secretSource + aRule("p", `, payload: {text: "${object.metadata.name} of ${object.metadata.namespace} ${event}"}`) +
		aRule("w", `, events: [deleted], when: object.metadata.name == "b"`)
	l.run(rules, new(teller), n(2))
	l.server.Delete(secrets, "shop", "a")
	l.server.Delete(secrets, "shop", "b")
	l.expect(l.run(rules, new(teller), n(3)), `p deleted a {"text":"a of shop deleted"}`, `p deleted b {"text":"b of shop deleted"}`, "w deleted b →")
}

// A payload that fails because the Secret that it looks up is gone makes a dead letter, too.
func TestPayloadThatLooksUpGoneSecretIsNeverNull(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.putSecret("a", "x")
	l.put("a", "1")
	manifests := strings.Replace(attachSources, "attempts: 2", "attempts: 0", 1) +
		aRule("r", `, payload: {text: 'it is ${first(lookup("secrets.byName", object.metadata.name)).data.value}'}`)
	l.run(manifests, &teller{answer: func(handler.Event) error { return errors.New("not now") }}, n(1))
	l.server.Delete(secrets, "shop", "a")
	l.expect(l.run(manifests, new(teller), func(e *Engine, told []string) bool {
		letters, _ := e.Letters()
		return len(told) > 0 || len(letters) == 1 && strings.Contains(letters[0].Reason, "payload: text")
	}))
}

func TestLetterOfAnotherResourceIsNotRetried(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.run(mapSource+aRule("r", ""), &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("no")) }},
		func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 })
	l.expect(l.run(secretSource+aRule("r", ""), new(teller), func(e *Engine, _ []string) bool {
		letters, _ := e.Letters()
		for _, x := range letters {
			if err := e.RetryLetter(x.ID); err == nil || !strings.Contains(err.Error(), "v1/secrets now") {
				t.Errorf("retry: %v", err)
			}
			if got := x.Event().Resource.Resource; got != "configmaps" {
				t.Errorf("the event's resource is %s", got)
			}
		}
		return len(letters) == 1
	}))
}

// Objects that came and went since the state was written are reported. So are secrets, whose saved
// state is not enough to resume from.
func TestObjectsThatCameAndWentBeforeAKill(t *testing.T) {
	t.Parallel()
	for resource, source := range map[string]string{"configmaps": mapSource, "secrets": secretSource} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
			put := func(name string) {
				l.server.Apply(gvr, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":"1"}}`, name))
			}
			put("a")
			rules := source + aRule("r", "")
			l.run(rules, new(teller), n(1))
			written := l.dir + "-written"
			if err := os.CopyFS(written, os.DirFS(l.dir)); err != nil {
				t.Fatal(err)
			}
			put("x")
			l.expect(l.run(rules, new(teller), n(1)), "r added x →1")
			l.dir = written // as if the process had been killed before it wrote that
			l.server.Delete(gvr, "shop", "x")
			l.run(rules, new(teller), func(_ *Engine, told []string) bool {
				return slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, "r deleted x") })
			})
			l.expect(l.run(rules, new(teller), n(0)))
		})
	}
}

// A rule whose where has changed learns nothing of Secrets until its informer has caught up. If the
// run ends before that, and the old where comes back, the rule must learn what it missed.
func TestRuleReceivesWhatItMissedBeforeCatchingUp(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	l.secret("b", "2")
	rule := func(size string) string {
		return secretSource + aRule("r", fmt.Sprintf(`, where: object.data.size == %q`, size)) + aRule("all", "")
	}
	l.expect(l.run(rule("1"), new(teller), n(3)), "r synced a →1", "all synced a →1", "all synced b →2")
	l.secret("a", "3") // leaves the rule, by the first where
	l.secret("b", "1") // comes in
	l.server.Fail(noSecretLists)
	l.attempt(rule("2"), new(teller), patience, func(_ *Engine, told []string) bool { return len(told) >= 2 })
	l.server.Fail(nil)
	l.expect(l.run(rule("1"), new(teller), n(2)), "r deleted a →", "r synced b →1")
}

// If what is kept of Secrets and a rule's where change together, the other rules receive changes
// before the informer has caught up. If the run ends before that, they receive no older states in
// the next one.
func TestSecretsAreNotToldBackwardsAfterARunThatDidNotCatchUp(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.secret("a", "1")
	source := strings.Replace(secretSource, "v1/secrets}", "v1/secrets, keep: needed}", 1) +
		aRule("all", ", delivery: every, payload: object.data.size")
	before := source + aRule("r", `, payload: event, where: object.data.size == "9"`)
	after := source + aRule("r", `, payload: event, where: object.data.size == "9" and object.data.more == nil`)
	l.expect(l.run(before, new(teller), n(1)), `all synced a "1"`)
	l.secret("a", "2")
	l.secret("a", "3")
	l.server.Fail(noSecretLists)
	told, _ := l.attempt(after, new(teller), patience, n(2))
	l.expect(told, `all synced a "2"`, `all updated a "3"`)
	l.server.Fail(nil)
	l.expect(l.run(after, new(teller), n(0)))
}

// noSecretLists lets watches bring changes, and no list fill the cache.
func noSecretLists(r *http.Request) *metav1.Status {
	return noLists("secrets", r)
}

// noLists refuses the lists of a resource, and no other request.
func noLists(resource string, r *http.Request) *metav1.Status {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") == "true" || query.Get("watch") == "" && !strings.Contains(query.Get("fieldSelector"), "no-such-object") &&
		strings.HasSuffix(r.URL.Path, "/"+resource) {
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
	}
	return nil
}

// gated is a teller that is not ready until the gate is open.
type gated struct {
	*teller
	gate chan struct{}
}

func (g gated) Ready(ctx context.Context) error {
	select {
	case <-g.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Before the first start no handler can have received an object. If the object goes before its turn
// comes, no handler receives it.
func TestFirstStartDeliversNoDeletions(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	h := gated{new(teller), make(chan struct{})}
	e, stop := l.startWith(mapSource+aRule("r", ""), h)
	await := func(what string, holds func(queue.Stats) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !holds(e.Status().Rules[0].Queue) || !e.Status().Sources[0].Ready; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain until " + what)
			}
		}
	}
	await("both wait", func(s queue.Stats) bool { return s.Waiting == 2 })
	l.delete("a")
	await("one waits", func(s queue.Stats) bool { return s.Waiting == 1 })
	close(h.gate)
	await("it is delivered", func(s queue.Stats) bool { return s.Waiting+s.InFlight == 0 })
	stop()
	l.expect(h.told, "r synced b →1")
}
