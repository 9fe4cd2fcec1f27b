package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/ledger"
)

// What a crash may be of.
const (
	ofDaemon  = "daemon"
	ofHandler = "handler"
	ofBoth    = "both"
)

// crashPlan is how often what is killed.
type crashPlan struct {
	objects  int
	kills    map[string]int // by what; they come in a random order
	restarts int            // of the API server, which forgets its history
	pace     time.Duration  // between the writes of each of the eight writers
}

// Whatever is killed at whatever moment, and whether the API server has its history or not: nothing is lost, nothing
// comes in the wrong order, and nothing comes that was not so. `make soak` has many more crashes of each.
func TestCrashes(t *testing.T) {
	if soak() {
		t.Skip("make soak runs TestSoakCrashes, which is this and more")
	}
	crash(t, crashPlan{objects: 2000, kills: map[string]int{ofDaemon: 5, ofHandler: 1, ofBoth: 1}, restarts: 1, pace: 40 * time.Millisecond})
}

func TestSoakCrashes(t *testing.T) {
	needSoak(t)
	for what, plan := range map[string]crashPlan{
		"of the daemon":   {objects: 2000, kills: map[string]int{ofDaemon: 100}, restarts: 12, pace: 40 * time.Millisecond},
		"of handlers":     {objects: 2000, kills: map[string]int{ofHandler: 100}, restarts: 3, pace: 40 * time.Millisecond},
		"of all together": {objects: 2000, kills: map[string]int{ofDaemon: 20, ofHandler: 40, ofBoth: 40}, restarts: 8, pace: 40 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) { crash(t, plan) })
	}
}

// soak tells whether `make soak` runs.
func soak() bool { return os.Getenv("INFORMD_SOAK") != "" }

func needSoak(t *testing.T) {
	t.Helper()
	if !soak() {
		t.Skip("takes long; make soak runs it")
	}
}

// seed is what $INFORMD_SEED says, or another one each time.
func seed(t testing.TB) uint64 {
	t.Helper()
	n := rand.Uint64() >> 32
	if text := os.Getenv("INFORMD_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("INFORMD_SEED: %v", err)
		}
	}
	t.Logf("INFORMD_SEED=%d", n)
	return n
}

// unwritten is for how long what was acknowledged may be unknown to the disk: a second at most, as the documentation
// has it, and as much again as a busy machine may take to write it.
const unwritten = 2 * time.Second

// crashing is a daemon that records what an author writes, while this and that crashes.
type crashing struct {
	t        *testing.T
	random   *rand.Rand
	cluster  *cluster.Cluster
	author   *author
	recorded *recorded
	rules    []ledger.Rule
	probes   []*subject // one of each kind, which nobody else writes
	manifest string
	state    string
	daemon   *daemon
	run      int

	trial  ledger.Trial
	ready  time.Time // when this run of the daemon was; zero if it is not known to be
	sure   time.Time // up to when the disk is sure to know everything
	lost   time.Time // since when changes may be lost with the server's history; zero: they are not
	caught time.Time // when the daemon was seen to have caught up after that
}

func crash(t *testing.T, plan crashPlan) {
	seed := seed(t)
	c := startCrashing(t, seed, plan)
	c.author.run(seed)
	rounds := c.script(plan)
	for _, round := range rounds {
		round()
	}
	c.author.end()
	c.finish()
	c.check(plan, len(rounds))
}

func startCrashing(t *testing.T, seed uint64, plan crashPlan) *crashing {
	t.Helper()
	controlPlane := cluster.New(t)
	k := newKube(t, controlPlane)
	k.define("Widget")
	kinds := []kind{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"},
		{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount"},
		{schema.GroupVersionResource{Group: "informd.test", Version: "v1", Resource: "widgets"}, "Widget"},
	}
	c := &crashing{
		t: t, random: rand.New(rand.NewPCG(seed, 1<<32)), cluster: controlPlane, state: shortDir(t),
		author: newAuthor(t, k.objects, k.ns, kinds, plan.objects), recorded: newRecorded(filepath.Join(t.TempDir(), "ledger")),
	}
	c.trial.Caught = make(map[int]time.Time)
	c.author.pace = plan.pace
	c.author.begin(seed)
	c.writeRules(kinds)
	c.start()
	c.awaitReady()
	c.trial.Ready = time.Now()
	// From now on nothing is new to it, on disk either.
	c.daemon.awaitWritten()
	c.sure = time.Now()
	return c
}

// writeRules makes four rules of each kind: every and latest, with and without where.
func (c *crashing) writeRules(kinds []kind) {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(toldBy("record", fmt.Sprintf("command: [%q, %s, %q], concurrency: 16, env: [%s], retry: {backoff: 50ms, maxBackoff: 1s}",
		self, recorderCommand, c.recorded.path, runVariable)))
	for _, k := range kinds {
		c.probes = append(c.probes, newSubject(k, "probe"))
		text.WriteString(source(k.Resource, fmt.Sprintf("resource: %s, namespaces: [%s]", k.manifest(), c.author.ns)))
		for _, delivery := range []string{"every", "latest"} {
			for _, team := range []string{"", "red"} {
				rule := ledger.Rule{Name: strings.TrimSuffix(k.Resource+"-"+delivery+"-"+team, "-"), Resource: k.Resource, Every: delivery == "every", Team: team}
				spec := "source: " + k.Resource + ", handler: record, delivery: " + delivery
				if team != "" {
					spec += `, where: object.metadata.labels.team == "` + team + `"`
				}
				text.WriteString(ruleFor(rule.Name, spec))
				c.rules = append(c.rules, rule)
			}
		}
	}
	c.manifest = text.String()
}

// start starts the daemon where the last one ended.
func (c *crashing) start() {
	c.t.Helper()
	c.run++
	c.daemon = runInformdIn(c.t, []string{runVariable + "=" + strconv.Itoa(c.run)}, c.cluster.Kubeconfig(), c.manifest,
		"--state-dir", c.state, "--log-level", "info")
	c.ready = time.Time{}
}

func (c *crashing) awaitReady() {
	c.t.Helper()
	if c.ready.IsZero() {
		c.daemon.awaitReady()
		c.ready = time.Now()
		c.trial.Caught[c.run] = c.ready
	}
}

// script is what happens, in its order.
func (c *crashing) script(plan crashPlan) (acts []func()) {
	var kills []string
	for _, what := range []string{ofDaemon, ofHandler, ofBoth} {
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

// round lets the daemon run for a while, kills, and lets what is down be down for a while.
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
				time.Sleep(unwritten) // then nothing of it is lost any more
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
	c.killDaemon()
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
	handlers := children(c.daemon.cmd.Process.Pid)
	from := time.Now()
	if err := c.daemon.cmd.Process.Kill(); err != nil {
		c.t.Fatalf("the daemon has ended by itself: %v", err)
	}
	<-c.daemon.ended
	c.awaitGone(handlers)
	c.trial.Crashes = append(c.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
	for _, bad := range []string{"DATA RACE", "panic:"} {
		if log := c.daemon.logged(); strings.Contains(log, bad) {
			c.t.Errorf("%q is in the log of run %d", bad, c.run)
		}
	}

	if !c.ready.IsZero() && from.Sub(c.ready) > unwritten && c.lost.IsZero() {
		c.sure = from.Add(-unwritten)
	}
	if !c.caught.IsZero() && from.Sub(c.caught) > unwritten {
		c.close(c.caught)
		c.sure = from.Add(-unwritten)
	}
	c.caught = time.Time{}
}

func (c *crashing) killHandler() {
	c.t.Helper()
	handlers := children(c.daemon.cmd.Process.Pid)
	from := time.Now()
	for _, pid := range handlers {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone
	}
	c.awaitGone(handlers)
	c.trial.Crashes = append(c.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
}

func (c *crashing) awaitGone(pids []int) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		gone := true
		for _, pid := range pids {
			fields, err := processStat(pid)
			gone = gone && (err != nil || fields[0] == "Z")
		}
		if gone {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("handlers live on: %v", pids)
		}
	}
}

// restart has the API server forget its history. Half of the time it crashes.
func (c *crashing) restart() {
	c.t.Helper()
	if c.lost.IsZero() {
		c.lost = c.sure
		if up := c.ready; !up.IsZero() && time.Since(up) > unwritten && c.daemonIsUp() {
			c.lost = time.Now().Add(-unwritten)
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
	case <-c.daemon.ended:
		return false
	default:
		return true
	}
}

// catchUp waits until the daemon has told of what is written now, of each kind.
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
	c.daemon.poll("the probes to be told of", c.probesTold)
	c.caught = time.Now()
}

// probesTold tells whether each rule with every has told of the probes as they are; if they are of its team.
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

// close ends the time in which changes may be lost.
func (c *crashing) close(at time.Time) {
	if !c.lost.IsZero() {
		c.trial.Lost = append(c.trial.Lost, ledger.Window{From: c.lost, To: at})
		c.lost = time.Time{}
	}
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
		c.daemon.poll(series+" to be "+want, func() bool { return c.daemon.metric(series) == want })
	}
	c.recorded.read(c.t)
	c.daemon.stop()
	c.recorded.read(c.t)
}

// check compares the ledgers.
func (c *crashing) check(plan crashPlan, rounds int) {
	c.t.Helper()
	c.author.subjects = append(c.author.subjects, c.probes...)
	c.trial.History, c.trial.Rules, c.trial.Events, c.trial.Unwritten = c.author.history(), c.rules, c.recorded.events, unwritten
	report := ledger.Check(c.trial)
	told := make(map[ledger.Key]bool) // what follows from a mistake is of the same object
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
		"%d told again otherwise, the oldest told %v before the crash; %d changes only the lost history had, which was %.0f%% of the time; "+
		"%d deletions nobody could know; %d lines torn", report.Steps, report.Events, len(c.trial.Crashes), plan.restarts, report.Repeats, report.Retold,
		report.Oldest.Round(time.Millisecond), report.Missed, 100*c.lostTime(), report.Unknowable, c.recorded.torn)
	// What a crash may repeat is what was in flight at it, or told within the unwritten moment before it.
	if report.Repeats+report.Retold > c.exposed() {
		c.t.Errorf("%d repeats; only %d events were told so shortly before a crash", report.Repeats+report.Retold, c.exposed())
	}
	if len(c.trial.Crashes) < rounds {
		c.t.Errorf("%d crashes; want %d", len(c.trial.Crashes), rounds)
	}
}

// lostTime is the share of the time in which changes may have been lost with the server's history.
func (c *crashing) lostTime() float64 {
	var sum time.Duration
	for _, w := range c.trial.Lost {
		sum += w.To.Sub(w.From)
	}
	return sum.Seconds() / time.Since(c.trial.Ready).Seconds()
}

// exposed counts the events that were told within the unwritten moment before a crash.
func (c *crashing) exposed() (n int) {
	for _, crash := range c.trial.Crashes {
		for _, ev := range c.recorded.events {
			if age := crash.From.Sub(ev.At); age <= unwritten && !ev.At.After(crash.To) {
				n++
			}
		}
	}
	return n
}
