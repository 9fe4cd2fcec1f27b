package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEntriesReachAllMembers(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(20, 100)
	c.settle()
	leader := c.leader()
	var status Status
	wait(t, "all is well", func() bool {
		status = leader.member.Status(context.Background())
		return status.Tolerates == 1 && !status.Stale && status.Leader == leader.name
	})
	if len(status.Members) != 3 || status.Members[0].Name != "a" || status.Members[2].Version != "v1" {
		t.Errorf("replicas %+v", status.Members)
	}
	cluster := status.Members[0].Cluster
	for _, m := range status.Members {
		if m.Cluster != cluster || !isID(cluster) || m.Trouble != "" {
			t.Errorf("replica %+v", m)
		}
	}
	if term := leader.current(); term != nil && term.Number() == 0 {
		t.Error("the term has no number")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	wait(t, "a leader is verified", func() bool {
		_, term := c.leading()
		return term.Verify(context.Background()) == nil
	})
	old, term := c.leading()
	c.net.isolate(old.name)
	if err := term.Verify(context.Background()); !errors.Is(err, ErrDeposed) {
		t.Errorf("in a minority: %v", err)
	}
}

func TestLargeEntries(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes { // the race detector makes it slow
		of := &n.options.timing
		of.heartbeat, of.lease, of.hang, of.rpc = 10*time.Second, 8*time.Second, limit, limit
	}
	c.startAll()
	c.propose(1, 16<<20)
	c.settle()
	_, term := c.leading()
	err := term.Propose(make([]byte, MaxEntry+1))
	if err == nil || errors.Is(err, ErrDeposed) {
		t.Errorf("a larger one: %v", err)
	}
}

func TestAnotherMemberTakesOverAndLosesNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for range 3 {
		c.propose(10, 100)
		old, term := c.leading()
		old.close(t)
		if err := term.Propose([]byte("0:too late")); !errors.Is(err, ErrDeposed) {
			t.Errorf("Propose after the end: %v", err)
		}
		if cause := context.Cause(term.Context()); !errors.Is(cause, ErrDeposed) {
			t.Errorf("the term ended with %v", cause)
		}
		c.leader(old)
		c.propose(10, 100)
		old.start(t)
		c.settle()
	}
}

func TestAllRestartAndKeepEverything(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(30, 100)
	c.settle()
	for range 2 {
		for _, n := range c.nodes {
			n.close(t)
			n.storage.losePower()
		}
		c.startAll()
		c.propose(5, 100)
		c.settle()
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(3, 10)
	old := c.leader()
	wait(t, "another replica takes over", func() bool {
		err := old.member.HandOver(context.Background())
		t.Log("HandOver:", err)
		return err == nil || old.current() == nil && c.leader() != old
	})
	c.propose(3, 10)
	c.settle()
	follower := c.nodes[0]
	if follower == c.leader() {
		follower = c.nodes[1]
	}
	if err := follower.member.HandOver(context.Background()); err == nil && follower.current() == nil {
		t.Log("a follower led for a moment")
	}
}

func TestEndGivesLeadershipAway(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	wait(t, "another replica leads", func() bool {
		old := c.leader()
		if term := old.current(); term != nil {
			term.End()
		}
		return c.leader() != old
	})
	c.propose(3, 10)
	c.settle()
}

func TestAMinorityCommitsNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	c.settle()
	old, term := c.leading()
	had := len(old.storage.all())
	c.net.isolate(old.name)
	if err := term.Propose([]byte(old.next("lost"))); !errors.Is(err, ErrDeposed) {
		t.Errorf("Propose in a minority: %v", err)
	}
	<-term.Context().Done()
	if is := len(old.storage.all()); is != had {
		t.Errorf("the minority has applied %d entries", is-had)
	}
	c.leader(old)
	c.propose(10, 10)
	status := old.member.Status(context.Background())
	if !status.Stale || status.Tolerates >= 0 {
		t.Errorf("the minority says %+v", status)
	}
	c.net.heal()
	c.settle()
	for _, entry := range old.storage.all() {
		if strings.HasSuffix(entry, ":lost") {
			t.Error("the lost entry came back after entries of a later term")
		}
	}
}

func TestAWipedMemberRejoinsBySnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes {
		n.options.timing.logBytes, n.options.timing.logEntries = 100<<10, 16
	}
	c.startAll()
	c.propose(100, 5000)
	c.settle()
	wait(t, "a snapshot was taken", func() bool {
		latest, _ := c.leader().member.notes.List()
		return len(latest) > 0
	})
	wiped := c.nodes[0]
	if wiped == c.leader() {
		wiped = c.nodes[1]
	}
	id := wiped.member.Info().ID
	wiped.close(t)
	wiped.wipe(t)
	c.propose(60, 5000)
	wiped.start(t)
	isBack := func() bool {
		status := c.leader().member.Status(context.Background())
		own := find(c.leader().member.servers(), func(s server) bool { return s.Name == wiped.name })
		return status.Tolerates == 1 && own != nil && own.Votes
	}
	for !isBack() {
		c.propose(10, 5000)
		if t.Failed() {
			return
		}
	}
	if is := wiped.member.Info().ID; is == id {
		t.Error("the wiped replica has its old id")
	}
	c.settle()
	// The log was shortened on all members, and they start with that.
	for _, n := range c.nodes {
		first, err := n.member.disk.FirstIndex()
		if err != nil || first < 2 {
			t.Errorf("the log of %s begins with entry %d: %v", n.name, first, err)
		}
		n.close(t)
		n.storage.losePower()
	}
	c.startAll()
	c.propose(5, 10)
	c.settle()
}

func TestAHangingDiskMakesTheLeaderSilent(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	old, term := c.leading()
	old.disk.hang()
	result := make(chan error, 1)
	go func() { result <- term.Propose([]byte(old.next("into the void"))) }()
	<-term.Context().Done()
	if err := <-result; !errors.Is(err, ErrDeposed) {
		t.Errorf("Propose on a hanging disk: %v", err)
	}
	c.leader(old)
	wait(t, "the replica says what is wrong", func() bool {
		return strings.Contains(old.member.Info().Trouble, "disk hangs")
	})
	c.propose(5, 10)
	old.disk.heal()
	c.settle()
	wait(t, "the replica is back", func() bool { return old.member.Info().Trouble == "" })
	if err := old.member.Err(); err != nil {
		t.Error(err)
	}
}

func TestAFailingDiskEndsTheMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	old := c.leader()
	broken := errors.New("input/output error")
	old.disk.fail(broken)
	if term := old.current(); term != nil {
		if err := term.Propose([]byte(old.next("into the void"))); !errors.Is(err, ErrDeposed) {
			t.Errorf("Propose on a broken disk: %v", err)
		}
	}
	c.leader(old)
	c.propose(5, 10) // the old one is asked for its vote or for entries, and fails at the latest then
	<-old.member.Failed()
	if err := old.member.Err(); !errors.Is(err, broken) {
		t.Errorf("the replica ended with %v", err)
	}
	if _, err := old.member.Lead(context.Background()); !errors.Is(err, broken) {
		t.Errorf("Lead: %v", err)
	}
	old.disk.heal()
	old.close(t)
	old.start(t)
	c.settle()
}

func TestAnErrorOfTheStorageEndsTheMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	broken := errors.New("no space left")
	n := c.leader()
	n.storage.mu.Lock()
	n.storage.fail = broken
	n.storage.mu.Unlock()
	if term := n.current(); term != nil {
		if err := term.Propose([]byte(n.next("the first"))); !errors.Is(err, ErrDeposed) {
			t.Errorf("Propose: %v", err)
		}
	}
	c.leader(n)
	c.propose(5, 10)
	<-n.member.Failed()
	if err := n.member.Err(); !errors.Is(err, broken) {
		t.Errorf("the replica ended with %v", err)
	}
	n.storage.mu.Lock()
	n.storage.fail = nil
	n.storage.mu.Unlock()
	n.close(t)
	n.start(t)
	c.settle()
}

func TestADirectoryIsPrivateAndUsedOnce(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(1, 10)
	err := filepath.Walk(c.nodes[0].dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := Start(c.nodes[0].options); !says(err, "another process") {
		t.Errorf("a second replica in the directory: %v", err)
	}
}

func TestLeadEndsWithItsContextAndAfterClose(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.nodes[0].start(t)
	m := c.nodes[0].member
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Lead(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lead: %v", err)
	}
	info := m.Info()
	if info.Role != Waits || info.Cluster != "" {
		t.Errorf("alone: %+v", info)
	}
	c.nodes[0].close(t)
	if _, err := m.Lead(context.Background()); err == nil {
		t.Error("a closed replica leads")
	}
}

func TestCloseWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes {
		n.options.timing.grace = time.Second
	}
	c.startAll()
	old, term := c.leading()
	old.disk.hang()
	if err := term.Propose([]byte(old.next("into the void"))); !errors.Is(err, ErrDeposed) {
		t.Errorf("Propose: %v", err)
	}
	old.mu.Lock()
	member, stop := old.member, old.stop
	old.member = nil
	old.mu.Unlock()
	stop()
	if err := member.Close(); !says(err, "disk hangs") {
		t.Errorf("Close: %v", err)
	}
	<-old.done
	c.leader(old)
	c.propose(3, 10)
	old.disk.heal()
	wait(t, "the directory is free", func() bool {
		lock, err := openDir(old.dir)
		if err == nil {
			_ = lock.Close()
		}
		return err == nil
	})
	old.start(t)
	c.settle()
}
