package engine

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/plugins/handler"
)

// labels is a rule that looks up the value of a label that it maintains.
const labels = `
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: zones}
spec:
  source: maps
  actions: [{patch: {merge: {metadata: {labels: {zone: '${` + zone + `}'}}}}}]
`

const writingHandler = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: record}
spec: {builtin: log, retry: {backoff: 1ms, attempts: 2}, access: {write: [{resource: v1/configmaps, verbs: [patch]}]}}
---
`

// has reports whether that many events were delivered.
func (h *teller) has(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.told) >= n
}

// patches counts the patches of ConfigMaps, and refuses them.
func (l *life) patches() *atomic.Int32 {
	n := new(atomic.Int32)
	l.server.Fail(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodPatch {
			return nil
		}
		n.Add(1)
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}
	})
	return n
}

// A rule that changes the cluster waits until the sources that it looks into have been read.
// Otherwise it would find nothing, and a nil in a merge patch removes a field.
func TestActingRuleWaitsForMissingSource(t *testing.T) {
	t.Parallel()
	looks := strings.TrimPrefix(lookupSources, oneHandler)
	for name, c := range map[string]struct {
		manifests string
		begin     func(*apistub.Server)
		reason    string
		end       func(*apistub.Server)
		told      []string
	}{
		"actions, forbidden": {lookupSources + labels,
			func(s *apistub.Server) {
				s.Serve(nodes, "Node", false)
				putNode(s, "1", "north")
				s.Forbid(nodes, true)
			},
			"waits for what it looks into: nodes is forbidden", func(s *apistub.Server) { s.Forbid(nodes, false) }, nil},
		"actions, not served": {lookupSources + labels, func(*apistub.Server) {}, "waits for what it looks into: nodes is not served",
			func(s *apistub.Server) { s.Serve(nodes, "Node", false); putNode(s, "1", "north") }, nil},
		"a handler that writes": {writingHandler + looks + aRule("zones", zones),
			func(s *apistub.Server) {
				s.Serve(nodes, "Node", false)
				putNode(s, "1", "north")
				s.Forbid(nodes, true)
			},
			"waits for what it looks into: nodes is forbidden", func(s *apistub.Server) { s.Forbid(nodes, false) },
			[]string{`zones synced a [null,"1","north"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			c.begin(l.server)
			l.put("a", "1")
			patches := l.patches()
			for range 2 { // a restart changes nothing
				told, held := l.attempt(c.manifests, new(teller), patience, func(e *Engine, told []string) bool {
					s := e.Status().Rules[0]
					return len(told) > 0 || patches.Load() > 0 || s.Reason == c.reason && s.State == admin.RuleWaiting
				})
				if l.expect(told); !held {
					t.Error("the rule does not wait")
				}
			}
			h := new(teller)
			e, stop := l.start(c.manifests, h)
			l.holds("the rule waits", func() bool { return e.Status().Rules[0].Reason == c.reason })
			x, err := e.Explain("zones", delta.Key{Namespace: "shop", Name: "a"}, nil)
			if err != nil || !strings.Contains(x.Reason, c.reason) || !strings.Contains(x.Answer, c.reason) {
				t.Errorf("explain says %q, %q, %v", x.Reason, x.Answer, err)
			}
			time.Sleep(50 * time.Millisecond)
			if n := patches.Load(); n > 0 {
				t.Errorf("%d patches while the rule waits", n)
			}
			c.end(l.server)
			l.holds("the rule goes on", func() bool {
				return e.Status().Rules[0].Reason == "" && (patches.Load() > 0 || h.has(1))
			})
			l.expect(stop(), c.told...)
		})
	}
}

// Deliveries from before a restart also wait for the sources that the rule looks into.
func TestActingRuleWithWaitingDeliveryWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.put("a", "1")
	manifests := strings.Replace(writingHandler, "attempts: 2", "attempts: 0", 1) + strings.Replace(strings.TrimPrefix(lookupSources, oneHandler), "keep: needed, ", "", 1) +
		aRule("zones", `, attach: {node: 'lookup("nodes.byName", object.data.size)'}`)
	refuse := &teller{answer: func(handler.Event) error { return handler.RetryAfter(time.Millisecond, nil) }}
	l.run(manifests, refuse, n(1))
	l.server.Forbid(nodes, true)
	told, _ := l.attempt(manifests, new(teller), patience, func(e *Engine, told []string) bool {
		s := e.Status().Rules[0]
		return len(told) > 0 || s.Reason == "waits for what it looks into: nodes is forbidden" && e.Status().Sources[0].Ready
	})
	l.expect(told)
	l.server.Forbid(nodes, false)
	l.run(manifests, new(teller), n(1))
}

// A reload makes a rule that acts wait, too.
func TestReloadedActingRuleWaits(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	patches := l.patches()
	e, stop := l.start(lookupSources+aRule("all", ""), new(teller))
	l.holds("it runs", func() bool { return e.Status().Sources[0].Ready })
	if _, err := l.reload(e, lookupSources+labels, new(teller)); err != nil {
		t.Fatal(err)
	}
	l.holds("the rule waits", func() bool {
		return e.Status().Rules[0].Reason == "waits for what it looks into: nodes is not served"
	})
	if n := patches.Load(); n > 0 {
		t.Errorf("%d patches while the rule waits", n)
	}
	l.server.Serve(nodes, "Node", false)
	l.holds("the rule goes on", func() bool { return patches.Load() > 0 })
	stop()
}
