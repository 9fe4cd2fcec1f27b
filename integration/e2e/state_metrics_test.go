package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// TestMetricsOfManifests follows metrics that manifests define through changes, a reload, a bound that
// is reached, and a kill.
func TestMetricsOfManifests(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(ofSource, ofRule string) {
		t.Helper()
		text := harness.Source("maps", harness.ConfigMaps+", keep: needed, metrics: ["+ofSource+"]") +
			harness.Rule("large", "source: maps, where: int(object.data.size) > 4, metrics: ["+ofRule+"]")
		if err := os.WriteFile(file, []byte(k.Text(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		bySize  = "{name: maps, labels: {size: object.data.size, app: object.metadata.labels.app}}"
		large   = "{name: large, value: object.data.size | int()}"
		changes = "{name: changes_total, type: counter, labels: {event: event}}"
	)
	first := k.Create(harness.ConfigMap("first", "{size: '1'}"))
	second := k.Create(harness.ConfigMap("second", "{size: '5'}"))
	write(bySize, large+", "+changes)
	d := state.Run(file)
	shows := func(want map[string]string) {
		t.Helper()
		for series, value := range want {
			d.Poll(series+" to be "+value, func() bool { return d.Metric(series) == value })
		}
	}
	shows(map[string]string{
		`maps{app="",size="1"}`: "1", `maps{app="",size="5"}`: "1", "large": "5",
		`changes_total{event="synced"}`: "1", `informd_metric_series{metric="maps"}`: "2",
	})
	k.Patch(first, "data: {size: '7'}\nmetadata: {labels: {app: shop}}")
	k.Create(harness.ConfigMap("third", "{size: '6'}"))
	shows(map[string]string{
		`maps{app="",size="1"}`: "", `maps{app="shop",size="7"}`: "1", "large": "18",
		`changes_total{event="added"}`: "2",
	})
	k.Delete(second)
	shows(map[string]string{
		`maps{app="",size="5"}`: "", "large": "13", `changes_total{event="deleted"}`: "1",
	})

	write(strings.Replace(bySize, "{name: maps", "{series: 1, name: maps", 1), changes+", "+large)
	if out := state.Command("plan"); !strings.Contains(out, "metric maps begins anew\n") || strings.Contains(out, "metric large") {
		t.Errorf("informd plan:\n%s", out)
	}
	if out := state.Command("reload"); !strings.Contains(out, "metric maps changed\n") {
		t.Errorf("informd reload:\n%s", out)
	}
	shows(map[string]string{
		`informd_metric_series{metric="maps"}`: "1", `informd_metric_series_limit{metric="maps"}`: "1",
		`informd_metric_series_dropped_total{metric="maps"}`: "1",
		"large": "13", `changes_total{event="deleted"}`: "1",
	})
	d.AwaitLog("a metric has as many series as it may")
	if out := state.Command("status"); !strings.Contains(out, "metric maps has 1 series, as many as it may: 1 more are not shown") {
		t.Errorf("informd status:\n%s", out)
	}

	d.Kill()
	k.Create(harness.ConfigMap("fourth", "{size: '8'}"))
	d = state.Run(file)
	shows(map[string]string{
		"large": "21", `changes_total{event="added"}`: "1", `changes_total{event="deleted"}`: "",
	})
}
