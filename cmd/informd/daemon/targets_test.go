package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/targets"
)

// The commands know the same states as the engine.
func TestTargetStates(t *testing.T) {
	t.Parallel()
	var states []string
	for _, s := range targets.States() {
		states = append(states, s.String())
	}
	if diff := cmp.Diff(states, control.TargetStates()); diff != "" {
		t.Errorf("-engine +commands\n%s", diff)
	}
}

// Targets are counted by rule and state, or for all rules together. A rule without actions has no
// series, and neither has a state that is not loaded.
func TestCountTargets(t *testing.T) {
	t.Parallel()
	acting := func(name string, done, waits int) admin.RuleStatus {
		states := map[string]int{"done": done, "waits": waits, "behind": 0}
		return admin.RuleStatus{Name: name, Targets: &explain.Targets{States: states}}
	}
	s := admin.Status{Rules: []admin.RuleStatus{acting("a", 3, 1), acting("b", 0, 2), {Name: "c"}}}
	for byRule, want := range map[bool]map[targetsIn]int{
		true: {
			{"a", "done"}: 3, {"a", "waits"}: 1, {"a", "behind"}: 0,
			{"b", "done"}: 0, {"b", "waits"}: 2, {"b", "behind"}: 0,
		},
		false: {{"", "done"}: 3, {"", "waits"}: 3, {"", "behind"}: 0},
	} {
		if diff := cmp.Diff(want, countTargets(s, byRule)); diff != "" {
			t.Errorf("by rule: %v (-want +got)\n%s", byRule, diff)
		}
	}
	s.IsLoading = true
	if counts := countTargets(s, true); len(counts) > 0 {
		t.Errorf("a state that is not loaded has %v", counts)
	}
}

const pruning = `apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: NAME}
spec:
  source: pods
  actions:
  - apply: {resource: v1/configmaps, object: {metadata: {namespace: a, name: "${object.metadata.name}"}}}
`

// A reload names the rules that no longer own what they applied, also those that are renamed.
func TestReleasedRules(t *testing.T) {
	t.Parallel()
	plain, owning := planOf(t, named(pruning, "a")), planOf(t, named(pruning, "a")+"  prune: true\n")
	renamed := planOf(t, named(pruning, "b")+"  formerly: a\n")
	for _, c := range []struct {
		before, now *plan.Plan
		want        []string
	}{
		{owning, plain, []string{"a"}}, {owning, renamed, []string{"b"}}, {owning, owning, nil},
		{plain, owning, nil}, {plain, renamed, nil}, {owning, planOf(t, named(pruning, "c")), nil},
	} {
		if got := released(c.before, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

func named(manifests, rule string) string { return strings.Replace(manifests, "NAME", rule, 1) }
