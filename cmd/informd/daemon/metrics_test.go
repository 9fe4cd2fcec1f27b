package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
)

// What was counted for rules and handlers that are gone is forgotten, and nothing else.
func TestSeriesOfWhatIsGone(t *testing.T) {
	t.Parallel()
	load := func(text string) *plan.Plan {
		t.Helper()
		path := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, compiled, err := manifests.Load([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	before := load(reloadable1)
	rule, handler := before.Rules[0].Name, before.Handlers[0].Name
	for _, c := range []struct {
		name    string
		now     *plan.Plan
		isThere bool
	}{
		{"stays", before, true},
		{"gone", load("apiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: pods}\nspec: {resource: v1/pods}\n---\n" +
			"apiVersion: informd.dev/v1alpha1\nkind: Handler\nmetadata: {name: other}\nspec: {builtin: log}\n---\n" +
			"apiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: other}\nspec: {source: pods, handler: other}\n"), false},
	} {
		m := newMetrics("test")
		for _, name := range []string{rule, "other"} {
			to := map[string]string{rule: handler}[name]
			if to == "" {
				to = "other"
			}
			m.delivered(dispatch.Attempt{Rule: name, Handler: to, Result: dispatch.Done})
			m.acted(action.Done{By: action.By{Rule: name, Handler: to}, Verb: "apply"})
		}
		now := &current{metrics: m}
		now.plan.Store(c.now)
		now.forget(before)
		for name, isThere := range map[string]bool{rule: c.isThere, handler: c.isThere, "other": true} {
			if n := series(t, m.registry, name); (n > 0) != isThere {
				t.Errorf("%s: %d series of %s", c.name, n, name)
			}
		}
	}
}

// series returns how many series of informd's have a label with the value.
func series(t *testing.T, from prometheus.Gatherer, value string) (n int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(f.GetName(), "informd_") && l.GetValue() == value {
					n++
				}
			}
		}
	}
	return n
}
