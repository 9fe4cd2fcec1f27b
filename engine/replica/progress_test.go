package replica

import (
	"slices"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]struct {
		at              int // in seconds
		applied, newest uint64
		want            bool
	}{
		"follows": {
			{0, 0, 100, false},
			{1, 99, 200, false},  // it lacks one of those that the leader had at first
			{2, 100, 300, true},  // and that are enough
			{3, 299, 400, true},  // it is behind, but not for long
			{12, 299, 500, true}, // 300 is what counts, since second 2
			{13, 299, 500, false},
			{14, 300, 600, false}, // that took too long: 600 is what counts now
			{20, 600, 700, true},
			{31, 700, 800, true}, // a look after a rest
			{42, 750, 800, false},
			{43, 750, 450, true}, // another leader has less
			{54, 450, 451, true},
		},
		"is a minute behind": { // a hundred entries a second, and a look each ten seconds
			{0, 10000, 10000, true}, {10, 10500, 11000, true}, {21, 10900, 12100, false},
			{60, 11000, 16000, false}, {61, 11100, 16100, false}, {70, 11500, 17000, false},
			{120, 16000, 22000, false}, {121, 16100, 22100, false}, {181, 22000, 28000, false},
		},
		"comes back": { // it applies twice what comes
			{0, 0, 10000, false}, {50, 10000, 15000, false}, {75, 15000, 17500, false},
			{87, 17500, 18700, false}, {93, 18700, 19300, true},
		},
		"was cut off": {{0, 100, 100, true}, {300, 100, 30000, false}, {301, 30000, 30001, true}},
	} {
		p, began := progress{patience: 10 * time.Second}, time.Now()
		for i, step := range steps {
			now := began.Add(time.Duration(step.at) * time.Second)
			if is := p.note(now, step.applied, step.newest); is != step.want {
				t.Errorf("%s: step %d: it has caught up: %v", name, i, is)
			}
		}
	}
}

func TestProgressForgetsWhatTheLeaderHad(t *testing.T) {
	t.Parallel()
	p, now := progress{patience: 10 * time.Second}, time.Now()
	p.note(now, 100, 200)
	for after, want := range map[time.Duration]uint64{0: 200, 19 * time.Second: 200, 21 * time.Second: 0} {
		if _, newest := p.current(now.Add(after)); newest != want {
			t.Errorf("%v after a look the leader's newest entry is %d, want %d", after, newest, want)
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
	leader = c.leader()
	wait(t, "another one leads", func() bool {
		if err := leader.member.HandOver(t.Context()); err != nil {
			t.Log(err) // the machine may be busy
		}
		return slices.ContainsFunc(c.nodes, func(n *node) bool {
			return n != leader && n.current() != nil
		})
	})
	for _, n := range c.nodes {
		if info := n.member.Info(); !info.IsCaughtUp {
			t.Errorf("after a hand-over %s has not caught up: %+v", n.name, info)
		}
	}
}
