package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// hostile serves whatever its functions write. The API server is not trusted for size or identity.
type hostile struct {
	list, watch func(w io.Writer, r *http.Request) error // an error ends the answer
	hasInitial  bool                                     // it takes requests for initial events
	lists       atomic.Int64
	sent        atomic.Int64
}

func (h *hostile) Write(w io.Writer) io.Writer {
	return writer(func(p []byte) (int, error) {
		n, err := w.Write(p)
		h.sent.Add(int64(n))
		return n, err
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := h.list
	switch q := r.URL.Query(); {
	case q.Has("sendInitialEvents") && !h.hasInitial:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, failure(http.StatusUnprocessableEntity, "Invalid"))
		return
	case q.Has("watch"):
		answer = h.watch
	default:
		h.lists.Add(1)
	}
	if answer != nil && answer(h.Write(w), r) != nil {
		return
	}
	if r.URL.Query().Has("watch") {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// follow runs an informer of a namespace against the server, for which most objects are too many.
func (h *hostile) follow(t *testing.T, most int64) (*Informer, *ear, *log) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, lines := newInformers(t, &rest.Config{Host: server.URL}, Options{})
	s.tuning.maxListed = most
	i := s.Informer(Selection{Resource: pods, Namespace: "shop"})
	e := newEar()
	i.Consume(consumer(e.hear))
	run(t, s)
	return i, e, lines
}

func podNamed(name string, version int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":"u-%[1]s","resourceVersion":"%d"},"spec":{"v":%[2]d}}`, name, version)
}

const listHead = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[`

// endless writes ever more objects. Only the client's end stops it.
func endless(w io.Writer, before, after string) error {
	for n := 0; ; n++ {
		if _, err := fmt.Fprint(w, before, podNamed(fmt.Sprint("p", n), 10), after); err != nil {
			return err
		}
	}
}

// A server whose answers have no end costs so much and no more, and the informer says what is wrong.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const most, want = 200, "the API server sends more than 200 objects"
	page := func(w io.Writer, r *http.Request) error {
		token := r.URL.Query().Get("continue")
		_, err := fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"%sx"},"items":[%s]}`,
			token, podNamed("p"+token, 10))
		return err
	}
	for name, h := range map[string]*hostile{
		"a list": {list: func(w io.Writer, _ *http.Request) error {
			_, _ = io.WriteString(w, listHead+podNamed("first", 10))
			return endless(w, ",", "")
		}},
		"objects that cannot be read": {list: func(w io.Writer, _ *http.Request) error {
			_, err := io.WriteString(w, listHead+`{}`)
			for err == nil {
				_, err = io.WriteString(w, strings.Repeat(`,{"metadata":1}`, 100))
			}
			return err
		}},
		"pages":          {list: page},
		"initial events": {hasInitial: true, list: page, watch: func(w io.Writer, _ *http.Request) error { return endless(w, `{"type":"ADDED","object":`, "}\n") }},
		"events after a list": {
			list:  func(w io.Writer, _ *http.Request) error { _, err := io.WriteString(w, listHead+`]}`); return err },
			watch: func(w io.Writer, _ *http.Request) error { return endless(w, `{"type":"ADDED","object":`, "}\n") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, _, lines := h.follow(t, most)
			if name == "events after a list" {
				await(t, "the log", func() bool { return lines.count(want) > 0 || strings.Contains(i.Stats().Reason, want) })
			} else {
				await(t, "the reason", func() bool { return strings.Contains(i.Stats().Reason, want) })
			}
			if n := len(i.cache.list("", nil)); n > most+defaultTuning.inFlight { // some may be on their way
				t.Errorf("%d objects are kept", n)
			}
			if n := h.sent.Load(); n > 64<<20 {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

// Pages without objects, and those that lead to themselves, are an error with growing pauses.
func TestPagesWithoutProgress(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(w io.Writer, r *http.Request) error{
		"no objects": func(w io.Writer, r *http.Request) error {
			_, err := fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"%sx"},"items":[]}`, r.URL.Query().Get("continue"))
			return err
		},
		"the same page": func(w io.Writer, _ *http.Request) error {
			_, err := fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"x"},"items":[%s]}`, podNamed("p", 10))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{list: list}
			began := time.Now()
			i, _, _ := h.follow(t, 20)
			await(t, "the reason", func() bool { return strings.Contains(i.Stats().Reason, "does not get on") })
			await(t, "more attempts", func() bool { return h.lists.Load() >= 40 })
			// The room is used up after at most 21 pages. Pauses of 4, 8, 15, 30 and then at least 37
			// milliseconds lie between the others.
			if took := time.Since(began); took < 300*time.Millisecond {
				t.Errorf("40 requests in %v", took)
			}
		})
	}
}

// What nobody asked for is left out and reported, and is not taken for the end of an object that has
// the same name.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	foreign := []string{
		strings.Replace(podNamed("mine", 11), `"shop"`, `"pay"`, 1),
		strings.Replace(podNamed("mine", 11), `"Pod"`, `"Secret"`, 1),
		strings.Replace(podNamed("mine", 11), `"v1"`, `"v2"`, 1),
		strings.Replace(podNamed("mine", 11), `"v1"`, `1`, 1),
		strings.Replace(podNamed("mine", 11), `"Pod"`, `{"a":"Pod"}`, 1),
		strings.Replace(podNamed("other", 11), `"namespace":"shop",`, ``, 1),
	}
	events := func(w io.Writer) {
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
			for _, o := range foreign {
				_, _ = fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", kind, o)
			}
		}
	}
	listed := listHead + podNamed("mine", 10) + "," + strings.Join(foreign, ",") + "]}"
	for name, h := range map[string]*hostile{
		"list": {
			list: func(w io.Writer, _ *http.Request) error { _, err := io.WriteString(w, listed); return err },
			watch: func(w io.Writer, r *http.Request) error {
				events(w)
				_, err := fmt.Fprintf(w, "{\"type\":\"MODIFIED\",\"object\":%s}\n", strings.Replace(podNamed("mine", 12), `"v1"`, `"\u00761"`, 1))
				return err
			},
		},
		"initial events": {hasInitial: true, watch: func(w io.Writer, r *http.Request) error {
			if r.URL.Query().Has("sendInitialEvents") {
				_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", podNamed("mine", 10))
				events(w)
				_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
			}
			events(w)
			_, err := fmt.Fprintf(w, "{\"type\":\"MODIFIED\",\"object\":%s}\n", podNamed("mine", 12))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, e, lines := h.follow(t, 1000)
			e.expectAll(t, "synced mine 10")
			e.expect(t, "updated mine 10→12")
			if n := len(i.cache.list("", nil)); n != 1 {
				t.Errorf("%d objects are kept", n)
			}
			if n := i.Stats().Unreadable; n < uint64(len(foreign)) {
				t.Errorf("%d were counted", n)
			}
			if lines.count("an object that informd did not ask for") == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}

// A server that sends too many objects where informd confirms one gets an error, too.
func TestTooManyObjectsToConfirm(t *testing.T) {
	t.Parallel()
	h := &hostile{list: func(w io.Writer, _ *http.Request) error {
		_, _ = io.WriteString(w, listHead+podNamed("first", 10))
		return endless(w, ",", "")
	}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, _ := newInformers(t, &rest.Config{Host: server.URL}, Options{})
	s.tuning.maxListed = 200
	i := s.Informer(Selection{Resource: pods})
	_, err := i.client.bare().version(t.Context(), "shop/first")
	if want := "the API server sends more than 200 objects"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}
