package main

import (
	"testing"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/bench/fleet"
)

// The manifests are valid and have as many rules as the table says. TestRun shows that rules select
// what the benchmark expects.
func TestManifests(t *testing.T) {
	ten, _ := alike(10)
	thousand, _ := alike(1000)
	tenThousand, _ := alike(10_000)
	overlaps, _ := overlapping(1000)
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
		{"ten thousand alike", tenThousand, "whole", 1},
		{"a thousand that overlap", overlaps, "whole", 1},
	} {
		paths, err := writeManifests(t.TempDir(), test.rules, test.keep)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := compile(paths)
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
	check := func(name string, n, updates int, some func(n int) ([]rule, int)) {
		rules, matching := some(n)
		if want := min(n, 5); len(rules) != n || matching != want {
			t.Errorf("%s: %d rules, of which %d match", name, len(rules), matching)
		}
		for k := range updates {
			i, updates := apistub.Turn(500, k)
			if got := selected(rules)(change{resource: pods, i: i, updates: updates}); got != matching {
				t.Fatalf("%s: %d rules: update %d is selected by %d", name, n, k, got)
			}
		}
	}
	for _, n := range []int{1, 10, 100, 1000} {
		check("alike", n, 1000, alike)
	}
	check("alike", 10_000, 100, alike)
	for _, n := range []int{10, 1000} {
		check("overlapping", n, 1000, overlapping)
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
