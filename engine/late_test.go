package engine

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rule is new, or has another where, and has not yet received the resulting events. Meanwhile
// informd may end and the server may lose its history. The rules next to it still learn of the end
// of everything that they have seen.
func TestLateRuleDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule string
		told []string // in the end
	}{
		"another where":                        {`, where: object.data.size != "1"`, []string{"late deleted a →1", "late synced b →2", "late deleted c →3"}},
		"another where that no object matches": {`, where: object.data.size == "9"`, []string{"late deleted a →1"}},
		"new":                                  {"", []string{"new synced a →1", "new synced b →2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.server.Serve(nodes, "Node", false)
			l.put("a", "1")
			l.put("b", "2")
			before := mapSource + aRule("all", "") + aRule("late", `, where: object.data.size == "1"`)
			after := strings.Replace(before, `, where: object.data.size == "1"`, c.rule, 1)
			if c.rule == "" {
				after = before + aRule("new", "")
			}
			l.expect(l.run(before, new(teller), n(3)), "all synced a →1", "all synced b →2", "late synced a →1")
			l.put("c", "3")
			// until a bookmark comes, the server may have more events of maps
			putNode(l.server, "1", "north")
			told, _ := l.attempt(after, new(teller), patience, n(1))
			l.expect(told, "all added c →3")
			l.server.Expire()
			l.delete("c")
			want := append(c.told, "all deleted c →3")
			// c's arrival may come, or be merged with its end
			lasting := func(told []string) []string {
				return slices.DeleteFunc(slices.Clone(told), func(s string) bool { return s == "late added c →3" })
			}
			told = l.run(after, new(teller), func(_ *Engine, told []string) bool { return len(lasting(told)) >= len(want) })
			l.expect(lasting(told), want...)
			l.expect(l.run(after, new(teller), n(0)))
		})
	}
}

// Only the identities of secrets were saved. So such a rule learns nothing until all secrets are
// known again.
func TestLateRuleOnSecretsDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Serve(nodes, "Node", false)
	for name, size := range map[string]string{"a": "1", "d": "1", "e": "1", "f": "2"} {
		l.secret(name, size)
	}
	rules := func(late string) string {
		return secretSource + aRule("all", "") + aRule("twos", `, where: object.data.size == "2"`) + aRule("late", `, where: object.data.size == "`+late+`"`)
	}
	l.run(rules("1"), new(teller), n(4+1+3))
	l.secret("c", "3")
	l.secret("d", "2")
	l.server.Delete(secrets, "shop", "e")
	// until a bookmark comes, the server may have more events of secrets
	putNode(l.server, "1", "north")
	told, _ := l.attempt(rules("2"), new(teller), patience, n(4))
	l.expect(told, "all added c →3", "all synced d →2", "all deleted e →", "twos synced d →2")
	l.server.Expire()
	l.server.Delete(secrets, "shop", "c")
	l.server.Delete(secrets, "shop", "d")
	told = l.run(rules("2"), new(teller), func(_ *Engine, told []string) bool {
		return len(of("late", told)) >= 4 && len(of("twos", told)) > 0 && slices.Contains(told, "all deleted c →") && slices.Contains(told, "all deleted d →")
	})
	l.expect(of("late", told), "late deleted a →", "late deleted d →", "late deleted e →", "late synced f →2")
	l.expect(of("twos", told), "twos deleted d →")
	// perhaps once more
	told = slices.DeleteFunc(of("all", told), func(s string) bool { return s == "all deleted e →" })
	l.expect(told, "all deleted c →", "all deleted d →")
	l.expect(l.run(rules("2"), new(teller), n(0)))
}

// A Secret that such a rule has not seen looks like one that was created meanwhile.
func TestALateRuleHearsOfASecretCreatedMeanwhileAsSynced(t *testing.T) {
	l := newLife(t)
	rules := func(size string) string {
		return secretSource + aRule("r", `, where: object.data.size == "`+size+`"`)
	}
	l.secret("a", "1")
	l.run(rules("1"), new(teller), n(1))
	l.secret("b", "2")
	l.expect(l.run(rules("2"), new(teller), n(2)), "r deleted a →", "r synced b →2")
}

// The status of such a rule says what it waits for.
func TestChangedRuleWaitsForItsSource(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.run(mapSource+aRule("r", ""), new(teller), n(1))
	l.server.Fail(func(r *http.Request) *metav1.Status {
		if !strings.Contains(r.URL.Path, "/configmaps") {
			return nil
		}
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
	})
	after := mapSource + aRule("r", `, where: object.data.size == "2"`)
	told, held := l.attempt(after, new(teller), patience, func(e *Engine, _ []string) bool {
		return e.Status().Rules[0].Reason == "waits for its own source: its where has changed"
	})
	if !held {
		t.Error("no reason is given")
	}
	l.expect(told)
	l.server.Fail(nil)
	l.expect(l.run(after, new(teller), n(1)), "r deleted a →1")
	l.expect(l.run(after, new(teller), func(e *Engine, _ []string) bool { return e.Status().Rules[0].Reason == "" }))
}
