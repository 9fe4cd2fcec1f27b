package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

// impatiently makes the informers give up soon on a server from which nothing comes.
func impatiently(s *Informers) {
	t := &s.tuning
	t.short = 10 * time.Millisecond
	t.answer, t.listing, t.progress = 100*time.Millisecond, 150*time.Millisecond, 100*time.Millisecond
	t.closing, t.quiet, t.proof = 100*time.Millisecond, 200*time.Millisecond, 1500*time.Millisecond
	t.probe, t.brief = time.Second, time.Second
}

// isWatch, isList and others say which requests a test stalls.
func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func isInitial(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// isLater reports whether a request is for a watch from a position.
func isLater(r *http.Request) bool { return isWatch(r) && !isInitial(r) }

// isPosition reports whether a request asks for the server's position only.
func isPosition(r *http.Request) bool {
	return strings.Contains(r.URL.Query().Get("fieldSelector"), nobody)
}

func isList(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/pods") && !isWatch(r) && !isPosition(r)
}

// stalled stalls the requests that is selects.
func stalled(at apistub.Place, is func(*http.Request) bool) func(*http.Request) apistub.Place {
	return func(r *http.Request) apistub.Place {
		if is(r) {
			return at
		}
		return apistub.Nowhere
	}
}

// A proxy stops each kind of request at each moment, from the start or later. The informer says that
// nothing comes, asks again, and goes on when the server does.
func TestStalls(t *testing.T) {
	t.Parallel()
	for _, stall := range []struct {
		name      string
		is        func(*http.Request) bool
		at        apistub.Place
		watchList bool
		reason    string
	}{
		{"a list", isList, apistub.BeforeHeaders, false, "does not answer"},
		{"a list", isList, apistub.AfterHeaders, false, "stopped in the middle of an answer"},
		{"a list", isList, 100, false, "stopped in the middle of an answer"},
		{"a watch", isWatch, apistub.BeforeHeaders, false, "does not answer"},
		{"a watch", isLater, apistub.AfterHeaders, false, "the watch is silent"},
		{"a refused watch", isWatch, apistub.AfterHeaders, false, "does not answer"},
		{"all", func(*http.Request) bool { return true }, apistub.BeforeHeaders, true, "does not answer"},
		{"all", func(*http.Request) bool { return true }, 40, true, "stopped in the middle of an answer"},
		{"a watch with initial events", isInitial, apistub.BeforeHeaders, true, "does not answer"},
	} {
		t.Run(stall.name+" "+stall.reason, func(t *testing.T) {
			t.Parallel()
			server, s, i, e, lines := serving(t, stall.watchList, body("a", 1))
			impatiently(s)
			server.Stall(stalled(stall.at, stall.is))
			run(t, s)
			awaitReason(t, i, Failing, stall.reason)
			server.Stall(nil)
			awaitState(t, i, Synced)
			e.expect(t, "synced a 1")
			server.Apply(pods, body("a", 2))
			e.expect(t, "updated a 1→2")
			if n := lines.count("level=WARN"); n == 0 {
				t.Error("the log has no warning")
			}
		})
	}
}

// awaitReason waits until the informer has a state, for a reason that contains a text.
func awaitReason(t *testing.T, i *Informer, want State, text string) {
	t.Helper()
	await(t, want.String()+", "+text, func() bool {
		state, reason := i.State()
		return state == want && strings.Contains(reason, text)
	})
}

// A watch that follows the server falls silent, while other requests are answered. The informer
// tries a new one, finds that silent, too, and is failing until it hears the server again.
func TestWatchThatFallsSilent(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, lines := serving(t, watchList, body("a", 1))
		impatiently(s)
		s.tuning.answer, s.tuning.listing, s.tuning.progress = patience, patience, patience
		run(t, s)
		e.expect(t, "synced a 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		before := i.Stats().LastHeard
		if before.IsZero() {
			t.Error("a synced informer has not heard the server")
		}
		server.Stall(stalled(apistub.AfterHeaders, isWatch))
		server.Apply(pods, body("a", 2))
		awaitReason(t, i, Failing, "the watch is silent: nothing has come for")
		opened := server.Requests().Watches[pods]
		server.Await("it is tried again and again", func() bool {
			return server.Requests().Watches[pods] > opened+1
		})
		if state, _ := i.State(); state != Failing || i.IsFresh() {
			t.Errorf("the state is %v while nothing comes", state)
		}
		server.Stall(nil)
		e.expect(t, "updated a 1→2")
		awaitState(t, i, Synced)
		if n := lines.count("the watch is silent"); n != 1 {
			t.Errorf("that is logged %d times, want once", n)
		}
		if n := lines.count("source works again"); n != 1 {
			t.Errorf("the end is logged %d times, want once", n)
		}
		if !i.Stats().LastHeard.After(before) {
			t.Error("it has not heard the server since")
		}
	})
}

// The informer asks a server without bookmarks for short watches, and takes their ends as signs of
// life. A cluster in which nothing happens is not in trouble.
func TestQuietIsNoSilence(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, lines := serving(t, watchList, body("a", 1))
		impatiently(s)
		s.tuning.answer, s.tuning.listing = patience, patience
		s.tuning.quiet, s.tuning.proof = 4*time.Second, 4*time.Second
		if !watchList { // each watch is a short one, and none a probe
			s.tuning.quiet = patience
		}
		run(t, s)
		e.expect(t, "synced a 1")
		server.Await("three ends of watches", func() bool { return server.Requests().Watches[pods] > 3 })
		if state, reason := i.State(); state != Synced || lines.count("level=WARN") > 0 {
			t.Errorf("%v, %q", state, reason)
		}
		if ago := time.Since(i.Stats().LastHeard); ago > time.Minute {
			t.Errorf("it was last heard %v ago", ago)
		}
		server.Apply(pods, body("a", 2))
		e.expect(t, "updated a 1→2")
		e.silent(t)
	})
}

// A long list takes its time: how long the informer waits for the next of it is bounded, and not how long
// all of it takes.
func TestSlowListIsNoSilence(t *testing.T) {
	t.Parallel()
	h := &hostile{list: func(w io.Writer, _ *http.Request) error {
		_, _ = io.WriteString(w, listHead)
		for range 55 {
			time.Sleep(100 * time.Millisecond)
			if _, err := fmt.Fprintf(w, "%8192s", ""); err != nil { // more than a buffer
				return err
			}
		}
		_, err := io.WriteString(w, podNamed("a", 10)+`]}`)
		return err
	}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, lines := newInformers(t, &rest.Config{Host: server.URL}, Options{})
	i := s.Informer(Selection{Resource: pods, Namespace: "shop"})
	e := newEar()
	i.Consume(consumer(e.hear))
	s.tuning.progress = 5 * time.Second
	run(t, s)
	e.expect(t, "synced a 10")
	awaitState(t, i, Synced)
	if lines.count("level=WARN") > 0 {
		t.Error("the log has a warning")
	}
}

// A server that honours sendInitialEvents and never says where they end gets a list instead.
func TestInitialEventsWithoutEnd(t *testing.T) {
	t.Parallel()
	server, s, i, e, lines := serving(t, true, body("a", 1))
	impatiently(s)
	object := 0
	server.Stall(func(r *http.Request) apistub.Place {
		if isInitial(r) {
			return apistub.Place(object) // everything but the bookmark
		}
		return apistub.Nowhere
	})
	object = len(event("ADDED", string(encoded(t, server)))) - 1
	run(t, s)
	e.expect(t, "synced a 1")
	awaitState(t, i, Synced)
	server.Apply(pods, body("a", 2))
	e.expect(t, "updated a 1→2")
	if n := lines.count("listing instead"); n != 1 {
		t.Errorf("that is logged %d times, want once", n)
	}
	lists := server.Requests().WatchLists[pods]
	server.Expire() // the next generation does not try again
	server.Apply(pods, body("a", 3))
	e.expect(t, "updated a 2→3")
	if n := server.Requests().WatchLists[pods]; n != lists {
		t.Errorf("it asks for initial events once more")
	}
}

// So does one that is never silent, because its objects change all the time.
func TestInitialEventsWithoutEndAmongChanges(t *testing.T) {
	t.Parallel()
	h := &hostile{
		hasInitial: true,
		list: func(w io.Writer, _ *http.Request) error {
			_, err := io.WriteString(w, listHead+podNamed("a", 10)+`]}`)
			return err
		},
		watch: func(w io.Writer, r *http.Request) (err error) {
			if !isInitial(r) {
				return nil
			}
			for n, verb := 10, "ADDED"; err == nil; n, verb = n+1, "MODIFIED" {
				_, err = fmt.Fprintf(w, "{\"type\":%q,%4096s\"object\":%s}\n", verb, "", podNamed("a", n)) // more than a buffer
				time.Sleep(5 * time.Millisecond)
			}
			return err
		},
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, lines := newInformers(t, &rest.Config{Host: server.URL}, Options{})
	i := s.Informer(Selection{Resource: pods, Namespace: "shop"})
	i.Consume(consumer(newEar().hear))
	impatiently(s)
	run(t, s)
	awaitState(t, i, Synced)
	if n := lines.count("listing instead"); n != 1 {
		t.Errorf("that is logged %d times, want once", n)
	}
}

func encoded(t *testing.T, server *apistub.Server) []byte {
	answer, err := http.Get(server.Config().Host + "/api/v1/namespaces/shop/pods/a")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// silence has a watch on which a frame comes from time to time, in virtual time. It returns the
// informer, and a function that sends a bookmark.
func silence(t *testing.T) (w *watching, i *Informer, bookmark func()) {
	i, _ = idle(t)
	ctx, cancel := context.WithCancel(t.Context())
	body, server := io.Pipe()
	w = newWatching(&wire{informer: i}, metav1.ListOptions{ResourceVersion: "1"}, cancel)
	w.checkSteady()
	i.health.listing()
	i.health.listed(0)
	requested, cut := context.WithCancelCause(ctx)
	closing := context.AfterFunc(requested, func() { _ = server.CloseWithError(context.Canceled) })
	inner := newStream(&answerBody{
		ReadCloser: body, cancel: cut, cause: func() error { return context.Cause(requested) },
	}, i.reader)
	ended := make(chan struct{})
	go func() { defer close(ended); w.forward(ctx, inner, func() {}) }()
	t.Cleanup(func() { closing(); _ = server.Close(); cancel(); <-ended })
	return w, i, func() {
		_, _ = io.WriteString(server, event("BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"2"}}`))
		<-w.events
	}
}

// Silence of any cause shows within 90 seconds: a watch is tried again after 70, as a probe, and the
// source is failing when that is silent for 15. A bookmark each minute proves it well.
func TestSilenceShowsWithinNinetySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, i, bookmark := silence(t)
		isProbe := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.isProbe
		}
		for range 20 {
			time.Sleep(time.Minute)
			bookmark()
			synctest.Wait()
		}
		if isProbe() || !i.hearing.isRegular.Load() {
			t.Error("a bookmark each minute is silence to it")
		}
		last := time.Now()
		for !isProbe() { // the watch is cut
			time.Sleep(time.Second)
			synctest.Wait()
		}
		probe := newOverhearing(w, newStream(http.NoBody, i.reader))
		defer probe.timer.Stop()
		probe.inner.body.since.Store(1)
		for state, _ := i.State(); state == Synced; state, _ = i.State() {
			<-probe.timer.C
			probe.look(t.Context())
		}
		if took := time.Since(last); took > 90*time.Second {
			t.Errorf("silence shows after %v", took)
		}
	})
}

// A request for the cluster's identity, or for the server's position after a restart, is accepted and
// never answered. The informer says so, and goes on once the server answers.
func TestStallsAtTheStart(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]func(*http.Request) bool{
		"the cluster's identity": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/kube-system") },
		"the position":           isPosition,
	} {
		for _, at := range []apistub.Place{apistub.BeforeHeaders, apistub.AfterHeaders, 10} {
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				t.Parallel()
				server, s, i, e, _ := serving(t, true, body("a", 1))
				saved, err := object.FromJSON(encoded(t, server))
				if err != nil {
					t.Fatal(err)
				}
				i.Restore(Saved{Objects: []*object.Object{saved}, ResourceVersion: server.ResourceVersion()})
				server.Apply(pods, body("a", 2))
				impatiently(s)
				server.Stall(stalled(at, is))
				known := make(chan string, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					uid, _ := s.ClusterUID(ctx)
					known <- uid
				}()
				if name == "the position" {
					<-known
					run(t, s)
				}
				awaitReason(t, i, Failing, "nothing came for")
				server.Stall(nil)
				if name != "the position" {
					if uid := <-known; uid == "" {
						t.Error("the cluster has no identity once the server answers")
					}
					run(t, s)
				}
				e.expect(t, "updated a 1→2")
				awaitState(t, i, Synced)
			})
		}
	}
}
