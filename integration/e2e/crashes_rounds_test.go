package e2e

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// script returns the rounds of a plan in a random order.
func (c *crashing) script(plan crashPlan) (acts []func()) {
	var kills []string
	for _, what := range []string{ofDaemon, ofHandler, ofBoth, ofNothing} {
		for range plan.kills[what] {
			kills = append(kills, what)
		}
	}
	c.random.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	restarts := make([]bool, len(kills))
	for i := range min(plan.restarts, len(kills)) {
		restarts[i] = true
	}
	c.random.Shuffle(len(kills), func(i, j int) { restarts[i], restarts[j] = restarts[j], restarts[i] })
	for i, what := range kills {
		acts = append(acts, func() { c.round(what, restarts[i]) })
	}
	return acts
}

// round lets the daemon run for a while, kills something, and waits a while before it starts it
// again.
func (c *crashing) round(what string, restart bool) {
	c.t.Helper()
	if c.t.Failed() {
		return
	}
	if c.random.IntN(4) > 0 { // else perhaps while it starts
		c.awaitReady()
		if !c.lost.IsZero() && c.random.IntN(8) > 0 {
			c.catchUp()
			if c.random.IntN(8) > 0 {
				time.Sleep(harness.Unwritten) // then nothing of it is lost any more
			}
		}
	}
	c.pause(3 * time.Second)
	if what == ofHandler {
		c.killHandler()
		if restart {
			c.restart()
		}
		return
	}
	if what == ofBoth {
		c.killHandler()
		c.pause(300 * time.Millisecond)
	}
	if what == ofNothing {
		c.awaitReady()
		from := time.Now()
		c.daemon.Stop() // this must not repeat any event
		c.down(from)
	} else {
		c.killDaemon()
	}
	c.pause(2 * time.Second)
	if restart {
		c.restart()
	}
	c.start()
}

// pause is a random time.
func (c *crashing) pause(most time.Duration) { time.Sleep(time.Duration(c.random.Int64N(int64(most)))) }

func (c *crashing) killDaemon() {
	c.t.Helper()
	handlers := harness.Descendants(c.daemon.Cmd.Process.Pid)
	from := time.Now()
	if err := c.daemon.Cmd.Process.Kill(); err != nil {
		c.t.Fatalf("the daemon has ended by itself: %v", err)
	}
	<-c.daemon.Ended
	c.awaitGone(handlers)
	c.trial.Crashes = append(c.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
	c.down(from)
}

// down records that the daemon has ended. The disk has everything but the last moment before.
func (c *crashing) down(at time.Time) {
	c.t.Helper()
	for _, bad := range []string{"DATA RACE", "panic:"} {
		if strings.Contains(c.daemon.Logged(), bad) {
			c.t.Errorf("%q is in the log of run %d", bad, c.run)
		}
	}
	if !c.ready.IsZero() && at.Sub(c.ready) > harness.Unwritten && c.lost.IsZero() {
		c.sure = at.Add(-harness.Unwritten)
	}
	if !c.caught.IsZero() && at.Sub(c.caught) > harness.Unwritten {
		c.close(c.caught)
		c.sure = at.Add(-harness.Unwritten)
	}
	c.caught = time.Time{}
}

// killHandler waits for the handler and kills it. Pauses between its starts grow until the daemon
// restarts.
func (c *crashing) killHandler() {
	c.t.Helper()
	var handlers []int
	c.daemon.Poll("a handler to kill", func() bool {
		handlers = harness.HandlersOf(c.daemon.Cmd.Process.Pid)
		return len(handlers) > 0
	})
	from := time.Now()
	for _, pid := range handlers {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
	c.awaitGone(handlers)
	c.trial.Crashes = append(c.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
}

func (c *crashing) awaitGone(pids []int) {
	c.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(time.Millisecond) {
		isAlive := func(pid int) bool { return !harness.HasEnded(pid) }
		if !slices.ContainsFunc(pids, isAlive) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("handlers live on: %v", pids)
		}
	}
}

// restart restarts the API server, which loses its history. Half of the time it crashes.
func (c *crashing) restart() {
	c.t.Helper()
	if c.lost.IsZero() {
		c.lost = c.sure
		if up := c.ready; !up.IsZero() && time.Since(up) > harness.Unwritten && c.daemonIsUp() {
			c.lost = time.Now().Add(-harness.Unwritten)
		}
	}
	c.caught = time.Time{}
	if c.random.IntN(2) == 0 {
		c.cluster.Kill()
	}
	if err := c.cluster.Restart(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crashing) daemonIsUp() bool {
	select {
	case <-c.daemon.Ended:
		return false
	default:
		return true
	}
}

// catchUp writes an object of each kind and waits until the daemon has delivered it.
func (c *crashing) catchUp() {
	c.t.Helper()
	for _, p := range c.probes {
		p.team = "red"
		if p.present {
			c.author.update(c.t.Context(), p, c.random)
		} else {
			c.author.create(c.t.Context(), p, c.random)
		}
	}
	c.daemon.Poll("the probes to be told of", c.probesTold)
	c.caught = time.Now()
}

// probesTold reports whether each rule with every has delivered the probes in their current state,
// if they are of its team.
func (c *crashing) probesTold() bool {
	c.recorded.read(c.t)
	for _, p := range c.probes {
		states := p.lives[len(p.lives)-1].States
		now := states[len(states)-1]
		for _, rule := range c.rules {
			if rule.Resource == p.key.Resource && (rule.Team == "" || rule.Team == now.Team) && c.recorded.newest[rule.Name][p.key] < now.Version {
				return false
			}
		}
	}
	return true
}

// close ends the time in which changes may be lost with the server's history.
func (c *crashing) close(at time.Time) {
	if !c.lost.IsZero() {
		c.trial.Lost = append(c.trial.Lost, ledger.Window{From: c.lost, To: at})
		c.lost = time.Time{}
	}
}
