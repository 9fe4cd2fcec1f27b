package daemon

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
)

// What was counted for rules and handlers that are gone is forgotten, and nothing else.
func TestSeriesOfWhatIsGone(t *testing.T) {
	t.Parallel()
	load := func(text string) *plan.Plan { return planOf(t, text) }
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
		m := newMetrics("test", true)
		for _, name := range []string{rule, "other"} {
			to := map[string]string{rule: handler}[name]
			if to == "" {
				to = "other"
			}
			m.delivered(dispatch.Attempt{Rule: name, Handler: to, Result: dispatch.Done})
			m.acted(action.Done{By: action.By{Rule: name, Handler: to}, Verb: "apply"})
		}
		now := &current{metrics: m}
		now.running.Store(&running{plan: c.now})
		now.forget(before)
		for name, isThere := range map[string]bool{rule: c.isThere, handler: c.isThere, "other": true} {
			if n := series(t, m.registry, name); (n > 0) != isThere {
				t.Errorf("%s: %d series of %s", c.name, n, name)
			}
		}
	}
}

const measurable = `apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: oncall}
spec: {command: [./oncall], access: {write: [{resource: v1/pods, verbs: [patch]}]}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: told}
spec: {source: pods, handler: oncall}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: copies}
spec:
  source: pods
  actions:
  - apply: {resource: v1/configmaps, object: {metadata: {name: a}}}
  prune: true
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: counts}
spec: {source: pods, metrics: [{name: pods_total, type: counter}]}
`

// planOf compiles manifests.
func planOf(t *testing.T, text string) *plan.Plan {
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

// Each series that can come is there at 0 from the beginning: Prometheus sees no growth in one that
// begins with its first count. What cannot come is not there.
func TestSeriesBeginAtZero(t *testing.T) {
	t.Parallel()
	for _, byRule := range []bool{true, false} {
		m := newMetrics("test", byRule)
		m.begin(planOf(t, measurable))
		of := func(rule string) string {
			if byRule {
				return rule
			}
			return ""
		}
		want := map[string]bool{}
		for handler, rule := range map[string]string{"oncall": of("told"), "(actions)": of("copies")} {
			results := "done idle retry reject dead cancelled"
			if handler == "oncall" {
				results = "done retry lost reject dead cancelled"
			}
			for _, result := range strings.Fields(results) {
				want[fmt.Sprintf("informd_handler_deliveries_total %s %s %s", handler, result, rule)] = true
			}
			want["informd_handler_attempt_seconds "+handler] = true
			want["informd_handler_delivery_latency_seconds "+handler] = true
		}
		for verbOf, results := range map[string]string{
			"(actions) %s " + of("copies") + " apply":  "done unchanged created gone conflict rejected failed",
			"(actions) %s " + of("copies") + " delete": "done unchanged gone conflict rejected failed",
			"oncall %s " + of("told") + " patch":       "done unchanged gone conflict denied rejected failed",
		} {
			for _, result := range strings.Fields(results) {
				want["informd_actions_total "+fmt.Sprintf(verbOf, result)] = true
			}
		}
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "informd_") || f.GetName() == "informd_build_info" {
				continue
			}
			for _, one := range f.GetMetric() {
				name := f.GetName()
				for _, l := range one.GetLabel() { // sorted by name
					name += " " + l.GetValue()
				}
				got[name] = true
				if one.GetCounter().GetValue() != 0 || one.GetHistogram().GetSampleCount() != 0 {
					t.Errorf("%s does not begin at 0", name)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by rule: %v: %s", byRule, diff)
		}
		m.delivered(dispatch.Attempt{Rule: "told", Handler: "oncall", Result: dispatch.Rejected})
		m.acted(action.Done{By: action.By{Rule: "copies"}, Verb: "apply", Result: action.Created})
		if n := allSeries(t, m); n != len(want) {
			t.Errorf("by rule: %v: counting has made %d series of %d", byRule, n, len(want))
		}
	}
}

// allSeries returns how many series of informd there are, without the build's.
func allSeries(t *testing.T, m *metrics) (n int) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "informd_") && f.GetName() != "informd_build_info" {
			n += len(f.GetMetric())
		}
	}
	return n
}

// The first certificate counts: the others are those of its authorities.
func TestCertificateEnds(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, t.TempDir(), "ca")
	ends := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	cert, key := ca.IssueAs(t, "one", func(c *x509.Certificate) { c.NotAfter = ends }, "localhost")
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	chain := slices.Concat(read(key), read(cert), read(ca.File))
	for why, c := range map[string]struct {
		text []byte
		file string
		want time.Time
	}{
		"a chain behind its key": {chain, "", ends},
		"a file":                 {nil, cert, ends},
		"the text goes first":    {read(cert), key, ends},
		"no file":                {nil, cert + "x", time.Time{}},
		"no certificate":         {read(key), "", time.Time{}},
		"nothing":                {nil, "", time.Time{}},
	} {
		if at, ok := certificateEnds(c.text, c.file); !at.Equal(c.want) || ok != !c.want.IsZero() {
			t.Errorf("%s: %v, %v, want %v", why, at, ok, c.want)
		}
	}
}

// The reference lists each metric, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	inTable := regexp.MustCompile("(?m)^\\| `(informd_[a-z_]+)` \\|")
	var listed, made []string
	for _, m := range inTable.FindAllSubmatch(page, -1) {
		listed = append(listed, string(m[1]))
	}
	inCode := regexp.MustCompile(`"(informd_[a-z_]+)"`)
	for _, file := range []string{"metrics.go", "manifestmetrics.go", "rights.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inCode.FindAllSubmatch(text, -1) {
			made = append(made, string(m[1]))
		}
	}
	slices.Sort(listed)
	slices.Sort(made)
	if diff := cmp.Diff(made, listed); diff != "" {
		t.Errorf("docs/reference/metrics.md differs from the code: %s", diff)
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
