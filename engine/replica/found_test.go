package replica

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// found makes the node one that leads alone, with what it has.
func (n *node) found(t *testing.T) (was Remains) {
	t.Helper()
	was, err := Inspect(n.dir, n.storage.Apply)
	if err == nil {
		err = os.RemoveAll(n.dir)
	}
	if err == nil {
		err = Found(n.dir, n.name, was)
	}
	if err != nil {
		t.Fatal(err)
	}
	return was
}

// awaitVoters waits until the nodes are all that vote.
func (c *cluster) awaitVoters(leader *node, voters ...*node) {
	c.t.Helper()
	wait(c.t, "all have a vote", func() bool {
		votes := 0
		for _, s := range leader.member.servers() {
			if s.Votes {
				votes++
			}
		}
		return votes == len(voters)
	})
}

// A member does not start with another name than the one by which its cluster knows it.
func TestFoundWithAnotherName(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.nodes[0]
	if err := Found(a.dir, "b", Remains{}); err != nil {
		t.Fatal(err)
	}
	if is, err := Inspect(a.dir, nil); err != nil || is.Name != "b" || !is.IsAlone {
		t.Errorf("it has %+v, %v", is, err)
	}
	m, err := Start(a.options)
	if err == nil {
		err = m.Close()
		t.Fatalf("it starts: %v", err)
	}
	if !strings.Contains(err.Error(), "belongs to the replica b, and not to a: start it with --name b") {
		t.Error(err)
	}
	if err := os.RemoveAll(a.dir); err != nil {
		t.Fatal(err)
	}
	if err := Found(a.dir, "a", Remains{}); err != nil {
		t.Fatal(err)
	}
	a.start(t)
	c.leader()
}

// What a Storage had before there was a cluster reaches the members that join.
func TestFoundWithAState(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.nodes[0]
	for _, entry := range []string{"1:one", "2:two"} {
		if err := a.storage.Apply([]byte(entry)); err != nil {
			t.Fatal(err)
		}
		c.acked = append(c.acked, entry)
	}
	for _, name := range []string{"", "a b", "../a"} {
		if err := Found(a.dir, name, Remains{}); err == nil {
			t.Errorf("a replica is named %q", name)
		}
	}
	if err := os.MkdirAll(a.dir+".new/raft", 0o700); err != nil { // of an attempt that was cut short
		t.Fatal(err)
	}
	if err := Found(a.dir, "a", Remains{}); err != nil {
		t.Fatal(err)
	}
	if err := Found(a.dir, "a", Remains{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	began := time.Now()
	a.start(t)
	if c.leader() != a {
		t.Fatal("another one leads")
	}
	t.Logf("it leads after %v", time.Since(began))
	c.propose(3, 10)
	c.nodes[1].start(t)
	c.nodes[2].start(t)
	c.awaitVoters(a, c.nodes...)
	c.propose(3, 10)
	c.settle()
	c.nodes[0].close(t)
	c.leader(c.nodes[0])
	c.propose(3, 10)
	c.settle()
	is, err := Inspect(a.dir, nil)
	if err != nil || is.Name != "a" || !is.Votes || is.Cluster == "" || is.Last < 7 || is.Term < 2 || time.Since(is.At) > limit {
		t.Errorf("it has %+v, %v", is, err)
	}
	if _, err := os.Stat(a.dir + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory is left: %v", err)
	}
}

// One member of three goes on alone with everything that it had been sent, also what its Storage had
// not been given, and others join. The former ones can do no harm, and say what they are.
func TestOneThatIsLeft(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	c.settle()
	leader := c.leader()
	cluster := leader.member.Info().Cluster
	var left, former *node
	for _, n := range c.nodes {
		switch {
		case n == leader:
		case left == nil:
			left = n
		default:
			former = n
		}
	}
	left.close(t)
	lost := left.storage.all()[3:]
	left.storage.mu.Lock()
	left.storage.entries = left.storage.entries[:3] // the end was not synced
	left.storage.mu.Unlock()
	for range 3 { // the others elect a leader again and again
		c.propose(2, 10)
		_ = c.leader().member.HandOver(context.Background())
	}
	c.propose(2, 10)
	c.leader()
	leader.close(t)
	former.close(t)
	c.acked = left.storage.all() // what came later is lost

	was := left.found(t)
	if was.Name != left.name || !was.Votes || was.Cluster != cluster || was.Last < 6 || was.At.IsZero() {
		t.Errorf("it has %+v", was)
	}
	c.acked = append(c.acked, lost...)
	if got := left.storage.all(); !hasAll(got, c.acked) {
		t.Errorf("it has %q, and had been sent %q", got, c.acked)
	}
	left.start(t)
	c.leader()
	c.propose(3, 10)
	if info := left.member.Info(); info.Cluster != cluster || info.Term <= was.Term || info.Applied <= was.Last {
		t.Errorf("it leads as %+v, and was %+v", info, was)
	}

	// One comes back with its old disk: it has more entries and a higher term.
	had := len(former.storage.all())
	logged := new(recorder)
	former.options.Logger = logged.logger()
	former.start(t)
	wait(t, "the former one is told", func() bool {
		return logged.has("is no member of its cluster any more") &&
			strings.Contains(former.member.Info().Trouble, "empty its directory")
	})
	c.propose(5, 10)
	time.Sleep(5 * time.Second) // it asks for votes meanwhile
	c.propose(1, 10)
	if info := left.member.Info(); info.Role != Leads || info.Trouble != "" {
		t.Errorf("it is disturbed: %+v", info)
	}
	if got := len(former.storage.all()); got != had {
		t.Errorf("the former one has %d entries, and had %d", got, had)
	}
	status := left.member.Status(t.Context())
	if status.Leader != left.name || status.Stale || status.Tolerates != 0 {
		t.Errorf("the status is %+v", status)
	}

	// Another one comes empty, as the operator was told.
	leader.wipe(t)
	leader.start(t)
	c.awaitVoters(left, left, leader)
	former.close(t)
	former.wipe(t)
	former.start(t)
	c.awaitVoters(left, c.nodes...)
	c.propose(3, 10)
	c.settle()
}

// Two that come back with their old disks go on as the cluster that they were, beside the one that was
// made of the third one's. Neither mixes with the other, and both say so.
func TestTwoOfTheFormer(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	c.settle()
	for _, n := range c.nodes {
		n.close(t)
	}
	left, logged := c.nodes[0], new(recorder)
	left.options.Logger = logged.logger()
	left.found(t)
	left.start(t)
	wait(t, "it leads alone", func() bool { return left.current() != nil })
	for _, n := range c.nodes[1:] {
		n.start(t)
	}
	former := c.leader(left)
	wait(t, "the two leaders are named", func() bool {
		return logged.has(left.name + " and " + former.name + " both lead the cluster")
	})
	for _, n := range c.nodes {
		wait(t, n.name+" takes part", func() bool { return n.member.Info().Trouble == "" })
	}
	for _, n := range []*node{left, former} {
		if err := n.current().Propose([]byte(n.next("of " + n.name))); err != nil {
			t.Error(err)
		}
		if status := n.member.Status(t.Context()); status.Leader != n.name {
			t.Errorf("the leader of %s is %+v", n.name, status)
		}
	}
	time.Sleep(2 * time.Second)
	for _, n := range c.nodes {
		all := n.storage.all()
		want := "6:of " + former.name
		if n == left {
			want = "6:of " + left.name
		}
		if got := all[len(all)-1]; got != want {
			t.Errorf("%s has %s", n.name, got)
		}
	}
}
