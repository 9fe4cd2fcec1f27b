package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/bench/fleet"
)

// The manifests are valid and have as many rules as the table says. TestRun shows that rules select
// what the benchmark expects.
func TestManifests(t *testing.T) {
	ten, _ := alike(10)
	thousand, _ := alike(1000)
	for _, test := range []struct {
		name      string
		rules     []rule
		keep      string
		informers int
	}{
		{"typical", typical, "whole", 3},
		{"typical, needed", typical[:5], "needed", 3},
		{"about pods", about(pods, typical), "whole", 1},
		{"ten alike", ten, "whole", 1},
		{"a thousand alike", thousand, "whole", 1},
	} {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(path, []byte(manifests(test.rules, test.keep)), 0o600); err != nil {
			t.Fatal(err)
		}
		compiled, err := compile(path)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if len(compiled.Rules) != len(test.rules) || len(compiled.Informers) != test.informers {
			t.Errorf("%s: %d rules and %d informers", test.name, len(compiled.Rules), len(compiled.Informers))
		}
		indexes := 0
		for _, s := range compiled.Sources {
			indexes += len(s.Indexes)
		}
		if indexes != 2 {
			t.Errorf("%s: %d indexes", test.name, indexes)
		}
	}
}

// Each update is selected by as many of the rules as the tables say: of the alike ones by exactly
// so many, of the typical ones by a few now and then, and each that can is about some.
func TestRulesSelect(t *testing.T) {
	for _, n := range []int{1, 10, 100, 1000} {
		rules, matching := alike(n)
		if want := min(n, 5); len(rules) != n || matching != want {
			t.Errorf("%d rules, of which %d match", len(rules), matching)
		}
		for k := range 1000 {
			i, updates := apistub.Turn(500, k)
			if got := selected(rules)(change{resource: pods, i: i, updates: updates}); got != matching {
				t.Fatalf("%d rules: update %d is selected by %d", n, k, got)
			}
		}
	}
	by := map[string]int{}
	for _, resource := range []string{pods, deployments, configmaps} {
		for k := range 40_000 {
			i, updates := apistub.Turn(5000, k)
			for _, r := range typical {
				by[r.name] += selected([]rule{r})(change{resource: resource, i: i, updates: updates})
			}
		}
	}
	for _, r := range typical {
		if never := r.name == "moved" || r.name == "settings"; never != (by[r.name] == 0) || by[r.name] > 20_000 {
			t.Errorf("%s selects %d of 40,000", r.name, by[r.name])
		}
	}
	if fleet.Apps < 200 || fleet.Teams < 20 {
		t.Errorf("%d applications of %d teams are too few for the rules", fleet.Apps, fleet.Teams)
	}
}
