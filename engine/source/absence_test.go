package source

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocks "k8s.io/utils/clock/testing"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

var widgetsV2 = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}

// followed returns a server of widgets, whose object a an informer has, and its ear.
func followed(t *testing.T, o Options) (*apistub.Server, *Informers, *Informer, *ear) {
	t.Helper()
	server := apistub.New(t)
	server.Serve(widgets, "Widget", true)
	server.Apply(widgets, body("a", 1))
	s, _ := newInformers(t, server.Config(), o)
	i := s.Informer(Selection{Resource: widgets})
	e := newEar()
	i.Consume(consumer(e.hear))
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	server.AwaitWatches(widgets, 1)
	return server, s, i, e
}

// awaitReason waits until an informer's reason contains a text.
func awaitText(t *testing.T, i *Informer, text string) {
	t.Helper()
	await(t, "the reason has "+text, func() bool {
		_, reason := i.State()
		return strings.Contains(reason, text)
	})
}

// refusal is how a server answers some requests.
func refusal(code int32) *metav1.Status {
	reason := map[int32]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}[code]
	return &metav1.Status{Code: code, Reason: reason, Message: "no"}
}

// refusing makes a server refuse requests for which refused returns a code, and ends its watches. The
// result counts all requests.
func refusing(server *apistub.Server, refused func(path string) int32) (asked *atomic.Int32) {
	asked = new(atomic.Int32)
	server.Fail(func(r *http.Request) *metav1.Status {
		asked.Add(1)
		if code := refused(r.URL.Path); code != 0 {
			return refusal(code)
		}
		return nil
	})
	server.DropWatches()
	return asked
}

// at refuses requests for some paths.
func at(code int32, paths ...string) func(string) int32 {
	return func(path string) int32 {
		if slices.Contains(paths, path) {
			return code
		}
		return 0
	}
}

func nothing(string) int32 { return 0 }

// moreLooks waits until many requests were made.
func moreLooks(t *testing.T, asked *atomic.Int32) {
	t.Helper()
	from := asked.Load()
	await(t, "more looks", func() bool { return asked.Load() > from+40 })
}

// When a version is no longer served, its objects live on in another one.
func TestVersionThatIsNoLongerServed(t *testing.T) {
	t.Parallel()
	server, _, i, e := followed(t, Options{})
	server.Serve(widgetsV2, "Widget", true)
	server.Withdraw(widgets)
	awaitState(t, i, NotServed)
	awaitText(t, i, "only in v2: name that version")
	moreLooks(t, refusing(server, nothing))
	e.silent(t)
	if _, ok := i.cache.get("shop", "a"); !ok || !i.HasSynced() || !i.IsSettled() || i.IsFresh() {
		t.Error("the informer does not keep its objects as if its permission had gone")
	}
	if isGone, err := i.IsGone(t.Context()); isGone || err != nil {
		t.Errorf("gone: %v, %v", isGone, err)
	}
	refusing(server, at(503, "/apis/example.com/v1/widgets"))
	server.Serve(widgets, "Widget", true)
	server.Apply(widgets, body("a", 2))
	server.Fail(nil)
	e.expect(t, "deleted a 1", "added a 2") // which has another uid
	awaitState(t, i, Synced)
	e.silent(t)
}

// One of several API servers may be behind, with its discovery.
func TestResourceThatIsGoneForAMomentKeepsItsObjects(t *testing.T) {
	t.Parallel()
	server, _, i, e := followed(t, Options{GoneAfter: time.Hour})
	refusing(server, at(404, "/apis/example.com/v1/widgets", "/apis/example.com/v1"))
	awaitState(t, i, NotServed)
	server.Apply(widgets, body("a", 2))
	server.Fail(nil)
	e.expect(t, "updated a 1→2")
	awaitState(t, i, Synced)
	e.silent(t)
}

// What cannot be found out is no proof.
func TestAbsenceThatNobodyCanConfirm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		withdraws, hasOther bool
		refused             func(path string) int32
	}{
		"discovery is forbidden": {refused: func(path string) int32 {
			if strings.HasSuffix(path, "/widgets") {
				return 404
			}
			return 403
		}},
		"only the list of groups is forbidden":                      {withdraws: true, refused: at(403, "/apis")},
		"nothing is found, as behind a proxy that has lost its way": {refused: func(string) int32 { return 404 }},
		"the list of groups has the version":                        {refused: at(404, "/apis/example.com/v1/widgets", "/apis/example.com/v1")},
		"another version cannot be asked":                           {withdraws: true, hasOther: true, refused: at(503, "/apis/example.com/v2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s, i, e := followed(t, Options{GoneAfter: time.Millisecond})
			s.served.silence = 0
			asked := refusing(server, c.refused)
			if c.hasOther {
				server.Serve(widgetsV2, "Widget", true)
			}
			if c.withdraws {
				server.Withdraw(widgets)
			}
			awaitState(t, i, NotServed)
			moreLooks(t, asked)
			e.silent(t)
			if _, ok := i.cache.get("shop", "a"); !ok {
				t.Error("the object is gone")
			}
		})
	}
}

// An empty list of core resources stands for a refusal, because client-go swallows that.
func TestCoreResourcesThatDiscoveryRefuses(t *testing.T) {
	t.Parallel()
	server, s, i, e, _ := serving(t, true, body("a", 1))
	s.goneAfter, s.served.silence = time.Millisecond, 0
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	asked := refusing(server, at(404, "/api/v1/pods", "/api/v1"))
	awaitState(t, i, NotServed)
	awaitText(t, i, "discovery is forbidden")
	moreLooks(t, asked)
	e.silent(t)
}

// Two looks must find the resource gone, a minute apart, and so must all looks in between.
func TestTwoLooksAMinuteApart(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	clock := clocks.NewFakePassiveClock(time.Unix(1e9, 0))
	s, lines := newInformers(t, server.Config(), Options{Clock: clock, GoneAfter: -1}) // the default
	i := s.Informer(Selection{Resource: widgets})
	e := newEar()
	i.Consume(consumer(e.hear))
	known, err := object.FromJSON([]byte(body("a", 1)))
	if err != nil {
		t.Fatal(err)
	}
	i.Restore(Saved{Objects: []*object.Object{known}, ResourceVersion: "1"})
	i.health.notServed("why", 1)
	var versions []string
	var failure error
	s.served.groupVersions = func(context.Context, string) ([]string, error) { return versions, failure }
	s.served.disco = nil // nobody asks it about a group without versions
	a := &absence{informer: i}
	pass := func(d time.Duration) {
		clock.SetTime(clock.Now().Add(d))
		a.look(t.Context())
		e.silent(t)
	}
	pass(0)
	pass(59 * time.Second)
	failure = errors.New("down")
	pass(10 * time.Second)
	if _, reason := i.State(); !strings.HasSuffix(reason, "gone in all versions: down") {
		t.Errorf("the reason is %q", reason)
	}
	failure = nil
	pass(10 * time.Second)
	pass(59 * time.Second)
	clock.SetTime(clock.Now().Add(10 * time.Second))
	a.look(t.Context())
	e.expect(t, "deleted a 1")
	if lines.count("its objects count as deleted") != 1 {
		t.Error("that is not logged")
	}
}
