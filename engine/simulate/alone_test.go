package simulate

import (
	"strings"
	"testing"
	"time"
)

const hourly = "kind: Rule, metadata: {name: r}, spec: {handler: h, schedule: {cron: '@hourly'}}"

func TestRuleWithoutASource(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("all", ""), hourly)
	b.expect(0)
	b.put("a", "1")
	b.expect(2*time.Hour, "all added a", "r synced r after 1h0m0s", "r synced r after 2h0m0s")
	b.Disconnect()
	b.expect(time.Hour, "r synced r after 1h0m0s")
	b.must(b.Relist(true))
	b.expect(0)
}

// What a restart, a takeover and a clock do to a rule without a source.
func TestRuleWithoutASourceAndRestarts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		restart Restart
		want    []string // at once, and within the next hour
	}{
		{"at once", Restart{}, []string{"r synced r after 30m0s"}},
		{"with several moments missed", Restart{Down: 3 * time.Hour}, []string{"r synced r", "r synced r after 30m0s"}},
		{"in another process without the state", Restart{Down: 3 * time.Hour, Resumption: Resumption{StateLost: true}}, []string{"r synced r after 30m0s"}},
		{"with the clock set back", Restart{Resumption: Resumption{ClockSet: -time.Hour}}, nil},
		{"with the clock set forward", Restart{Resumption: Resumption{ClockSet: 24 * time.Hour}}, []string{"r synced r", "r synced r after 30m0s"}},
		{"with its history lost", Restart{Resumption: Resumption{HistoryLost: true}}, []string{"r synced r after 30m0s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, hourly)
			b.expect(90*time.Minute, "r synced r after 1h0m0s")
			b.must(b.Restart(test.restart))
			b.expect(59*time.Minute, test.want...)
		})
	}
}

func TestIDsOfARuleWithoutASource(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 { // replicas
		b := simulation(t, Options{}, recorder, hourly)
		b.must(b.Advance(time.Hour))
		for _, ev := range b.Events() {
			ids = append(ids, ev.Event.ID)
		}
	}
	if got, want := strings.Join(ids, " "), "r/r/synced/1/1767229200 r/r/synced/1/1767229200"; got != want {
		t.Errorf("the ids are %s, want %s", got, want)
	}
}
