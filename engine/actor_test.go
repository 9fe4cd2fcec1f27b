package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
)

// An answer recorded before a restart belongs to the rules of that time. Actions that the rules no
// longer contain are not performed.
func TestRecordedAnswerOfAnEarlierRule(t *testing.T) {
	t.Parallel()
	e, _, _ := idle(t, mapSource+`---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: acts}
spec: {source: maps, prune: true, actions: [{apply: {resource: v1/secrets, object: {metadata: {name: a, namespace: b}}}}, {delete: {}}]}
`+aRule("tells", ""))
	actor := e.parts.Acting.ForRules()
	for why, c := range map[string]struct {
		rule   string
		action handler.Action
		may    bool
	}{
		"what it applies":      {"acts", handler.Action{Verb: "apply", Resource: handler.Resource(secrets), Object: []byte("{}")}, true},
		"the source's objects": {"acts", handler.Action{Verb: "delete", Resource: handler.Resource(configMaps)}, true},
		"its prune":            {"acts", action.Prune(secrets, "a=b"), true},
		"another resource":     {"acts", handler.Action{Verb: "delete", Resource: handler.Resource(secrets)}, false},
		"another verb":         {"acts", handler.Action{Verb: "patch", Resource: handler.Resource(configMaps), Patch: []byte("{}")}, false},
		"a status":             {"acts", handler.Action{Verb: "apply", Resource: handler.Resource(secrets), Subresource: "status", Object: []byte("{}")}, false},
		"another's prune":      {"acts", action.Prune(configMaps, "a=b"), false},
		"it tells a handler":   {"tells", handler.Action{Verb: "delete", Resource: handler.Resource(configMaps)}, false},
		"an unknown rule":      {"none", handler.Action{Verb: "delete", Resource: handler.Resource(configMaps)}, false},
	} {
		c.action.Namespace, c.action.Name = "b", "a"
		if err := actor.Check(&handler.Event{Rule: c.rule}, []handler.Action{c.action}); (err == nil) != c.may || err != nil && !errors.Is(err, handler.ErrReject) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// After a reload a handler may do what its manifest says. During the reload it may do what either
// manifest says. A failed reload changes nothing.
func TestAllow(t *testing.T) {
	t.Parallel()
	e, _, _ := idle(t, mapSource+aRule("tells", "")) // handler "to" may change nothing
	for _, c := range []struct {
		name          string
		before, after []string // verbs
		under, then   []string
		fails         bool
	}{
		{name: "wider", before: []string{"patch"}, after: []string{"patch", "delete"}, under: []string{"patch", "delete"}, then: []string{"patch", "delete"}},
		{name: "narrower", before: []string{"patch", "delete"}, after: []string{"delete"}, under: []string{"patch", "delete"}, then: []string{"delete"}},
		{name: "nothing any more", before: []string{"patch"}, under: []string{"patch"}},
		{name: "failed", before: []string{"patch"}, after: []string{"delete"}, under: []string{"patch", "delete"}, then: []string{"patch"}, fails: true},
		{name: "there was nothing", after: []string{"patch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			actor := e.parts.Acting.ForHandler(writing(c.before))
			may := func() (verbs []string) {
				for _, one := range []handler.Action{
					{Verb: "patch", Resource: handler.Resource(configMaps), Namespace: "b", Name: "a", Patch: []byte("{}")},
					{Verb: "delete", Resource: handler.Resource(configMaps), Namespace: "b", Name: "a"},
				} {
					if actor.Check(&handler.Event{Rule: "tells"}, []handler.Action{one}) == nil {
						verbs = append(verbs, one.Verb)
					}
				}
				return verbs
			}
			done := e.Allow(writing(c.after))
			if got := may(); !slices.Equal(got, c.under) {
				t.Errorf("during the reload the handler may %q, want %q", got, c.under)
			}
			done(!c.fails)
			if got := may(); !slices.Equal(got, c.then) {
				t.Errorf("after the reload the handler may %q, want %q", got, c.then)
			}
		})
	}
}

// writing is a handler that may use the given verbs on ConfigMaps.
func writing(verbs []string) config.Handler {
	h := config.Handler{Name: "to"}
	if verbs != nil {
		h.Write = []config.Grant{{Resource: configMaps, Verbs: verbs}}
	}
	return h
}

// What a handler may read after a reload decides what may be kept of its answers, even if the
// reload fails.
func TestAllowSeesSecrets(t *testing.T) {
	t.Parallel()
	e, _, _ := idle(t, mapSource+`---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: hidden}
spec: {resource: v1/secrets}
`+aRule("tells", ""))
	h := config.Handler{Name: "record", Read: []config.Text{config.NewText("maps")}}
	e.Allow(h)(true)
	if e.rule("tells").Preparer.IsConfidential() {
		t.Error("a handler that sees no secret is taken for one that does")
	}
	h.Read = append(h.Read, config.NewText("hidden"))
	e.Allow(h)(false)
	if !e.rule("tells").Preparer.IsConfidential() {
		t.Error("answers of a handler that reads secrets would be kept")
	}
}

// A handler may see Secrets if it reads them, or if the events of one of its rules hold their text.
// That does not end with a reload: its process may remember. A handler that is gone counts as one
// that may have seen them.
func TestSeesSecrets(t *testing.T) {
	t.Parallel()
	const hidden = `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: hidden}
spec: {resource: v1/secrets, indexes: {all: "'yes'"}}
`
	for _, test := range []struct {
		name, manifests string
		want            bool
	}{
		{"another source", mapSource + hidden + aRule("tells", ""), false},
		{"one of two rules", mapSource + hidden + aRule("tells", "") +
			aRule("looks", `, payload: {n: 'len(lookup("hidden.all", "yes"))'}`), true},
		{"its source", secretSource + aRule("tells", ""), true},
	} {
		e, _, _ := idle(t, test.manifests)
		h := e.work().Dispatchers[0].Handler
		if e.SeesSecrets(h) != test.want {
			t.Errorf("%s: want %v", test.name, test.want)
		}
		if !e.SeesSecrets(newRecorder()) {
			t.Errorf("%s: a handler that is gone is taken for one that has seen no Secret", test.name)
		}
	}
	e, _, _ := idle(t, mapSource+hidden+aRule("tells", ""))
	h := e.work().Dispatchers[0].Handler
	e.Allow(config.Handler{Name: "record", Read: []config.Text{config.NewText("hidden")}})(false)
	e.Allow(config.Handler{Name: "record"})(true)
	if !e.SeesSecrets(h) {
		t.Error("a handler that could read Secrets for a moment is taken for one that never could")
	}
}

// A reload that changes a rule keeps its handler and what that may read, which a reload of the
// handler alone has changed before, or meanwhile.
func TestReloadKeepsConfidential(t *testing.T) {
	t.Parallel()
	manifests := mapSource + `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: hidden}
spec: {resource: v1/secrets, indexes: {all: "'yes'"}}
`
	const before, meanwhile, withNone = "before", "meanwhile", "with none"
	for _, when := range []string{before, meanwhile, withNone} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			e, _, _ := idle(t, manifests+aRule("tells", ""))
			h := e.work().Dispatchers[0].Handler
			c, _ := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests + aRule("tells", ", resync: 1h"))}})
			p, mistakes := plan.Compile(c)
			if len(mistakes) > 0 {
				t.Fatal(mistakes)
			}
			allow := func() { e.Allow(config.Handler{Name: "record", Read: []config.Text{config.NewText("hidden")}})(true) }
			if when == before {
				allow()
			}
			next, err := e.parts.Build(p, map[string]live.Handler{"record": h}, e.work())
			if err != nil {
				t.Fatal(err)
			}
			if when == meanwhile {
				allow()
			}
			is := next.Rule("tells")
			if is == e.rule("tells") {
				t.Fatal("the rule has not changed")
			}
			if got, want := is.Preparer.IsConfidential(), when != withNone; got != want {
				t.Errorf("the rule is confidential: %v, want %v", got, want)
			}
		})
	}
}

// What a rule changes itself is neither a match nor counted by its metrics, however early the watch
// event comes. The trail has it as its own.
func TestOwnChangesAreNotCounted(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	version := func(size string) string {
		o := l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a"},"data":{"size":%q}}`, size))
		return o.GetResourceVersion()
	}
	at := version("1")
	l.writes = holdWrites()
	e, stop := l.startWith(sourceWith(bySize)+`---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: acts}
spec: {source: maps, actions: [{delete: {}, if: 'false'}], metrics: [{name: acts_total, type: counter}]}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: simply}
spec: {source: maps, actions: [{delete: {}, if: 'false'}]}
`, &teller{})
	defer stop()
	matches := func(n, own uint64) {
		t.Helper()
		for _, name := range []string{"acts", "simply"} {
			l.holds(fmt.Sprintf("rule %s has %d matches and made %d changes", name, n, own), func() bool {
				r := e.Status().Rules[slices.IndexFunc(e.Status().Rules, func(r admin.RuleStatus) bool { return r.Name == name })]
				return r.Matches == n && r.Own == own
			})
		}
		l.measures(e, "by_size{"+fmt.Sprint(n+own)+"}=1", fmt.Sprintf("acts_total{}=%d", n))
	}
	matches(1, 0)
	var ends []func(to string)
	for _, rule := range []string{"acts", "simply"} {
		ends = append(ends, l.writes.begin(t, e, rule, at))
	}
	at = version("2")
	l.measures(e, "by_size{2}=1", "acts_total{}=1") // it has come, and nobody knows who made it
	for _, end := range ends {
		end(at)
	}
	matches(1, 1)
	version("3")
	matches(2, 1)
	l.holds("the trail of simply has all", func() bool {
		var verdicts []string
		happened, _, _, _ := e.Happenings("simply", 0)
		for _, h := range happened {
			verdicts = append(verdicts, h.Verdict.String())
		}
		return fmt.Sprint(verdicts) == "[selected idle own selected idle]"
	})
}
