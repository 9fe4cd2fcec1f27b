package replica

import (
	"errors"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	p, began := progress{patience: 10 * time.Second}, time.Now()
	for i, step := range []struct {
		at              int // in seconds
		applied, newest uint64
		want            bool
	}{
		{0, 0, 100, false},
		{1, 99, 200, false},  // it lacks one of those that the leader had at first
		{2, 100, 300, true},  // and that are enough
		{3, 299, 400, true},  // it is behind, but not for long
		{12, 299, 500, true}, // 300 is what counts, since second 2
		{13, 299, 500, false},
		{14, 300, 600, true},
		{25, 500, 600, false},
		{26, 500, 450, true}, // another leader has less
		{60, 450, 451, true},
	} {
		now := began.Add(time.Duration(step.at) * time.Second)
		if is := p.note(now, step.applied, step.newest); is != step.want {
			t.Errorf("step %d: it has caught up: %v", i, is)
		}
	}
}

// slowly is a Storage whose Apply waits until it is released.
type slowly struct {
	*memory
	released chan struct{}
}

func (s slowly) Apply(entry []byte) error {
	<-s.released
	return s.memory.Apply(entry)
}

// A member has not caught up before it has applied what the leader had when it came: not when it is
// new, and not after a restart. Then it has, as long as it follows.
func TestMembersCatchUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes {
		n.options.timing.hang = limit // Apply takes its time
	}
	c.startAll()
	for _, n := range c.nodes {
		wait(t, n.name+" has caught up", func() bool { return n.member.Info().IsCaughtUp })
	}
	leader := c.leader()
	var back *node
	for _, n := range c.nodes {
		if n != leader {
			back = n
		}
	}
	c.propose(5, 10)
	for _, isNew := range []bool{false, true} {
		back.close(t)
		c.propose(5, 10)
		if isNew {
			back.wipe(t)
		}
		slow := slowly{back.storage, make(chan struct{})}
		back.options.Storage = slow
		back.start(t)
		wait(t, "it follows or learns", func() bool {
			info := back.member.Info()
			return info.Newest > 0 && (info.Role == Follows || info.Role == Learns)
		})
		time.Sleep(3 * quick.rest)
		if info := back.member.Info(); info.IsCaughtUp || info.Newest <= info.Applied {
			t.Errorf("it has caught up before it has applied anything: %+v", info)
		}
		close(slow.released)
		had := len(leader.storage.all())
		wait(t, "it has caught up", func() bool { return back.member.Info().IsCaughtUp })
		if has := len(back.storage.all()); has < had {
			t.Errorf("it has caught up, with %d of %d entries", has, had)
		}
		back.options.Storage = back.storage
	}
	wait(t, "it votes", func() bool { return back.member.Info().Role == Follows })
	until := time.Now().Add(2 * time.Second)
	for time.Now().Before(until) {
		c.propose(1, 1000)
		for _, n := range c.nodes {
			if info := n.member.Info(); !info.IsCaughtUp {
				t.Fatalf("%s does not follow any more: %+v", n.name, info)
			}
		}
	}
	if leader.current() == nil {
		return // the machine is busy
	}
	if err := leader.member.HandOver(t.Context()); err != nil && !errors.Is(err, errNotLeader) {
		t.Log(err)
	}
	for _, n := range c.nodes {
		if info := n.member.Info(); !info.IsCaughtUp {
			t.Errorf("after a hand-over %s has not caught up: %+v", n.name, info)
		}
	}
}
