package replica

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTwoOfThreeBeginNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.nodes[0].start(t)
	c.nodes[2].start(t)
	wait(t, "they reach each other", func() bool {
		r := c.nodes[0].member.others.report()
		return len(r.Reaches) == 1
	})
	time.Sleep(10 * quick.look)
	for _, n := range []*node{c.nodes[0], c.nodes[2]} {
		if info := n.member.Info(); info.Role != Waits || info.Cluster != "" {
			t.Errorf("%s has begun: %+v", n.name, info)
		}
	}
	c.nodes[1].start(t)
	c.propose(3, 10)
	c.settle()
}

// A member whose peers differ keeps the others from beginning a cluster, and is named.
func TestDifferentPeersBeginNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	logged := new(recorder)
	c.nodes[0].options.Logger = logged.logger()
	c.nodes[1].options.Peers = map[string]string{
		"a": "a.example:1", "b": "b.example:1", "c": "elsewhere.example:1",
	}
	c.startAll()
	wait(t, "the difference is named", func() bool {
		return logged.has(`a has the address \"c.example:1\" for the replica c, but b has`)
	})
	if info := c.nodes[0].member.Info(); info.Cluster != "" {
		t.Errorf("a cluster has begun: %+v", info)
	}
}

// One member with an empty disk is given the place of the one it was, and cannot begin a cluster.
func TestAnEmptyFirstMemberBeginsNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	c.settle()
	cluster := c.nodes[1].member.Info().Cluster
	for range 2 {
		first := c.nodes[0]
		first.close(t)
		first.wipe(t)
		first.start(t)
		c.propose(3, 10)
		wait(t, "it has a vote again", func() bool {
			info := first.member.Info()
			return info.Cluster == cluster && (info.Role == Follows || info.Role == Leads)
		})
		c.settle()
	}
}

// The old member's vote and entries are never taken for the new one's: with another member away,
// nothing is committed until the new one has caught up in its own name.
func TestAnEmptyMemberDoesNotAnswerForTheOldOne(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(5, 10)
	c.settle()
	a, b, other := c.nodes[0], c.nodes[1], c.nodes[2]
	other.close(t)
	b.close(t)
	b.wipe(t)
	b.start(t)
	wait(t, "the new one looks for a cluster", func() bool {
		r := b.member.others.report()
		return len(r.Reaches) == 1
	})
	time.Sleep(10 * quick.look)
	if term := a.current(); term != nil && term.Verify(context.Background()) == nil {
		t.Error("the only replica of three that is left leads")
	}
	if got := len(b.storage.all()); got != 0 {
		t.Errorf("the new one was given %d entries as the old one", got)
	}
	other.start(t)
	c.propose(3, 10)
	c.settle()
}

// A bootstrap that was cut short before its cluster was noted goes on with the same cluster.
func TestACrashWhileTheClusterBegins(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.propose(1, 10)
	c.settle()
	cluster := c.nodes[0].member.Info().Cluster
	for _, n := range c.nodes {
		n.close(t)
		if err := os.Remove(filepath.Join(n.dir, "cluster")); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll()
	c.propose(1, 10)
	c.settle()
	if is := c.nodes[0].member.Info().Cluster; is != cluster {
		t.Errorf("the cluster is %s, and was %s", is, cluster)
	}
}

func TestAMemberOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	one := startCluster(t)
	one.propose(3, 10)
	one.settle()
	two := newCluster(t)
	two.ca, two.net = one.ca, newTangle()
	for _, n := range two.nodes {
		n.options.Identity = identityOf(t, one.ca, n.name)
		n.options.Listen, n.options.Dial = two.net.of(n.name)
	}
	two.startAll()
	two.propose(5, 10)
	two.settle()
	for _, n := range two.nodes {
		n.close(t)
	}
	logged := new(recorder)
	intruder, replaced := two.nodes[2], one.nodes[2]
	had := len(intruder.storage.all())
	replaced.close(t)
	intruder.options.Listen, intruder.options.Dial = one.net.of(intruder.name)
	intruder.options.Logger = logged.logger()
	intruder.start(t)
	wait(t, "the other cluster is named", func() bool {
		return logged.has("belongs to the cluster " + one.nodes[0].member.Info().Cluster)
	})
	one.propose(5, 10)
	if got := len(intruder.storage.all()); got > had {
		t.Errorf("the intruder got %d entries", got-had)
	}
	intruder.close(t)
	replaced.start(t)
	one.settle()
}

// Nobody with a certificate that names no member learns or changes anything.
func TestAForeignCertificateIsRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.leader()
	foreign := newCluster(t)
	n := foreign.nodes[0]
	n.options.Identity = identityOf(t, c.ca, "a")
	n.options.Listen, n.options.Dial = c.net.of("z")
	n.start(t)
	stranger, is := identityOf(t, c.ca, "stranger.example"), n.options.Identity
	is.mu.Lock() // at its start it would complain
	is.loaded, is.looked = stranger.loaded, time.Now().Add(time.Hour)
	is.mu.Unlock()
	status := n.member.Status(context.Background())
	for _, m := range status.Members[1:] {
		if m.Unreachable == "" || m.ID != "" {
			t.Errorf("%+v", m)
		}
	}
}

// A member may only join under its own name.
func TestJoiningAsAnotherIsRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	leader := c.leader()
	var other, victim *node
	for _, n := range c.nodes {
		switch {
		case n == leader:
		case other == nil:
			other = n
		default:
			victim = n
		}
	}
	var answer joined
	for body, want := range map[joining]string{
		{Name: victim.name, ID: newID()}: "names neither",
		{Name: other.name, ID: newID()}:  "another replica",
		{Name: "x", ID: newID()}:         "does not know",
		{Name: other.name, ID: "../../"}: "does not know",
	} {
		err := other.member.others.ask(context.Background(), limit, leader.name, "POST", "/join",
			body, &answer)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", body, err)
		}
	}
	c.propose(1, 10)
	c.settle()
}
