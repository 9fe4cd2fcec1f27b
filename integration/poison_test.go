package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An object at which a handler crashes is set aside after three crashes; all others are delivered meanwhile, by the
// handler's next processes.
func TestPoisonousObject(t *testing.T) {
	poison, poisoned := widgetName(7), []string{"exits", "faults"}
	var manifests strings.Builder
	for _, vice := range poisoned {
		manifests.WriteString(toldBy(vice, "command: [./player, victim, "+vice+", ./poison], retry: {backoff: 10ms, maxBackoff: 100ms}") +
			ruleFor(vice, "source: widgets, handler: "+vice))
	}
	s := setStage(t, manifests.String())
	s.awaitRunning("exits", "faults", "steady")
	s.awaitDelivered()
	if got := s.metric(`informd_handler_failures{handler="exits"}`); got != "0" {
		t.Errorf("before any crash the failures are %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "poison"), []byte(poison), 0o600); err != nil {
		t.Fatal(err)
	}
	s.play(400)
	counted := func(series string) bool { n, err := strconv.Atoi(s.metric(series)); return err == nil && n > 0 }
	for _, vice := range poisoned {
		s.poll("failures of "+vice, func() bool { return counted(fmt.Sprintf("informd_handler_failures{handler=%q}", vice)) })
		s.poll("a dead letter of "+vice, func() bool {
			return counted(fmt.Sprintf(`informd_handler_deliveries_total{handler=%q,result="dead",rule=%q}`, vice, vice))
		})
	}
	if err := os.Remove(filepath.Join(s.dir, "poison")); err != nil {
		t.Fatal(err)
	}
	s.rest()
	s.awaitDelivered()
	code, letters, stderr := runCommand(t, s.informd, "dead", "list", "--state-dir", s.state)
	if code != 0 {
		t.Fatal(stderr)
	}
	lines := strings.Split(strings.TrimSpace(letters), "\n")[1:] // more than two if the object changed again
	for _, vice := range poisoned {
		if !strings.Contains(letters, "\n"+vice+"/") {
			t.Errorf("nothing is set aside for %s:\n%s", vice, letters)
		}
		if n := s.restarts(vice); n < 3 {
			t.Errorf("%s was started %d times again", vice, n)
		}
	}
	for _, line := range lines {
		if !strings.Contains(line, "/"+poison+" ") || !strings.Contains(line, "three crashes") {
			t.Errorf("set aside: %s", line)
		}
	}
	if got := s.metric(`informd_handler_failures{handler="steady"}`); got != "0" {
		t.Errorf("steady's failures are %q", got)
	}
	s.wantSteady()
	t.Logf("\n%s", letters)
	s.stop()
}
