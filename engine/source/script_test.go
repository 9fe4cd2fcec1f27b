package source

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// script is an API server that serves pods from a script: the answers to lists and to watches, each
// in order. Further watches stay open and bring nothing. A further list fails the test.
type script struct {
	t         *testing.T
	by        way
	watchList bool // the server supports initial events

	mu             sync.Mutex
	lists, watches []reply
	listed         []string // the continue tokens of the lists
	watched        []string // the resourceVersions from which watches began, or nowhere
}

// reply is one answer.
type reply struct {
	body        string
	end         ending
	status      int    // 0 means 200
	contentType string // "": application/json; "none": none
}

type ending int

const (
	ends   ending = iota // in good order
	breaks               // without HTTP's end marker
	stays                // leaves the response open
)

// way is how the bytes of answers travel.
type way struct {
	name string
	gzip bool
	size func(random *rand.Rand) int // returns the size of the next piece
}

var (
	atOnce     = way{"at once", false, func(*rand.Rand) int { return 1 << 30 }}
	byteByByte = way{"byte by byte", false, func(*rand.Rand) int { return 1 }}
	inPieces   = way{"in pieces", false, func(random *rand.Rand) int { return 1 + random.IntN(1+random.IntN(200)) }}
	compressed = way{"compressed", true, func(random *rand.Rand) int { return 1 + random.IntN(1+random.IntN(500)) }}
	ways       = []way{atOnce, byteByByte, inPieces, compressed}
)

// suits reports whether the answers can travel that way in the time of a test.
func (w way) suits(answers []reply) bool {
	large := slices.ContainsFunc(answers, func(a reply) bool { return len(a.body) > 1<<20 })
	return !large || w.name == atOnce.name
}

// serve serves the script until the test ends.
func (s *script) serve(t *testing.T) *rest.Config {
	s.t = t
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case isPosition(r): // it has seen more than anybody
		s.send(w, r, reply{body: podList(`"resourceVersion":"1000000"`)})
	case r.URL.Path != "/api/v1/pods":
		s.t.Errorf("a request for %s", r.URL)
	case !q.Has("watch"):
		next, ok := s.next(&s.lists, &s.listed, q.Get("continue"))
		if !ok {
			s.t.Error("the informer listed once too often")
			next = reply{body: podList(`"resourceVersion":"1"`)}
		}
		s.send(w, r, next)
	case q.Has("sendInitialEvents") && !s.watchList:
		s.send(w, r, reply{body: failure(http.StatusUnprocessableEntity, "Invalid"), status: http.StatusUnprocessableEntity})
	default:
		next, ok := s.next(&s.watches, &s.watched, cmp.Or(q.Get("resourceVersion"), "nowhere"))
		if !ok {
			next = reply{end: stays}
		}
		s.send(w, r, next)
	}
}

func (s *script) next(replies *[]reply, asked *[]string, what string) (reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*asked = append(*asked, what)
	if len(*replies) == 0 {
		return reply{}, false
	}
	next := (*replies)[0]
	*replies = (*replies)[1:]
	return next, true
}

// compressors are kept because each has 800 KiB, which the race detector looks at byte by byte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (s *script) send(w http.ResponseWriter, r *http.Request, a reply) {
	switch a.contentType {
	case "":
		w.Header().Set("Content-Type", "application/json")
	case "none":
		w.Header()["Content-Type"] = nil
	default:
		w.Header().Set("Content-Type", a.contentType)
	}
	out, flush := io.Writer(w), http.NewResponseController(w).Flush
	if s.by.gzip {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			s.t.Errorf("%s does not ask for gzip", r.URL)
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := compressors.Get().(*gzip.Writer)
		defer compressors.Put(z)
		z.Reset(w)
		out, flush = z, func() error { _ = z.Flush(); return http.NewResponseController(w).Flush() }
		if a.end == ends {
			defer z.Close()
		}
	}
	if a.status > 0 {
		w.WriteHeader(a.status)
	}
	random := rand.New(rand.NewPCG(1, 2))
	_ = flush()
	for body := a.body; body != ""; {
		n := min(len(body), s.by.size(random))
		if len(a.body) > 64<<10 {
			n = min(len(body), 1000*n)
		}
		if _, err := io.WriteString(out, body[:n]); err != nil {
			return // the client is gone
		}
		_ = flush()
		body = body[n:]
	}
	switch a.end {
	case breaks:
		panic(http.ErrAbortHandler)
	case stays:
		<-r.Context().Done()
	}
}

// asked returns the resourceVersions from which watches were opened.
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watched)
}

// follow runs an informer of pods against the script. Failures do not slow the informer down.
func (s *script) follow(t *testing.T) (*Informer, *ear) {
	informers, _ := newInformers(t, s.serve(t), Options{})
	informers.tuning.pause, informers.tuning.maxPause, informers.tuning.short = time.Millisecond, time.Millisecond, time.Nanosecond
	i := informers.Informer(Selection{Resource: pods})
	e := newEar()
	i.Consume(consumer(e.hear))
	run(t, informers)
	return i, e
}

// podAt returns a pod in state v. Its name is its identity.
func podAt(name string, v, resourceVersion int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":"u-%[1]s","resourceVersion":"%d"},"spec":{"v":%d}}`,
		name, resourceVersion, v)
}

func event(kind, object string) string {
	return `{"type":"` + kind + `","object":` + object + `}` + "\n"
}

func podList(metadata string, items ...string) string {
	return `{"kind":"PodList","apiVersion":"v1","metadata":{` + metadata + `},"items":[` + strings.Join(items, ",") + `]}`
}

func failure(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"scripted","reason":%q,"code":%d}`, reason, code)
}
