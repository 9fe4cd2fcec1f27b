package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

// The first failure stops a handler's actions, because they may build on each other. So does a
// rule's step of which one action failed, but the actions of a step do not depend on each other.
func TestActionsAfterAFailedOne(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	elsewhere := x.on(handler.ActionApply, "a", withObject(`{}`))
	elsewhere.Namespace = "there-is-no-such-namespace"
	refused := x.on(handler.ActionApply, "b", withObject(`{"data":{"x":5}}`))
	good := x.on(handler.ActionApply, "c", withObject(`{"data":{"x":"1"}}`))
	said := x.on(handler.ActionEvent, "c", func(a *handler.Action) { a.Reason = "Done" })

	x.does(ev, list(refused, good), handler.ErrReject, action.Rejected)
	if x.configMap("c") != nil {
		t.Error("a handler's action was carried out behind one that failed")
	}

	x.by.Handler = ""
	next := func() *handler.Event { ev.ID += "+"; return ev } // of another delivery
	x.does(next(), joined(list(refused), list(good), list(said)), handler.ErrReject, action.Rejected)
	x.does(next(), joined(list(elsewhere), list(good), list(said)), errAny, action.Failed)
	if x.configMap("c") != nil {
		t.Error("a rule's step was carried out behind one that failed")
	}
	err := x.does(next(), joined(list(refused, elsewhere, good), list(said)), errAny, action.Rejected, action.Failed, action.Created)
	for _, want := range []string{"2 of 4 actions failed: actions[0]: apply", "; actions[0]: apply", "there-is-no-such-namespace"} {
		if errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), want) {
			t.Errorf("one that may go well later: %v, want %q", err, want)
		}
	}
	x.does(next(), joined(list(good), list(said)), nil, action.Unchanged, action.Changed)
	err = x.does(next(), joined(list(refused, refused, good)), handler.ErrReject, action.Rejected, action.Unchanged)
	if err == nil || !strings.Contains(err.Error(), "2 of 3 actions failed: actions[0]: apply") {
		t.Errorf("none that may go well later: %v", err)
	}
}

// joined returns a rule's own actions: one step for each of its manifest.
func joined(steps ...[]handler.Action) []handler.Action {
	var all []action.Step
	for i, actions := range steps {
		all = append(all, action.Step{Label: fmt.Sprintf("actions[%d]", i), Actions: actions})
	}
	return action.Join(all)
}

// While a rule's other actions are tried again, one that failed for good is not. In the end it is
// what the dead letter names.
func TestWhatFailedForGoodIsNotRepeated(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	x.by.Handler = ""
	ev := x.about("source", handler.Added)
	refused := x.on(handler.ActionApply, "b", withObject(`{"data":{"x":5}}`))
	late := x.on(handler.ActionApply, "a", withObject(`{}`))
	late.Namespace = x.ns + "-late"
	both := joined(list(refused, late))

	x.does(ev, both, errAny, action.Rejected, action.Failed)
	for range 2 {
		if err := x.does(ev, both, errAny, action.Failed); errors.Is(err, handler.ErrReject) {
			t.Errorf("%v is final", err)
		}
	}
	if n := strings.Count(x.audit.String(), "result=failed"); n != 1 {
		t.Errorf("the audit has %d lines of the same failure, want one:\n%s", n, x.audit.String())
	}
	for _, want := range []string{`result=rejected`, `error="rejected: 500`, `does not exist`} {
		if !strings.Contains(x.audit.String(), want) {
			t.Errorf("the audit lacks %q:\n%s", want, x.audit.String())
		}
	}
	if _, err := x.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: late.Namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := x.does(ev, both, handler.ErrReject, action.Created)
	if err == nil || !strings.Contains(err.Error(), "actions[0]: apply") {
		t.Errorf("the end: %v, want what failed for good", err)
	}
	x.does(ev, both, handler.ErrReject, action.Rejected, action.Unchanged) // a dead letter, delivered again
}

// A finalizer stays as long as the clean-up before it has not succeeded.
func TestFinalizerBehindAForbiddenCleanUp(t *testing.T) {
	t.Parallel()
	x := newExecutorAs(t, limited(t))
	x.allow("patch")
	x.made("source", "example.com/clean-up")
	x.made("made")
	x.by.Handler = ""
	allowed := x.about("made", handler.Updated)
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) { // until the patch is allowed
		err := x.Do(t.Context(), x.by, allowed, list(x.on(handler.ActionPatch, "made", merge(`{}`))))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	ev := x.about("source", handler.Updated)
	cleanUp := x.on(handler.ActionDelete, "made")
	release := x.on(handler.ActionPatch, "source", merge(`{"metadata":{"finalizers":null}}`))
	x.does(ev, joined(list(cleanUp), list(release)), errAny, action.Failed)
	if got := x.configMap("source").Finalizers; len(got) != 1 {
		t.Errorf("the finalizers are %q: the object goes, and what it made stays", got)
	}
}
