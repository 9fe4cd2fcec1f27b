package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// found makes the state of a replica that of the first one of a cluster, by the command adopt or
// recover. It is killed at random moments before it may end. It returns what the command says.
func (r *replicated) found(one *replicaUnderTest, command string) (says string) {
	r.t.Helper()
	args := []string{"cluster", command, "--state-dir", one.dir, "--name", one.name}
	before := harness.FilesOf(r.t, filepath.Join(one.dir, "store"))
	code, says, stderr := harness.Informd(r.t, args...)
	if code != 0 || !strings.Contains(says, "nothing of the state was changed: repeat the command with --yes") {
		r.t.Fatalf("%s says %d, %s%s", command, code, says, stderr)
	}
	if after := harness.FilesOf(r.t, filepath.Join(one.dir, "store")); strings.Join(after, " ") != strings.Join(before, " ") {
		r.t.Errorf("without --yes, %q became %q", before, after)
	}
	args = append(args, "--yes")
	began := time.Now()
	for i := range 15 {
		cmd := exec.Command(harness.Binary, args...)
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		r.pause(time.Duration(i+1) * 20 * time.Millisecond)
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	r.t.Logf("%s was killed for %v, and has left %q", command, time.Since(began).Round(time.Millisecond),
		harness.InFolder(r.t, one.dir))
	code, done, stderr := harness.Informd(r.t, args...)
	if isDone := strings.Contains(stderr, "belongs to a replica already"); code != 0 && !isDone {
		r.t.Fatalf("%s --yes says %d, %s%s", command, code, done, stderr)
	}
	return says
}

// pause waits for a random time.
func (r *replicated) pause(most time.Duration) {
	time.Sleep(time.Duration(r.random.Int64N(int64(most))))
}

// changed notes that nobody delivered from a moment until now, when one is ready.
func (r *replicated) changed(from time.Time) {
	r.t.Helper()
	r.poll("somebody to deliver", func() bool { return r.leader() != nil })
	r.ready = append(r.ready, time.Now())
	r.trial.Crashes = append(r.trial.Crashes, ledger.Crash{From: from, To: time.Now()})
	r.t.Logf("somebody delivers after %v", time.Since(from).Round(time.Millisecond))
}

// stop ends a replica in order.
func (r *replicated) stop(one *replicaUnderTest) {
	one.daemon.Stop()
	r.examine(one)
	one.daemon = nil
}

// TestOneToThreeAndBack makes three out of one informd under load, and one out of three, twice. Nothing
// is lost. The state is that of one which ended in order, or was killed.
func TestOneToThreeAndBack(t *testing.T) {
	t.Parallel()
	seed, stalls := harness.Seed(t), harness.Stalls(t)
	r := newLoaded(t, seed, workload{objects: 400, pace: 80 * time.Millisecond}, nil)
	one := r.replicas[0]
	r.startWith(one)
	r.poll("it to be ready", func() bool { return r.leader() != nil })
	r.trial.Ready = time.Now()
	r.ready = []time.Time{r.trial.Ready}
	r.run(seed)
	for round := range 2 {
		time.Sleep(2 * time.Second)
		from := time.Now()
		if round == 0 {
			r.stop(one)
		} else {
			r.kill(one)
		}
		r.found(one, "adopt")
		r.start(one)
		r.changed(from)
		if leader := r.leader(); leader != one {
			t.Errorf("%s leads alone", leader.name)
		}
		for _, other := range r.replicas {
			if other == one {
				continue
			}
			if err := os.RemoveAll(other.dir); err != nil {
				t.Fatal(err)
			}
			r.start(other)
		}
		leader := r.awaitAll()
		if round == 1 {
			break
		}
		time.Sleep(2 * time.Second)
		from = time.Now()
		for _, other := range r.replicas {
			if other != leader {
				r.stop(other)
			}
		}
		r.stop(leader)
		if err := os.RemoveAll(filepath.Join(leader.dir, "raft")); err != nil {
			t.Fatal(err)
		}
		one = leader
		r.startWith(one)
		r.changed(from)
	}
	r.trial.Unwritten = harness.Unwritten + stalls()
	if report := r.finish(); report.Missed > 0 {
		t.Errorf("%d changes were missed", report.Missed)
	}
}

// upTo finds until when a replica has everything, in what recover says.
var upTo = regexp.MustCompile(`everything up to entry \d+, which the leader made at ([^ ]+)\.\n`)

// TestRecover loses two of three disks under load, and goes on from the third. What is lost is no more
// than the command says. A replica with its old disk does no harm, and says that it is no member any
// more.
func TestRecover(t *testing.T) {
	t.Parallel()
	seed, stalls := harness.Seed(t), harness.Stalls(t)
	r := startReplicated(t, seed, workload{objects: 400, pace: 80 * time.Millisecond}, nil)
	r.run(seed)
	time.Sleep(3 * time.Second)
	leader := r.awaitLeader()
	var left, old *replicaUnderTest
	for _, one := range r.replicas {
		switch {
		case one == leader:
		case left == nil:
			left = one
		default:
			old = one
		}
	}
	from := time.Now()
	r.kill(left) // the others go on without it
	time.Sleep(time.Duration(r.random.Int64N(int64(500 * time.Millisecond))))
	r.kill(leader)
	r.kill(old)
	if code, _, stderr := harness.Informd(t, "cluster", "adopt", "--state-dir", left.dir, "--name", left.name, "--yes"); code != 1 || !strings.Contains(stderr, "informd cluster recover") {
		t.Errorf("adopt says %d, %s", code, stderr)
	}
	says := r.found(left, "recover")
	t.Log(says)
	at, err := time.Time{}, error(nil)
	if found := upTo.FindStringSubmatch(says); found != nil {
		at, err = time.Parse(time.RFC3339, found[1])
	}
	if err != nil || at.IsZero() || at.After(from.Add(time.Second)) || at.Before(from.Add(-10*time.Second-stalls())) {
		t.Errorf("it has everything up to %v, %v, and was killed at %v", at, err, from)
	}
	r.start(left)
	r.changed(from)
	r.trial.Lost = append(r.trial.Lost, ledger.Window{From: at.Add(-time.Second), To: time.Now()})

	r.start(old)
	const no = "is no member of its cluster any more"
	r.poll("the old one to say so", func() bool { return strings.Contains(old.daemon.Logged(), no) })
	time.Sleep(5 * time.Second) // it asks for votes
	is, ok := r.status(left)
	if !ok || is.Leader != left.name || is.Stale {
		t.Errorf("%s says %+v", left.name, is)
	}
	for _, m := range is.Members {
		switch m.Name {
		case left.name:
			if m.Role != replica.Leads || m.Trouble != "" {
				t.Errorf("it is disturbed: %+v", m)
			}
		case old.name:
			if !strings.Contains(m.Trouble, no) {
				t.Errorf("the old one is %+v", m)
			}
		}
	}
	if _, stdout, _ := harness.Informd(t, "cluster", "status", "--state-dir", left.dir); !strings.Contains(stdout, "empty its directory") {
		t.Errorf("the status is\n%s", stdout)
	}
	r.kill(old)
	for _, one := range []*replicaUnderTest{leader, old} {
		if err := os.RemoveAll(one.dir); err != nil {
			t.Fatal(err)
		}
		r.start(one)
	}
	r.awaitAll()
	time.Sleep(2 * time.Second)
	r.trial.Unwritten = harness.Unwritten + stalls()
	report := r.finish()
	t.Logf("%d changes were missed", report.Missed)
}
