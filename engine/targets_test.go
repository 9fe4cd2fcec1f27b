package engine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// applies answers a daemon's requests that write. Others go on to the server.
type applies struct {
	mu   sync.Mutex
	done map[string]int // requests that succeeded, by path
	fail func(path string) bool
	then func(done int) // after each that succeeded; may be nil
}

func (a *applies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	time.Sleep(time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	code, body := http.StatusOK, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"copies","name":"x","uid":"u","resourceVersion":"9"}}`
	if a.fail != nil && a.fail(r.URL.Path) {
		code, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"exceeded quota: q"}`
	} else if a.done[r.URL.Path]++; a.then != nil {
		a.then(len(a.done))
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func (a *applies) count() (targets, requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.done {
		requests += n
	}
	return len(a.done), requests
}

const copyingRule = `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: hidden}
spec: {resource: v1/secrets, indexes: {all: "'yes'"}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: copies}
spec:
  source: maps
  where: object.metadata.name == "a"
  actions:
  - forEach: lookup("hidden.all", "yes")
    apply: {resource: v1/configmaps, object: {metadata: {namespace: copies, name: "${item.metadata.name}"}, data: {size: "${object.data.size}"}}}
`

// The daemon ends in the middle of many targets. The next one goes on where it was: it repeats none
// that is done, also while one of them fails.
func TestRestartAmongTargets(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	const n = 90 // so that they come in pieces
	for i := range n {
		l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"n%d"}}`, i))
	}
	l.put("a", "1")
	half := make(chan bool)
	once := sync.OnceFunc(func() { close(half) })
	over := &applies{done: make(map[string]int), then: func(done int) {
		if done == n/2 {
			once()
		}
	}}
	over.fail = func(path string) bool { return strings.HasSuffix(path, "/n7") }
	l.over = over
	e, stop := l.startWith(mapSource+copyingRule, &teller{})
	<-half
	stop()
	_, before := over.count()
	if before < n/2 || before >= n-1 {
		t.Errorf("%d targets were done when the daemon ended", before)
	}
	e, stop = l.startWith(mapSource+copyingRule, &teller{})
	l.holds("all but one are done", func() bool {
		targets, _ := over.count()
		failure, _ := e.rule("copies").Lane.LastFailure()
		return targets == n-1 && strings.Contains(failure.Reason, "exceeded quota")
	})
	stop()
	over.mu.Lock()
	over.fail = nil
	over.mu.Unlock()
	e, stop = l.startWith(mapSource+copyingRule, &teller{})
	l.holds("all are done", func() bool {
		targets, _ := over.count()
		return targets == n && e.rule("copies").Undelivered() == 0
	})
	if _, requests := over.count(); requests != n {
		t.Errorf("%d requests for %d targets", requests, n)
	}
	stop()
}
