package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// replicated are three informds with one state. Their handlers record what an author writes, while
// the test does harm to them.
type replicated struct {
	t        *testing.T
	random   *rand.Rand
	cluster  *cluster.Cluster
	author   *author
	recorded *recorded
	rules    []ledger.Rule
	manifest string
	certs    string
	network  links // nil: replicas connect without links
	replicas []*replicaUnderTest
	names    map[int]string // of the replicas, by start
	starts   map[string]int // the latest, by name
	mayEnd   bool           // replicas may end by themselves now, and are started again
	ended    int            // how often they did
	trial    ledger.Trial
	ready    []time.Time   // when a replica led and was ready, after the start and after each fault
	wrote    time.Duration // how long the author wrote
}

// replicaUnderTest is one of the replicas.
type replicaUnderTest struct {
	name, dir  string
	address    string // on which it listens for the others
	kubeconfig string
	daemon     *harness.Daemon // nil if it does not run
	isStopped  bool            // by SIGSTOP
	disk       *disk           // the one of dir; nil: the machine's
}

// workload is what an author does.
type workload struct {
	objects int
	pace    time.Duration // between the writes of each of its writers
}

// startReplicated starts three informds, of which one leads. If disks is not nil, it makes a disk
// for each of them, and links are between them.
func startReplicated(
	t *testing.T, seed uint64, work workload, disks func(testing.TB) *disk) *replicated {
	t.Helper()
	r := newLoaded(t, seed, work, disks)
	r.startAll()
	if disks != nil {
		r.awaitLeader()
		r.connect() // a cluster begins only if all have the same addresses for each other
	}
	r.awaitAll()
	r.trial.Ready = time.Now()
	r.ready = []time.Time{r.trial.Ready}
	return r
}

// newLoaded returns three informds that do not run yet, with an author and rules.
func newLoaded(
	t *testing.T, seed uint64, work workload, disks func(testing.TB) *disk) *replicated {
	t.Helper()
	r := newReplicated(t, cluster.New(t), seed, disks)
	k := harness.NewKube(t, r.cluster)
	kinds := []kind{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"},
		{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount"},
	}
	r.author = newAuthor(t, k.Objects, k.Ns, kinds, work.objects)
	r.recorded = newRecorded(filepath.Join(t.TempDir(), "ledger"))
	r.author.pace = work.pace
	r.author.begin(seed)
	r.writeRules(kinds)
	return r
}

// newReplicated returns three informds that do not run yet, without an author.
func newReplicated(
	t *testing.T, c *cluster.Cluster, seed uint64, disks func(testing.TB) *disk) *replicated {
	t.Helper()
	r := &replicated{
		t: t, random: rand.New(rand.NewPCG(seed, 1<<33)), cluster: c, certs: harness.ShortDir(t),
		names: make(map[int]string), starts: make(map[string]int),
	}
	if code, _, stderr := harness.Informd(t, "certs", r.certs, "--names", "a,b,c"); code != 0 {
		t.Fatalf("informd certs: %s", stderr)
	}
	for _, name := range []string{"a", "b", "c"} {
		one := &replicaUnderTest{
			name: name, address: harness.FreeAddress(t), kubeconfig: c.Kubeconfig(),
		}
		if disks == nil {
			one.dir = harness.ShortDir(t)
		} else {
			one.disk = disks(t)
			one.dir = filepath.Join(one.disk.dir, "state")
		}
		r.replicas = append(r.replicas, one)
	}
	return r
}

func (r *replicated) startAll() {
	for _, one := range r.replicas {
		if one.daemon == nil {
			r.start(one)
		}
	}
}

// writeRules makes four rules for each kind: every and latest, with and without where.
func (r *replicated) writeRules(kinds []kind) {
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(harness.Handler("record", fmt.Sprintf(
		"command: [%q, %s, %q], concurrency: 16, env: [%s], retry: {backoff: 50ms, maxBackoff: 1s}",
		self, recorderCommand, r.recorded.path, runVariable)))
	for _, k := range kinds {
		text.WriteString(harness.Source(k.Resource,
			fmt.Sprintf("resource: %s, namespaces: [%s]", k.manifest(), r.author.ns)))
		for _, delivery := range []string{"every", "latest"} {
			for _, team := range []string{"", "red"} {
				rule := ledger.Rule{
					Name:     strings.TrimSuffix(k.Resource+"-"+delivery+"-"+team, "-"),
					Resource: k.Resource, Every: delivery == "every", Team: team,
				}
				spec := "source: " + k.Resource + ", handler: record, delivery: " + delivery
				if team != "" {
					spec += `, where: object.metadata.labels.team == "` + team + `"`
				}
				text.WriteString(harness.Rule(rule.Name, spec))
				r.rules = append(r.rules, rule)
			}
		}
	}
	r.manifest = text.String()
}

// start starts the process of a replica.
func (r *replicated) start(one *replicaUnderTest) {
	r.t.Helper()
	var peers []string
	for _, other := range r.replicas {
		address := other.address
		if l := r.network[[2]string{one.name, other.name}]; l != nil {
			address = l.address()
		}
		peers = append(peers, other.name+"="+address)
	}
	r.startWith(one, "--name", one.name, "--peers", strings.Join(peers, ","), "--peer-tls", r.certs)
}

// startWith starts the process of a replica with flags.
func (r *replicated) startWith(one *replicaUnderTest, flags ...string) {
	r.t.Helper()
	number := len(r.names) + 1
	r.names[number], r.starts[one.name] = one.name, number
	one.daemon = harness.RunInformdIn(r.t, []string{runVariable + "=" + strconv.Itoa(number)},
		one.kubeconfig, r.manifest, append(flags, "--state-dir", one.dir, "--log-level", "info")...)
}

// kill kills the process of a replica, and waits until its handlers are gone.
func (r *replicated) kill(one *replicaUnderTest) {
	r.t.Helper()
	if one.daemon == nil || hasEnded(one.daemon) {
		return
	}
	pids := harness.Descendants(one.daemon.Cmd.Process.Pid)
	_ = one.daemon.Cmd.Process.Kill() // it may have ended just now
	if one.disk != nil {
		one.disk.thaw() // the kernel ends no process while its disk hangs
	}
	<-one.daemon.Ended
	r.examine(one)
	one.daemon, one.isStopped = nil, false
	r.poll("its handlers to be gone", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return !harness.HasEnded(pid) })
	})
}

// examine looks for what no log may have, when a process has ended.
func (r *replicated) examine(one *replicaUnderTest) {
	r.t.Helper()
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if log := one.daemon.Logged(); strings.Contains(log, bad) {
			r.t.Errorf("%q is in the log of replica %s:\n%s", bad, one.name, log)
		}
	}
}

func hasEnded(d *harness.Daemon) bool {
	select {
	case <-d.Ended:
		return true
	default:
		return false
	}
}

// status returns what a replica says about all of them.
func (r *replicated) status(one *replicaUnderTest) (s replica.Status, ok bool) {
	code, stdout, _ := harness.Informd(r.t, "cluster", "status", "-o", "json",
		"--state-dir", one.dir)
	return s, code == 0 && json.Unmarshal([]byte(stdout), &s) == nil
}

// leader returns a replica that leads and has caught up, or nil.
func (r *replicated) leader() *replicaUnderTest {
	for _, one := range r.replicas {
		if one.isReady("source ") {
			return one
		}
	}
	return nil
}

// isReady reports whether a replica runs and says that it is ready, and this beside. If it leads, its
// sources have to be ready, too.
func (one *replicaUnderTest) isReady(says string) bool {
	if one.daemon == nil || one.isStopped || hasEnded(one.daemon) {
		return false
	}
	code, body := one.daemon.GetWithin(2*time.Second, "/readyz")
	return code == http.StatusOK && strings.Contains(body, says) && !strings.Contains(body, "[-]")
}

// awaitLeader waits until a replica leads and has caught up, and returns it.
func (r *replicated) awaitLeader() *replicaUnderTest { return r.awaitLeaderBut(nil) }

// awaitLeaderBut is awaitLeader for a replica that is not former.
func (r *replicated) awaitLeaderBut(former *replicaUnderTest) (leader *replicaUnderTest) {
	r.t.Helper()
	r.poll("a replica to lead and be ready", func() bool {
		leader = r.leader()
		return leader != nil && leader != former
	})
	return leader
}

// awaitAll waits until all replicas are ready, vote, and have what the leader had at the beginning.
// It returns the leader. A replica that was ready before may be behind for some seconds, and it
// notices damage when it applies.
func (r *replicated) awaitAll() (leader *replicaUnderTest) {
	r.t.Helper()
	target := uint64(0)
	r.poll("all replicas to be ready", func() bool {
		for _, one := range r.replicas {
			if !one.isReady("") {
				return false
			}
		}
		if leader = r.leader(); leader == nil {
			return false
		}
		status, ok := r.status(leader)
		if !ok || status.Stale || status.Leader != leader.name || status.Tolerates != 1 {
			return false
		}
		if target == 0 {
			target = status.Members[slices.Index(r.replicas, leader)].Applied // both are sorted by name
		}
		return !slices.ContainsFunc(status.Members, func(m replica.MemberStatus) bool {
			return m.Unreachable != "" || m.Applied < target
		})
	})
	return leader
}

// poll waits until something is met. Meanwhile it starts replicas again that have ended, if they
// may.
func (r *replicated) poll(what string, met func() bool) {
	r.t.Helper()
	for began := time.Now(); !met(); time.Sleep(50 * time.Millisecond) {
		for _, one := range r.replicas {
			if one.daemon != nil && hasEnded(one.daemon) {
				r.revive(one)
			}
		}
		if time.Since(began) > harness.Patience {
			for _, one := range r.replicas {
				if status, ok := r.status(one); ok {
					text, _ := json.Marshal(status)
					r.t.Logf("%s says: %s", one.name, text)
				}
			}
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// revive starts a replica again that has ended by itself.
func (r *replicated) revive(one *replicaUnderTest) {
	r.t.Helper()
	r.examine(one)
	log := strings.TrimSpace(one.daemon.Logged())
	if !r.mayEnd {
		r.t.Fatalf("replica %s has ended:\n%s", one.name, log[max(0, len(log)-4000):])
	}
	r.ended++
	r.t.Logf("replica %s has ended: %s", one.name, log[strings.LastIndexByte(log, '\n')+1:])
	time.Sleep(500 * time.Millisecond) // as whoever restarts it would wait
	r.start(one)
}

// fault does something to the replicas, and waits until one of them leads again.
func (r *replicated) fault(harm func(leader *replicaUnderTest)) (took time.Duration) {
	r.t.Helper()
	leader := r.awaitLeader()
	time.Sleep(time.Duration(r.random.Int64N(int64(2 * time.Second))))
	from := time.Now()
	harm(leader)
	r.awaitLeader()
	took = time.Since(from)
	r.ready = append(r.ready, time.Now())
	r.trial.Crashes = append(r.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
	return took
}

// run lets the author write from now on.
func (r *replicated) run(seed uint64) {
	r.wrote -= time.Duration(time.Now().UnixNano())
	r.author.run(seed)
}

// isDone reports whether everything is delivered, by what the leader says.
func (r *replicated) isDone() bool {
	leader := r.leader()
	if leader == nil {
		return false
	}
	code, metrics := leader.daemon.GetWithin(10*time.Second, "/metrics")
	if code != http.StatusOK || !strings.Contains(metrics, "\ninformd_dead_letters 0\n") {
		return false
	}
	wants := []string{`informd_handler_in_flight{handler="record"} 0`}
	for _, rule := range r.rules {
		for _, of := range []string{"depth", "delayed", "away"} {
			wants = append(wants, fmt.Sprintf("informd_rule_queue_%s{rule=%q} 0", of, rule.Name))
		}
		wants = append(wants, fmt.Sprintf("informd_source_pending{source=%q} 0", rule.Resource))
	}
	return !slices.ContainsFunc(wants, func(want string) bool {
		return !strings.Contains(metrics, "\n"+want+"\n")
	})
}

// finish waits until everything is delivered, and compares the ledgers.
func (r *replicated) finish() ledger.Report {
	r.t.Helper()
	r.settle()
	return r.judge()
}

// settle ends the author, and waits until everything is delivered and all replicas have it.
func (r *replicated) settle() {
	r.t.Helper()
	r.author.end()
	r.wrote += time.Duration(time.Now().UnixNano())
	r.poll("everything to be delivered", r.isDone)
	r.awaitAll()
}

// judge stops the replicas and compares the ledgers.
func (r *replicated) judge() ledger.Report {
	r.t.Helper()
	for _, one := range r.replicas {
		one.daemon.Stop()
		r.examine(one)
	}
	r.recorded.read(r.t)
	r.trial.History, r.trial.Rules = r.author.history(), r.rules
	r.trial.Events, r.trial.Caught = runsByProcess(r.recorded.events, r.ready)
	report := ledger.Check(r.trial)
	for i, p := range report.Problems {
		if i < 6 {
			r.t.Error(r.trial.Explain(p))
		}
	}
	r.t.Logf("%d changes as the rules see them, %d events, %.0f a second, %d faults: %d repeats with "+
		"their id, %d told again otherwise, the oldest told %v before the fault; %d torn lines",
		report.Steps, report.Events, float64(report.Events)/r.wrote.Seconds(), len(r.trial.Crashes),
		report.Repeats, report.Retold, report.Oldest.Round(time.Millisecond), r.recorded.torn)
	return report
}

// process is a handler's, of one start of a replica.
type process struct{ start, pid int }

func processOf(ev ledger.Event) process { return process{ev.Run, ev.Process} }

// runsByProcess numbers runs by the handlers' processes, in the order in which these began to write:
// a leader has one. caught is, by run, the first of the times after that.
func runsByProcess(events []ledger.Event, ready []time.Time) ([]ledger.Event, map[int]time.Time) {
	events, caught, runs := slices.Clone(events), make(map[int]time.Time), make(map[process]int)
	for i, ev := range events {
		run := runs[processOf(ev)]
		if run == 0 {
			run = len(runs) + 1
			runs[processOf(ev)], caught[run] = run, ready[len(ready)-1]
			for _, at := range ready {
				if at.After(ev.At) {
					caught[run] = at
					break
				}
			}
		}
		events[i].Run = run
	}
	return events, caught
}

// applied returns the number of the newest entry that a replica has applied, as it says itself.
func (r *replicated) applied(one *replicaUnderTest) (entry uint64) {
	r.t.Helper()
	r.poll("an answer of "+one.name, func() bool {
		status, ok := r.status(one)
		if ok {
			entry = status.Members[slices.Index(r.replicas, one)].Applied // both are sorted by name
		}
		return ok
	})
	return entry
}

// comeBack starts a replica whose disk is empty. It is ready once it has what the leader had then.
func (r *replicated) comeBack(one *replicaUnderTest) {
	r.t.Helper()
	if err := os.RemoveAll(one.dir); err != nil {
		r.t.Fatal(err)
	}
	had := r.applied(r.awaitLeader())
	r.start(one)
	r.poll("the replica to be ready again", func() bool { return one.isReady("replica " + one.name) })
	if has := r.applied(one); has < had {
		r.t.Errorf("%s is ready with %d of %d entries", one.name, has, had)
	}
	const says = "\ninformd_replica_caught_up 1\n"
	if _, metrics := one.daemon.Get("/metrics"); !strings.Contains(metrics, says) {
		r.t.Errorf("/metrics does not say %q", says)
	}
}

// TestReplicasTakeOver kills the replica that leads, again and again: no event is lost, out of order
// or untrue, and what is repeated was in flight.
func TestReplicasTakeOver(t *testing.T) {
	t.Parallel()
	seed, stalls := harness.Seed(t), harness.Stalls(t)
	r := startReplicated(t, seed, workload{objects: 400, pace: 80 * time.Millisecond}, nil)
	r.run(seed)
	for round := range 4 {
		var killed *replicaUnderTest
		took := r.fault(func(leader *replicaUnderTest) {
			killed = leader
			r.kill(leader)
		})
		t.Logf("another replica led and was ready after %v", took.Round(time.Millisecond))
		if round == 0 {
			r.comeBack(killed)
		} else {
			r.start(killed)
		}
	}
	r.trial.Unwritten = harness.Unwritten + stalls()
	r.finish()
}

// TestReplicasHandOver ends the replica that leads in order, or has it hand over, again and again: no
// event is lost, and none is repeated.
func TestReplicasHandOver(t *testing.T) {
	t.Parallel()
	rounds := 4
	if harness.Soak() {
		rounds = 20
	}
	seed := harness.Seed(t)
	r := startReplicated(t, seed, workload{objects: 400, pace: 80 * time.Millisecond}, nil)
	r.run(seed)
	for i := range rounds {
		var former *replicaUnderTest
		took := r.fault(func(leader *replicaUnderTest) {
			former = leader
			if i%2 == 0 {
				leader.daemon.Stop()
				leader.daemon = nil
				return
			}
			code, _, stderr := harness.Informd(t, "cluster", "hand-over", "--state-dir", leader.dir)
			if code != 0 {
				t.Fatalf("informd cluster hand-over: %s", stderr)
			}
		})
		t.Logf("another replica led and was ready after %v", took.Round(time.Millisecond))
		if former.daemon == nil {
			r.start(former)
		}
		if s, ok := r.status(former); ok && (s.Leader == former.name || len(s.Members) != 3) {
			t.Errorf("after the hand-over of %s: %+v", former.name, s)
		}
	}
	r.trial.Unwritten = harness.Unwritten
	if report := r.finish(); report.Repeats > 0 {
		t.Errorf("%d events were repeated", report.Repeats)
	}
}
