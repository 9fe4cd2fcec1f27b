package acting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// apiServer answers the requests of a real Executor, without a network. Each apply creates an
// object, unless the namespace is a bad one.
type apiServer struct {
	discovery.ServerResourcesInterfaceWithContext
	mu      sync.Mutex
	bad     map[string]int // by namespace: the code of its answers
	applied []string       // namespaces
	refused int            // applies
}

func (s *apiServer) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "secrets", Kind: "Secret", Namespaced: true},
	}}, nil
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	namespace := strings.Split(r.URL.Path, "/")[4]
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	switch code, isBad := s.bad[namespace]; {
	case r.Method == http.MethodGet:
		return answer(404, `{"kind":"Status","reason":"NotFound","code":404,"details":{"name":"x","kind":"secrets"}}`)
	case isBad && code == 0:
		s.refused++
		return nil, errors.New("connection refused")
	case isBad:
		s.refused++
		return answer(code, fmt.Sprintf(`{"kind":"Status","code":%d,"message":"conversion webhook is down"}`, code))
	}
	s.applied = append(s.applied, namespace)
	return answer(201, `{"kind":"Secret","metadata":{"name":"x","uid":"u","resourceVersion":"1"}}`)
}

// take returns the namespaces in which something was applied since it was last called, and how many
// applies have failed.
func (s *apiServer) take() (applied []string, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	applied, refused = s.applied, s.refused
	s.applied, s.refused = nil, 0
	slices.Sort(applied)
	return applied, refused
}

// served has a world's rule act on an apiServer.
func (w *world) served(bad map[string]int) *apiServer {
	s := &apiServer{bad: bad}
	x, err := action.New(&rest.Config{Host: "http://127.0.0.1"}, &http.Client{Transport: s}, s, time.Now, action.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.acting.begin = func(ctx context.Context, by action.By, ev *handler.Event, stop func() bool) sequence {
		return x.Begin(ctx, by, ev, stop)
	}
	return s
}

// names returns n names of namespaces.
func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%02d", prefix, i))
	}
	return all
}

// Targets for which the API server fails itself wait by themselves, however many there are: the
// webhook that converts their kind may be down. The others have what is newest at once.
func TestTargetsForWhichTheAPIServerFails(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			bad, good := names("bad", n), names("good", 30)
			codes := make(map[string]int)
			for _, ns := range bad {
				codes[ns] = http.StatusInternalServerError
			}
			s := w.served(codes)
			offer, l := w.run(slices.Concat(bad, good)...)
			offer(1)
			if n > 2 { // so many in a row may mean that all others fail
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
			applied, refused := s.take()
			equal(t, fmt.Sprint(n, " bad: the others, at first"), slices.Compact(applied), good)
			if refused < n {
				t.Errorf("%d of %d were tried", refused, n)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			s.take()
			offer(2)
			applied, refused = s.take()
			equal(t, fmt.Sprint(n, " bad: the others, at once"), applied, good)
			equal(t, "the bad ones, which wait", refused, 0)
			s.mu.Lock()
			s.bad = nil
			s.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			applied, _ = s.take()
			equal(t, "in the end", applied, bad)
			equal(t, "deliveries", l.Stats().Waiting, 0)
		})
	}
}

// If the API server cannot be reached, is overloaded, or fails with one target after the other, the
// wave ends, and no target is to blame.
func TestTroubleEndsTheWave(t *testing.T) {
	for _, code := range []int{0, 429, 500, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			all, codes := names("ns", 100), make(map[string]int)
			for _, ns := range all {
				codes[ns] = code
			}
			s := w.served(codes)
			err := w.do(1, copies("1", all...), step(1, apply("later", "x", "1")))
			if err == nil || errors.Is(err, handler.ErrReject) {
				t.Fatalf("%d: %v", code, err)
			}
			applied, refused := s.take()
			if len(applied) > 0 || refused > maxAtOnce+2 {
				t.Errorf("%d: %q were applied, and %d requests failed", code, applied, refused)
			}
			claims := w.acting.options.Targets.Of(targets.Asker{Rule: "id", Key: w.key()})
			waiting := 0
			for _, c := range claims {
				if c.State == targets.Waits {
					waiting++
				}
			}
			if (waiting > 0) != (code == 500) {
				t.Errorf("%d: %d targets wait", code, waiting)
			}
		})
	}
}

// One reason for which several targets fail is given once, and so is advice at the end of several
// reasons. Targets are counted, however many actions each has.
func TestErrorAboutSeveralTargets(t *testing.T) {
	const advice = "choose another name, delete the object, or run the rule once without prune"
	foreign := func(o one) error {
		return handler.Reject(fmt.Errorf("%s: rejected: it is somebody else's: %s", o.name(), advice))
	}
	of := func(label, namespace, name string) one {
		a := apply(namespace, name, "1")
		return one{Action: a, target: targets.Target{Resource: secrets, Key: keyOf(a)}, label: label}
	}
	event := of("actions[2]", "a", "x")
	event.Verb, event.target.Subresource = handler.ActionEvent, eventTarget
	failed := func(o one, text string) failure { return failure{o, fmt.Errorf("%s: %s", o.name(), text)} }
	a, b, c, d := of("actions[0]", "a", "x"), of("actions[0]", "b", "x"), of("actions[0]", "c", "x"), of("actions[0]", "d", "x")
	for why, c := range map[string]struct {
		failed []failure
		want   string
	}{
		"one":                   {[]failure{failed(a, "403: no")}, "actions[0]: apply of v1/secrets a/x: 403: no"},
		"the same target twice": {[]failure{failed(a, "403: no"), failed(a, "it failed before")}, "actions[0]: apply of v1/secrets a/x: 403: no"},
		"different reasons": {[]failure{failed(a, "403: no"), failed(b, "404: no")},
			"2 of 9 targets failed: actions[0]: apply of v1/secrets a/x: 403: no; actions[0]: apply of v1/secrets b/x: 404: no"},
		"one reason": {[]failure{failed(a, "403: no"), failed(b, "404: no"), failed(c, "403: no")},
			"3 of 9 targets failed: actions[0]: apply of v1/secrets a/x, apply of v1/secrets c/x: 403: no; actions[0]: apply of v1/secrets b/x: 404: no"},
		"one reason, many targets": {[]failure{failed(a, "403: no"), failed(b, "403: no"), failed(c, "403: no"), failed(d, "403: no")},
			"4 of 9 targets failed: actions[0]: apply of v1/secrets a/x, apply of v1/secrets b/x, apply of v1/secrets c/x: 403: no (and 1 more like this)"},
		"many reasons": {[]failure{failed(a, "1"), failed(b, "2"), failed(c, "3"), failed(d, "4")},
			"4 of 9 targets failed: actions[0]: apply of v1/secrets a/x: 1; actions[0]: apply of v1/secrets b/x: 2; actions[0]: apply of v1/secrets c/x: 3; and 1 more"},
		"one reason for different actions": {[]failure{failed(a, "403: no"), failed(of("actions[1]", "b", "x"), "403: no")},
			"2 of 9 targets failed: actions[0]: apply of v1/secrets a/x: 403: no; actions[1]: apply of v1/secrets b/x: 403: no"},
		"the same advice": {[]failure{failed(a, "it is sa/x's: "+advice), failed(b, "403: no"), failed(c, "it is sb/x's: "+advice)},
			"3 of 9 targets failed: actions[0]: apply of v1/secrets a/x: it is sa/x's; actions[0]: apply of v1/secrets b/x: 403: no; actions[0]: apply of v1/secrets c/x: it is sb/x's: " + advice},
		"in other words":        {[]failure{{a, foreign(a)}, {b, foreign(b)}}, "2 of 9 targets failed: rejected: actions[0]: apply of v1/secrets a/x: rejected: it is somebody else's; rejected: actions[0]: apply of v1/secrets b/x: rejected: it is somebody else's: " + advice},
		"a target and an Event": {[]failure{failed(a, "403: no"), failed(event, "403: no")}, "2 actions failed: actions[0]: apply of v1/secrets a/x: 403: no; actions[2]: an Event about v1/secrets a/x: 403: no"},
	} {
		var f failures
		for _, one := range c.failed {
			f.add(one.one, false, one.err)
		}
		if got := f.of(9).Error(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", why, got, c.want)
		}
	}
}

type failure struct {
	one
	err error
}

// What several actions do to one target counts once.
func TestActionsOnOneTargetCountOnce(t *testing.T) {
	w := newWorld(t)
	w.fail = func(name string) error {
		if name != "c/x" {
			return errQuota
		}
		return nil
	}
	event := handler.Action{Verb: handler.ActionEvent, Resource: handler.Resource(secrets), Namespace: "a", Name: "x"}
	again := copies("2", "a", "b", "c")
	err := w.do(1, delivery.Piece{Label: "actions[0]", Actions: slices.Concat(copies("1", "a", "b", "c").Actions, again.Actions)}, step(1, event))
	if err == nil || !strings.HasPrefix(err.Error(), "2 of 3 targets failed: ") {
		t.Error(err)
	}
}

// A refusal says once that it is one, after a restart, too.
func TestRefusalAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = func(name string) error {
			return map[string]error{"b/x": handler.Reject(errors.New("422: invalid")), "c/x": errQuota}[name]
		}
		first := w.do(1, copies("1", "a", "b", "c"))
		w.start()
		w.fail = nil
		time.Sleep(time.Second)
		err := w.do(1, copies("1", "a", "b", "c"))
		const want = "actions[0]: apply of b/x: rejected: 422: invalid"
		if !errors.Is(err, handler.ErrReject) || err.Error() != want {
			t.Errorf("%v after %v, want %s", err, first, want)
		}
	})
}
