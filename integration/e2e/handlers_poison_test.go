package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// After three crashes at one object, informd sets the object's event aside. The handler's next
// processes get all other events meanwhile.
func TestPoisonousObject(t *testing.T) {
	t.Parallel()
	poison, poisoned := harness.WidgetName(7), []string{"exits", "faults"}
	var manifests strings.Builder
	for _, vice := range poisoned {
		manifests.WriteString(harness.Handler(vice, "command: [./player, victim, "+vice+", ./poison], retry: {backoff: 10ms, maxBackoff: 100ms}") +
			harness.Rule(vice, "source: widgets, handler: "+vice))
	}
	s := harness.SetStage(t, manifests.String())
	s.AwaitRunning("exits", "faults", "steady")
	s.AwaitDelivered()
	if got := s.Metric(`informd_handler_failures{handler="exits"}`); got != "0" {
		t.Errorf("before any crash the failures are %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "poison"), []byte(poison), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Play(400)
	counted := func(series string) bool { n, err := strconv.Atoi(s.Metric(series)); return err == nil && n > 0 }
	for _, vice := range poisoned {
		s.Poll("failures of "+vice, func() bool { return counted(fmt.Sprintf("informd_handler_failures{handler=%q}", vice)) })
		s.Poll("a dead letter of "+vice, func() bool {
			return counted(fmt.Sprintf(`informd_handler_deliveries_total{handler=%q,result="dead",rule=%q}`, vice, vice))
		})
	}
	if err := os.Remove(filepath.Join(s.Dir, "poison")); err != nil {
		t.Fatal(err)
	}
	s.Rest()
	s.AwaitDelivered()
	code, letters, stderr := harness.RunCommand(t, harness.Binary, "dead", "list", "--state-dir", s.State)
	if code != 0 {
		t.Fatal(stderr)
	}
	lines := strings.Split(strings.TrimSpace(letters), "\n")[1:] // more than two if the object changed again
	for _, vice := range poisoned {
		if !strings.Contains(letters, "\n"+vice+"/") {
			t.Errorf("nothing is set aside for %s:\n%s", vice, letters)
		}
		if n := s.Restarts(vice); n < 3 {
			t.Errorf("%s was started %d times again", vice, n)
		}
	}
	for _, line := range lines {
		if !strings.Contains(line, "/"+poison+" ") || !strings.Contains(line, "crashed three times") {
			t.Errorf("set aside: %s", line)
		}
	}
	if got := s.Metric(`informd_handler_failures{handler="steady"}`); got != "0" {
		t.Errorf("steady's failures are %q", got)
	}
	s.WantSteady()
	t.Logf("\n%s", letters)
	s.Stop()
}
