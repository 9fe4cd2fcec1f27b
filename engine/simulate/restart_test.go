package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What exists before the engine runs for the first time comes as synced.
func TestObjectsBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{Stopped: true}, sizes, recorder, ruleOf("all", ""))
	b.put("b", "1")
	b.put("a", "1")
	b.expect(time.Hour)
	b.must(b.Run(Resumption{}))
	b.expect(0, "all synced a", "all synced b")
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		resume Resumption
		want   []string
	}{
		{"the state and the history are kept", Resumption{}, []string{
			"all updated a", "all deleted b", "all added c", "all deleted c",
			"large added a",
		}},
		{"the history is lost", Resumption{HistoryLost: true}, []string{
			"all updated a", "large added a", "all deleted b",
		}},
		{"the state is lost", Resumption{StateLost: true}, []string{
			"all synced a", "all synced z", "large synced a",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, ruleOf("all", ", delivery: every"), ruleOf("large", `, where: object.data.size == "2"`))
			for _, name := range []string{"a", "b", "z"} {
				b.put(name, "1")
			}
			b.expect(0, "all added a", "all added b", "all added z")
			b.must(b.Stop())
			b.put("a", "2")
			b.must(b.Delete("maps", "shop", "b"))
			b.put("c", "1")
			b.must(b.Delete("maps", "shop", "c"))
			b.expect(time.Minute)
			b.must(b.Run(test.resume))
			b.expectAnyOrder(0, test.want...)
			b.must(b.Restart(Restart{Down: time.Second}))
			b.expect(0)
		})
	}
}

// What was not delivered when the engine stopped is delivered by the next.
func TestRestartWithDeliveriesWaiting(t *testing.T) {
	t.Parallel()
	calls := 0
	b := simulation(t, Options{Answer: func(Event) Answer {
		calls++
		if calls == 1 {
			return Answer{RetryAfter: time.Hour}
		}
		return Answer{}
	}}, sizes, recorder, ruleOf("all", ", delivery: every"))
	b.put("a", "1")
	b.expect(0, "all added a")
	b.put("a", "2")
	b.put("b", "1")
	b.must(b.Restart(Restart{Down: 59 * time.Minute}))
	b.expect(2*time.Minute, "all added b", "all added a #2 after 1m0s", "all updated a after 1m0s")
}

func TestRestartWithAnotherPlan(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", `, where: object.data.size == "1"`))
	for i := range 600 { // the state loads them in any order
		b.put(fmt.Sprintf("n%03d", i), "2")
	}
	b.put("a", "1")
	b.expect(0, "r added a")
	p := compile(b.t, sizes, recorder, ruleOf("r", `, where: object.data.size == "2" and object.metadata.name matches "^n00"`))
	b.must(b.Restart(Restart{Resumption: Resumption{Plan: p}}))
	var want []string
	want = append(want, "r deleted a")
	for i := range 10 {
		want = append(want, fmt.Sprintf("r synced n00%d", i))
	}
	b.expect(0, want...)
}

func TestRelist(t *testing.T) {
	t.Parallel()
	for _, historyLost := range []bool{false, true} {
		t.Run(fmt.Sprint("history lost: ", historyLost), func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, ruleOf("all", ", delivery: every"))
			b.put("a", "1")
			b.expect(0, "all added a")
			b.must(b.Relist(historyLost))
			b.expect(0)
			b.Disconnect()
			b.put("a", "2")
			b.put("a", "3")
			b.put("b", "1")
			b.must(b.Delete("maps", "shop", "b"))
			b.put("c", "1")
			b.expect(time.Hour)
			b.must(b.Relist(historyLost))
			if historyLost {
				b.expect(0, "all updated a", "all added c")
			} else {
				b.expect(0, "all updated a", "all added b", "all added c", "all updated a", "all deleted b")
			}
			b.put("a", "4")
			b.expect(0, "all updated a")
		})
	}
}

// A pod that is pending for five minutes is delivered once, whatever happens to informd meanwhile.
func TestForAndRestarts(t *testing.T) {
	t.Parallel()
	const where = `, where: object.data.size == "1", for: 5m`
	for _, test := range []struct {
		name    string
		restart Restart
		want    time.Duration // from the restart until the rule delivers the object
	}{
		{"at once", Restart{}, 2 * time.Minute},
		{"while it would have been told", Restart{Down: 10 * time.Minute}, 0},
		{"with its history lost", Restart{Down: time.Minute, Resumption: Resumption{HistoryLost: true}}, time.Minute},
		{"in another process without the state", Restart{Down: time.Minute, Resumption: Resumption{StateLost: true}}, 5 * time.Minute},
		{"with the clock set back", Restart{Down: time.Second, Resumption: Resumption{ClockSet: -time.Hour}}, 5 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, ruleOf("r", where))
			b.put("a", "1")
			b.expect(3 * time.Minute)
			b.must(b.Restart(test.restart))
			want := "r added a"
			if test.want > 0 {
				want += " after " + test.want.String()
			}
			b.expect(time.Hour, want)
			b.must(b.Restart(Restart{}))
			b.put("a", "2")
			b.expect(0, "r deleted a")
		})
	}
}

// A daemon that never runs for as long as an interval resyncs nevertheless, and a new schedule's
// first moment can be missed like any other.
func TestRoundsBeforeTheFirst(t *testing.T) {
	t.Parallel()
	restart := func(b *bench, down time.Duration) {
		b.t.Helper()
		b.must(b.Restart(Restart{Down: down}))
	}
	for name, rule := range map[string]string{
		"resync":   ", events: [synced], resync: 1h",
		"schedule": `, schedule: {cron: "0 * * * *"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, ruleOf("r", rule))
			b.put("a", "1")
			b.expect(50 * time.Minute)
			restart(b, 0)
			b.expect(9 * time.Minute)
			b.expect(2*time.Minute, "r synced a after 1m0s")
			restart(b, 58*time.Minute)
			b.expect(time.Minute, "r synced a after 1m0s")
		})
		t.Run(name+", missed", func(t *testing.T) {
			t.Parallel()
			b := simulation(t, Options{}, sizes, recorder, ruleOf("r", rule))
			b.put("a", "1")
			b.expect(50 * time.Minute)
			restart(b, 30*time.Minute)
			b.expect(0, "r synced a")
			restart(b, 30*time.Minute)
			b.expect(0)
		})
	}
	t.Run("changed schedule", func(t *testing.T) {
		t.Parallel()
		b := simulation(t, Options{}, sizes, recorder, ruleOf("r", `, schedule: {cron: "0 3 * * *"}`))
		b.put("a", "1")
		b.expect(50 * time.Minute)
		p := compile(t, sizes, recorder, ruleOf("r", `, schedule: {cron: "0 * * * *"}`))
		b.must(b.Restart(Restart{Down: time.Hour, Resumption: Resumption{Plan: p}}))
		b.expect(0) // the moments before are not its own
		restart(b, time.Hour)
		b.expect(0, "r synced a")
	})
	// A rule that is new beside one with the same interval does not make that one wait.
	t.Run("another rule's interval", func(t *testing.T) {
		t.Parallel()
		old := ruleOf("r", ", events: [synced], resync: 1h")
		b := simulation(t, Options{}, sizes, recorder, old)
		b.put("a", "1")
		b.expect(50 * time.Minute)
		p := compile(t, sizes, recorder, old, ruleOf("s", `, events: [synced], where: object.data.size == "2", resync: 1h`))
		b.must(b.Restart(Restart{Resumption: Resumption{Plan: p}}))
		restart(b, 0)
		b.expect(9 * time.Minute)
		b.expect(time.Minute, "r synced a after 1m0s")
	})
}

// While the API server cannot be reached, nobody knows whether an object still waits.
func TestForWhileDisconnected(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", `, where: object.data.size == "1", for: 5m`))
	b.put("a", "1")
	b.put("b", "1")
	b.expect(4 * time.Minute)
	b.Disconnect()
	b.put("b", "2")
	b.expect(time.Hour)
	b.must(b.Relist(false))
	b.expect(time.Minute, "r added a after 1s")
}

func TestStopWhileDisconnected(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", ", delivery: every"))
	b.put("a", "1")
	b.expect(0, "r added a")
	b.Disconnect()
	b.put("a", "2")
	b.must(b.Stop())
	b.put("a", "3")
	b.must(b.Run(Resumption{}))
	b.expect(0, "r updated a", "r updated a")
}

// An object that leaves a selection is deleted at its own resourceVersion, as a watch reports it, even
// if a recording has a higher one of another resource.
func TestLeavingASelectionAtALowerVersion(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, recorder, "kind: Source, metadata: {name: pods}, spec: {resource: v1/pods}",
		"kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps, labelSelector: app=web}", ruleOf("r", ""))
	object := func(version, app string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":%q,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":%q}}}`, version, app)
	}
	b.must(b.Apply("maps", object("7", "web")))
	b.must(b.Apply("pods", object("12", "web")))
	b.must(b.Advance(0))
	b.must(b.Apply("maps", object("11", "db")))
	b.must(b.Advance(0))
	all := b.Events()
	if len(all) != 2 || all[1].Event.ID != "r/u/deleted/11" {
		t.Errorf("events %+v", all)
	}
}

// Moments that fell into the time when the engine was stopped come in order, as in the daemon: the
// later rule sees an object once the earlier one is answered, and its moment is not the present.
func TestRestartAfterMissedMoments(t *testing.T) {
	t.Parallel()
	failed := false
	b := simulation(t, Options{
		Start: time.Date(2026, 1, 1, 17, 0, 0, 0, time.UTC),
		Answer: func(e Event) Answer {
			if e.Rule == "down" && !failed {
				failed = true
				return Answer{RetryAfter: 3 * time.Second}
			}
			return Answer{}
		},
	}, sizes, recorder,
		ruleOf("up", `, schedule: {cron: "0 7 * * *"}, payload: 'string(moment())'`),
		ruleOf("down", `, schedule: {cron: "0 19 * * *"}`),
		ruleOf("skips", `, schedule: {cron: "0 19 * * *", missed: skip}`))
	b.put("a", "1")
	b.expect(0)
	b.must(b.Restart(Restart{Down: 16 * time.Hour}))
	b.expect(2*time.Second, "down synced a")
	got := b.come(10 * time.Second)
	if len(got) != 2 || !strings.HasPrefix(got[0], "down synced a #2 after 1s") || !strings.HasPrefix(got[1], "up synced a") || !strings.Contains(got[1], "2026-01-02T07:00:00Z") {
		t.Errorf("events %q", got)
	}
	b.expect(10*time.Hour, "down synced a after 9h59m48s", "skips synced a after 9h59m48s")
}
