package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Changes that come while a rule waits are kept for it, however often informd ends meanwhile. No
// rule receives anything twice.
func TestRestartWhileARuleWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	for i, name := range []string{"a", "b", "c", "d"} {
		l.put(name, fmt.Sprint(1+i%2))
	}
	rules := lookupSources + aRule("zones", zones) + aRule("all", "")
	l.run(rules, new(teller), n(8))
	l.breakNodes(true)
	l.put("a", "2")
	l.delete("b")
	l.delete("d")
	l.put("d", "1") // another object
	l.put("e", "1")
	all := []string{
		"all updated a 1→2", "all deleted b →2", "all deleted d →2", "all added d →1", "all added e →1",
	}
	l.expect(l.until(rules, new(teller), len(all), waits), all...)
	l.expect(l.until(rules, new(teller), 0, waits))
	l.put("c", "2")
	l.put("e", "2")
	l.expect(l.until(rules, new(teller), 2, waits), "all updated c 1→2", "all updated e 1→2")
	l.breakNodes(false)
	l.expect(l.run(rules, new(teller), n(6)),
		`zones updated a ["1","2","south"]`, `zones deleted b [null,"2","south"]`, `zones updated c ["1","2","south"]`,
		`zones deleted d [null,"2","south"]`, `zones added d [null,"1","north"]`, `zones added e [null,"2","south"]`)
	l.expect(l.run(rules, new(teller), n(0)))
}

// of returns the events of one rule.
func of(rule string, told []string) []string {
	return slices.DeleteFunc(slices.Clone(told), func(s string) bool { return !strings.HasPrefix(s, rule+" ") })
}

// A rule that waits learns the outcome of all changes of an object, with the object's last state.
func TestChangesWhileARuleWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.put("a", "1")
	l.put("b", "1")
	l.put("c", "1")
	rules := lookupSources + aRule("zones", zones) + aRule("all", "")
	l.run(rules, new(teller), n(6))
	l.breakNodes(true)
	h := new(teller)
	e, stop := l.start(rules, h)
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			h.mu.Lock()
			told := len(h.told)
			h.mu.Unlock()
			if told >= n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d told, want %d; %+v", told, n, e.Status())
			}
		}
	}
	for i, change := range []func(){
		// each change is delivered where no rule waits
		func() { l.put("a", "2") }, func() { l.put("a", "1") },
		func() { l.put("b", "2") }, func() { l.delete("b") },
		func() { l.put("x", "1") }, func() { l.delete("x") },
		func() { l.put("y", "2") },
	} {
		change()
		await(i + 1)
	}
	l.breakNodes(false)
	await(7 + 3)
	l.put("c", "2")
	await(7 + 3 + 2)
	l.expect(of("zones", stop()),
		`zones updated a ["1","1","north"]`, `zones deleted b [null,"2","south"]`, `zones added y [null,"2","south"]`,
		`zones updated c ["1","2","south"]`)
	l.expect(l.run(rules, new(teller), n(0)))
}

// A rule that is new, or has another where, waits before it learns what follows from that.
func TestNewRuleWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.put("a", "1")
	l.put("b", "2")
	before := lookupSources + aRule("all", "") + aRule("zones", zones+`, where: object.data.size == "1"`)
	l.run(before, new(teller), n(3))
	l.breakNodes(true)
	after := lookupSources + aRule("all", "") + aRule("zones", zones+`, where: object.data.size == "2"`) +
		aRule("new", strings.Replace(zones, "[", `['"new"', `, 1))
	l.put("c", "2")
	l.expect(l.until(after, new(teller), 1, waits), "all added c →2")
	l.expect(l.until(after, new(teller), 0, waits))
	l.breakNodes(false)
	told := l.run(after, new(teller), func(_ *Engine, told []string) bool { return len(of("zones", told)) >= 3 && len(of("new", told)) >= 3 })
	l.expect(slices.Sorted(slices.Values(append(of("zones", told), of("new", told)...))),
		`zones deleted a [null,"1","north"]`, `zones synced b [null,"2","south"]`, `zones added c [null,"2","south"]`,
		`new synced a ["new",null,"1","north"]`, `new synced b ["new",null,"2","south"]`, `new synced c ["new",null,"2","south"]`)
	l.put("a", "2")
	told = l.run(after, new(teller), n(3))
	if diff := cmp.Diff([]string{
		"all updated a 1→2", `new updated a ["new","1","2","south"]`, `zones added a [null,"2","south"]`,
	}, told); diff != "" {
		t.Error(diff)
	}
}

// Of secrets only the identity was saved.
func TestRuleOnSecretsWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	put := func(name, size string) {
		l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size))
	}
	put("a", "1")
	put("b", "2")
	put("c", "2")
	sources := strings.Replace(lookupSources, "v1/configmaps", "v1/secrets", 1)
	rules := sources + aRule("zones", `, payload: [object.data.size, '`+zone+`']`) + aRule("twos", `, where: object.data.size == "2", payload: '`+zone+`'`)
	l.run(rules, new(teller), n(5))
	l.breakNodes(true)
	put("a", "2")
	l.server.Delete(secrets, "shop", "b")
	put("d", "1")
	put("c", "1")
	for range 2 {
		l.expect(l.until(rules, new(teller), 0, waits))
	}
	l.breakNodes(false)
	l.expect(l.run(rules, new(teller), n(7)),
		`zones synced a ["2","south"]`, `zones deleted b [null,null]`, `zones synced c ["1","north"]`, `zones added d ["1","north"]`,
		`twos synced a "south"`, `twos deleted b null`, `twos deleted c null`)
}

// Only a part of each object was saved, because the rules read more now.
func TestRuleThatReadsMoreWaits(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	for _, name := range []string{"a", "b", "c"} {
		l.put(name, "1")
	}
	sources := strings.Replace(lookupSources, "v1/configmaps,", "v1/configmaps, keep: needed,", 1)
	l.run(sources+aRule("zones", zones), new(teller), n(3))
	l.breakNodes(true)
	l.put("a", "2")
	l.delete("b")
	rules := sources + aRule("zones", zones) + aRule("kinds", `, payload: object.kind`)
	l.expect(l.until(rules, new(teller), 2, waits), `kinds synced a "ConfigMap"`, `kinds synced c "ConfigMap"`)
	l.expect(l.until(rules, new(teller), 0, waits))
	l.breakNodes(false)
	l.expect(l.run(rules, new(teller), n(2)), `zones synced a [null,"2","south"]`, `zones deleted b [null,"1","north"]`)
	l.put("c", "2")
	l.expect(l.run(rules, new(teller), n(2)), `zones updated c ["1","2","south"]`, `kinds updated c "ConfigMap"`)
}

// The sources that a new rule looks into may have settled while of its own objects only the saved
// parts are there. The rule receives whole objects.
func TestNewRuleGetsNoPartialObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ resource, keep string }{
		"secrets":              {"v1/secrets", ""},
		"more is kept of them": {"v1/configmaps", ", keep: needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLooking(t)
			for _, of := range []schema.GroupVersionResource{secrets, configMaps} {
				l.server.Apply(of, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1","color":"red"}}`)
				l.server.Apply(of, `{"metadata":{"namespace":"shop","name":"b"},"data":{"size":"2","color":"red"}}`)
			}
			sources := strings.Replace(lookupSources, "v1/configmaps", c.resource+c.keep, 1)
			before := sources + aRule("all", `, payload: object.data.size`)
			after := before + aRule("zones", `, where: object.data.color == "red", payload: ['`+zone+`', object.data.color]`)
			l.run(before, new(teller), n(2))
			_, path, _ := strings.Cut(c.resource, "/")
			l.server.Fail(func(r *http.Request) *metav1.Status {
				if !strings.Contains(r.URL.Path, path) {
					return nil
				}
				return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
			})
			h := new(teller)
			e, stop := l.start(after, h)
			for deadline := time.Now().Add(patience); e.rule("zones").IsHeld(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the rule waits for ever")
				}
			}
			l.server.Fail(nil)
			l.quiet(e)
			l.expect(of("zones", stop()), `zones synced a ["north","red"]`, `zones synced b ["south","red"]`)
		})
	}
}
