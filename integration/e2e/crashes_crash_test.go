package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// What a crash may hit.
const (
	ofDaemon  = "daemon"
	ofHandler = "handler"
	ofBoth    = "both"
	ofNothing = "nothing" // the daemon ends in order
)

// crashPlan says how often the test kills each kind of process.
type crashPlan struct {
	objects  int
	kills    map[string]int // by the kind of process; in a random order
	restarts int            // of the API server, which loses its history
	pace     time.Duration  // between the writes of each of the eight writers
}

// Whatever the test kills, and whenever, with or without the API server's history: no event is
// lost, out of order or untrue. `make soak` has many more crashes of each kind.
func TestCrashes(t *testing.T) {
	t.Parallel()
	if harness.Soak() {
		t.Skip("make soak runs TestSoakCrashes, which is this and more")
	}
	crash(t, crashPlan{objects: 600, kills: map[string]int{ofDaemon: 4, ofHandler: 1, ofBoth: 1, ofNothing: 1}, restarts: 1, pace: 80 * time.Millisecond})
}

func TestSoakCrashes(t *testing.T) {
	harness.NeedSoak(t)
	for what, plan := range map[string]crashPlan{
		"of the daemon":   {objects: 2000, kills: map[string]int{ofDaemon: 100}, restarts: 12, pace: 40 * time.Millisecond},
		"of handlers":     {objects: 2000, kills: map[string]int{ofHandler: 100, ofNothing: 50}, restarts: 5, pace: 40 * time.Millisecond},
		"of all together": {objects: 2000, kills: map[string]int{ofDaemon: 20, ofHandler: 40, ofBoth: 60, ofNothing: 20}, restarts: 8, pace: 40 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) { crash(t, plan) })
	}
}

func crash(t *testing.T, plan crashPlan) {
	t.Helper()
	seed, stalls := harness.Seed(t), harness.Stalls(t)
	c := startCrashing(t, seed, plan)
	c.author.run(seed)
	for _, round := range c.script(plan) {
		round()
	}
	c.author.end()
	c.finish()
	c.trial.Unwritten = harness.Unwritten + stalls()
	c.check(plan)
}

// finish waits until everything is delivered.
func (c *crashing) finish() {
	c.t.Helper()
	c.awaitReady()
	c.catchUp()
	c.close(time.Now())
	wants := map[string]string{`informd_handler_in_flight{handler="record"}`: "0", "informd_dead_letters": "0"}
	for _, rule := range c.rules {
		for _, of := range []string{"depth", "delayed", "away"} {
			wants[fmt.Sprintf("informd_rule_queue_%s{rule=%q}", of, rule.Name)] = "0"
		}
		wants[fmt.Sprintf("informd_source_pending{source=%q}", rule.Resource)] = "0"
	}
	for series, want := range wants {
		c.daemon.Poll(series+" to be "+want, func() bool { return c.daemon.Metric(series) == want })
	}
	c.recorded.read(c.t)
	c.daemon.Stop()
	c.recorded.read(c.t)
}

// check compares the ledgers.
func (c *crashing) check(plan crashPlan) {
	c.t.Helper()
	c.author.subjects = append(c.author.subjects, c.probes...)
	c.trial.History, c.trial.Rules, c.trial.Events = c.author.history(), c.rules, c.recorded.events
	report := ledger.Check(c.trial)
	told := make(map[ledger.Key]bool) // later problems of an object follow from its first
	for _, p := range report.Problems {
		if !told[p.Key] && len(told) < 6 {
			told[p.Key] = true
			c.t.Error(c.trial.Explain(p))
		}
	}
	if n := len(report.Problems); n > 0 {
		c.t.Errorf("%d problems in all", n)
	}
	c.t.Logf("%d changes as the rules see them, %d events, %d crashes, %d restarts of the API server: %d repeats with their id, "+
		"%d told again otherwise, the oldest told %v before the crash, of %v that are allowed; %d changes only the lost history had, which was %.0f%% of the time; "+
		"%d lines torn", report.Steps, report.Events, len(c.trial.Crashes), plan.restarts, report.Repeats, report.Retold,
		report.Oldest.Round(time.Millisecond), c.trial.Unwritten.Round(time.Millisecond), report.Missed, 100*c.lostTime(), c.recorded.torn)
	// A crash may repeat what was in flight, or acknowledged within the unwritten moment before it.
	if report.Repeats+report.Retold > c.exposed() {
		c.t.Errorf("%d repeats; only %d events were told so shortly before a crash", report.Repeats+report.Retold, c.exposed())
	}
}

// lostTime returns the share of the time in which changes may be lost with the server's history.
func (c *crashing) lostTime() float64 {
	var sum time.Duration
	for _, w := range c.trial.Lost {
		sum += w.To.Sub(w.From)
	}
	return sum.Seconds() / time.Since(c.trial.Ready).Seconds()
}

// exposed counts the events delivered within the unwritten moment before a crash.
func (c *crashing) exposed() (n int) {
	for _, crash := range c.trial.Crashes {
		for _, ev := range c.recorded.events {
			if age := crash.From.Sub(ev.At); age <= c.trial.Unwritten && !ev.At.After(crash.To) {
				n++
			}
		}
	}
	return n
}
