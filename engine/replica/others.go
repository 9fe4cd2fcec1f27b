// This file owns what a member does about the others: it looks at them now and then, and compares
// what they say with what it knows.

package replica

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// others are the other members, as this one sees them.
type others struct {
	member *Member
	names  []string // sorted
	timing timing
	log    *slog.Logger
	kick   chan struct{} // makes run look at once

	progress progress
	looking  looking // only the goroutine of run uses it

	mu       sync.Mutex // guards the fields below
	reaches  []string   // who answered last
	excluded string     // why the cluster does not want this member; "" if it does
}

// looking is what the last look at the others showed.
type looking struct {
	complaints map[string]string // by what they are about: each is logged once
	caught     map[string]int    // by id: how often a member without a vote was caught up, in a row
	trouble    string            // why the member could not enter a cluster
	leader     string
}

func newOthers(m *Member) *others {
	o := &others{member: m, timing: m.options.timing, log: m.log, kick: make(chan struct{}, 1)}
	o.progress.patience = max(o.timing.rest, 10*time.Second)
	for _, name := range slices.Sorted(maps.Keys(m.options.Peers)) {
		if name != m.options.Name {
			o.names = append(o.names, name)
		}
	}
	o.looking = looking{complaints: make(map[string]string), caught: make(map[string]int)}
	return o
}

// run looks at the others until ctx ends.
func (o *others) run(ctx context.Context) {
	seen := make(chan raft.Observation, 8)
	observer := raft.NewObserver(seen, false, func(what *raft.Observation) bool {
		_, is := what.Data.(raft.LeaderObservation)
		return is
	})
	o.member.raft.RegisterObserver(observer)
	defer o.member.raft.DeregisterObserver(observer)
	for {
		pause := o.look(ctx)
		o.noteLeader()
		select {
		case <-seen:
		case <-o.kick:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// noteLeader logs who leads when that has changed.
func (o *others) noteLeader() {
	name, _ := o.member.raft.LeaderWithID()
	leader := string(name)
	if leader == "" || leader == o.looking.leader {
		return
	}
	o.looking.leader = leader
	o.log.Info("a replica leads now", "leader", leader, "is_this", leader == o.member.options.Name,
		"term", o.member.raft.CurrentTerm())
}

// once stands for a member that did not answer once, which means nothing.
const once = "once"

// noteReach logs which members cannot be reached, when that changes.
func (o *others) noteReach(errs map[string]error) {
	for _, name := range o.names {
		about, now := "reaching "+name, ""
		if err := errs[name]; err != nil {
			now = err.Error()
		}
		switch was := o.looking.complaints[about]; {
		case now == was || now == "" && was == once:
		case now == "":
			o.log.Info("a replica can be reached again", "replica", name)
		case was == "":
			now = once
		case was == once: // what follows may be other words for the same
			o.log.Warn("cannot reach a replica", "replica", name, "error", now)
		}
		o.looking.complaints[about] = now
	}
}

// look asks the others, does what is to be done, and returns how long to wait before the next look.
func (o *others) look(ctx context.Context) time.Duration {
	if o.member.network.all.isSilent() {
		return o.timing.look
	}
	reports, errs := o.askAll(ctx)
	if ctx.Err() != nil || o.member.network.all.isSilent() {
		return o.timing.look
	}
	o.noteReach(errs)
	o.mu.Lock()
	o.reaches = slices.Sorted(maps.Keys(reports))
	o.mu.Unlock()
	o.comparePeers(reports)
	cluster := o.member.self.clusterID()
	if cluster == "" {
		o.complainAgain(ctx, o.enter(ctx, reports))
		return o.timing.look
	}
	o.compareClusters(cluster, reports)
	isCaughtUp := o.progress.look(o.member.Info(), reports)
	isToPromote := o.member.raft.State() == raft.Leader && o.promote(reports)
	if isToPromote || !isCaughtUp {
		return o.timing.look
	}
	return o.timing.rest
}

// report returns what this member says of itself.
func (o *others) report() report {
	o.mu.Lock()
	reaches := o.reaches
	o.mu.Unlock()
	return report{
		Info: o.member.Info(), Peers: o.member.options.Peers, Servers: o.member.servers(),
		Reaches: reaches, HasLost: o.member.options.HasLost,
	}
}

// why returns why the cluster does not want this member.
func (o *others) why() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.excluded
}

// complain logs a complaint about something, unless it was the last one about it. "" takes it back.
func (o *others) complain(about, complaint string) {
	if o.looking.complaints[about] == complaint {
		return
	}
	o.looking.complaints[about] = complaint
	if complaint != "" {
		o.log.Error(complaint)
	}
}

// complainAgain complains that the member could not enter a cluster because of err, if that was so
// at the last look, too: a cluster without a leader takes nobody in.
func (o *others) complainAgain(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		o.looking.trouble = ""
		return
	}
	if err.Error() == o.looking.trouble {
		o.complain("entering", err.Error())
	}
	o.looking.trouble = err.Error()
}

// comparePeers complains about members that were given other members or addresses.
func (o *others) comparePeers(reports map[string]*report) {
	for name, r := range reports {
		o.complain("the peers of "+name, differences(o.member.options.Name, o.member.options.Peers,
			name, r.Peers))
	}
}

// differences names how what two members know of their peers differs; "" if it does not.
func differences(
	name string, own map[string]string, other string, others map[string]string,
) string {
	for _, peer := range slices.Sorted(maps.Keys(own)) {
		address, isKnown := others[peer]
		switch {
		case !isKnown:
			return fmt.Sprintf("%s knows the replica %s, but %s does not: give all replicas the same "+
				"--peers", name, peer, other)
		case address != own[peer]:
			return fmt.Sprintf("%s has the address %q for the replica %s, but %s has %q: give all replicas "+
				"the same addresses", name, own[peer], peer, other, address)
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(others)) {
		if _, isKnown := own[peer]; !isKnown {
			return fmt.Sprintf("%s knows the replica %q, but %s does not: give all replicas the same --peers",
				other, peer, name)
		}
	}
	return ""
}

// compareClusters complains about members of another cluster, and if the cluster does not count this
// member among its own: it has taken in another one under its name, or begun anew without it.
func (o *others) compareClusters(cluster string, reports map[string]*report) {
	excluded := ""
	own := o.member.Info()
	leader := "" // who leads this member now
	if r := reports[own.Leader]; own.Role == Leads || r != nil && r.Role == Leads && knows(r, own.ID) {
		leader = own.Leader
	}
	for name, r := range reports {
		complaint := ""
		switch {
		case r.Cluster == cluster && r.Role == Leads && !knows(r, own.ID) && leader != "":
			complaint = fmt.Sprintf("%s and %s both lead the cluster %s, one as it was before it was founded "+
				"again: stop the replicas whose state is not to be kept, and empty their directories",
				min(leader, name), max(leader, name), cluster)
		case r.Cluster == cluster && r.Role == Leads && !knows(r, own.ID):
			excluded = fmt.Sprintf("this replica, %s with the id %s, is no member of its cluster any more, "+
				"as %s says, which leads it: stop it and empty its directory, so that it joins as a new "+
				"one", own.Name, own.ID, name)
		case r.Cluster != "" && r.Cluster != cluster:
			complaint = fmt.Sprintf("%s belongs to the cluster %s, and this replica, %s, to %s: they do not "+
				"talk. Empty the directory of the one that belongs to the wrong cluster",
				name, printableID([]byte(r.Cluster)), o.member.options.Name, cluster)
		}
		o.complain("the cluster of "+name, complaint)
	}
	o.complain("being excluded", excluded)
	o.mu.Lock()
	o.excluded = excluded
	o.mu.Unlock()
}

// knows reports whether r's member counts the one with id among the cluster's.
func knows(r *report, id string) bool {
	return find(r.Servers, func(s server) bool { return s.ID == id }) != nil
}
