package simulate

import (
	"strings"
	"testing"
	"time"
)

func TestResyncOnRequest(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder,
		ruleOf("large", `, where: object.data.size == "2", when: 'event == "synced" or object.metadata.name != "quiet"'`),
		ruleOf("late", `, where: object.data.size == "2", for: 5m`),
		ruleOf("updates", `, events: [updated]`),
		`kind: Rule, metadata: {name: nightly}, spec: {handler: h, schedule: {cron: "0 0 * * *"}}`)
	b.put("a", "2")
	b.put("quiet", "2")
	b.put("small", "1")
	b.expect(time.Minute, "large added a")

	resync := func(rule string, want int) {
		t.Helper()
		n, err := b.Resync(rule)
		if b.must(err); n != want {
			t.Errorf("rule %s selected %d objects, want %d", rule, n, want)
		}
	}
	resync("large", 2)
	b.expect(0, "large synced a", "large synced quiet")
	resync("late", 0) // its objects wait
	b.expectAnyOrder(4*time.Minute, "late added a after 4m0s", "late added quiet after 4m0s")
	resync("late", 2)
	b.expect(0, "late synced a", "late synced quiet")
	resync("nightly", 1)
	b.expect(0, "nightly synced nightly")

	// Each round has events of its own.
	ids := make(map[string]bool)
	for range 2 {
		resync("large", 2)
		b.must(b.Advance(0))
		for _, e := range b.Events() {
			ids[e.Event.ID] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("two rounds of two objects have %d ids", len(ids))
	}
	for rule, want := range map[string]string{"updates": "add synced to its events", "nobody": "not found"} {
		if _, err := b.Resync(rule); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resync of %s: %v, want %s", rule, err, want)
		}
	}
	b.must(b.Stop())
	b.must(b.Run(Resumption{}))
	b.expect(time.Hour)
}
