package replica

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Members are cut off, hang, stop, lose what was not synced, lose everything, and hand over, while
// entries are proposed. REPLICA_TEST_CHAOS says for how many seconds, REPLICA_TEST_SEED how.
func TestChaos(t *testing.T) {
	t.Parallel()
	seconds, seed := 15, rand.Uint64()
	if is := os.Getenv("REPLICA_TEST_CHAOS"); is != "" {
		seconds, _ = strconv.Atoi(is)
	}
	if is := os.Getenv("REPLICA_TEST_SEED"); is != "" {
		seed, _ = strconv.ParseUint(is, 10, 64)
	}
	t.Logf("REPLICA_TEST_SEED=%d", seed)
	c, chance := newCluster(t), rand.New(rand.NewPCG(seed, 1))
	for _, n := range c.nodes {
		n.options.timing.logBytes, n.options.timing.logEntries = 20<<10, 16
		n.options.timing.segment = 64 << 10
	}
	c.startAll()
	c.propose(1, 100)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.watchTerms(ctx)
	}()
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		c.misfortune(c.nodes[chance.IntN(3)], chance.IntN(6))
		c.propose(1+chance.IntN(20), chance.IntN(2000))
		if t.Failed() {
			break
		}
	}
	stop()
	<-done
	c.propose(5, 10)
	c.settle()
}

// misfortune makes something happen to n, lets entries be proposed meanwhile, and repairs it.
func (c *cluster) misfortune(n *node, what int) {
	switch what {
	case 0:
		c.t.Log("isolate", n.name)
		c.net.isolate(n.name)
		c.propose(5, 500)
		c.net.heal()
	case 1:
		c.t.Log("hang", n.name)
		n.disk.hang()
		c.propose(5, 500)
		n.disk.heal()
	case 2:
		c.t.Log("restart", n.name)
		n.close(c.t)
		n.storage.losePower()
		c.propose(5, 500)
		n.start(c.t)
	case 3:
		c.t.Log("wipe", n.name)
		n.close(c.t)
		n.wipe(c.t)
		c.propose(5, 500)
		n.start(c.t)
		// Two members without their disks would be too many.
		wait(c.t, n.name+" has a vote again", func() bool {
			role := n.member.Info().Role
			return role == Follows || role == Leads
		})
	case 4:
		c.t.Log("hand over")
		_ = c.leader().member.HandOver(context.Background())
	case 5:
		c.t.Log("all restart")
		for _, n := range c.nodes {
			n.close(c.t)
			n.storage.losePower()
		}
		c.startAll()
	}
}

// watchTerms looks for two terms at the same time, until ctx ends.
func (c *cluster) watchTerms(ctx context.Context) {
	for ctx.Err() == nil {
		for i, n := range c.nodes {
			term := n.current()
			if term == nil {
				continue
			}
			for _, other := range c.nodes[i+1:] {
				if second := other.current(); second != nil && term.Context().Err() == nil {
					c.t.Errorf("%s leads in the term %d, and %s in %d at the same time", n.name, term.Number(),
						other.name, second.Number())
					return
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
}
