// This file owns how a member becomes part of a cluster: it begins one together with the others, or
// joins theirs.

package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// joinLimit bounds how long a member waits for the leader to take it in.
const joinLimit = 30 * time.Second

// enter looks for a cluster among reports and becomes part of it, or begins one. It returns an
// error that operators should know.
//
// The cluster's id is made of the ids that it begins with. The first member bootstraps raft and
// notes the cluster; the others see their id in its report, note the cluster, and only then accept
// connections of raft. If the first one crashes in between, nobody knows of the cluster but its own
// raft, whose log begins with these ids: the same id is made again.
func (o *others) enter(ctx context.Context, reports map[string]*report) error {
	self := o.member.self
	if own := o.member.servers(); len(own) > 0 {
		return self.adopt(clusterOf(idsOf(own)))
	}
	cluster, leader := "", ""
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		r := reports[name]
		switch {
		case r.Cluster == "":
			continue
		case cluster == "":
			cluster = r.Cluster
		case cluster != r.Cluster:
			return fmt.Errorf("the other replicas belong to two clusters, %s and %s, so %s joins neither: "+
				"empty the directories of the wrong one", printableID([]byte(cluster)),
				printableID([]byte(r.Cluster)), o.member.options.Name)
		}
		if knows(r, self.id) {
			o.log.Info("this replica belongs to a cluster now", "cluster", cluster, "id", self.id)
			return self.adopt(cluster)
		}
		switch {
		case r.Role == Leads:
			leader = name
		case r.Leader != o.member.options.Name: // the one that it was may have led
			leader = cmp.Or(leader, r.Leader)
		}
	}
	switch {
	case cluster != "" && leader != "":
		return o.join(ctx, leader)
	case cluster == "" && len(reports) == len(o.names) && o.lost(reports) != "":
		return fmt.Errorf("%s has lost its state, and no other replica has one: to begin anew, empty the "+
			"state directories of all", o.lost(reports))
	case cluster == "" && o.canBegin(reports):
		return o.begin(reports)
	}
	return nil
}

// lost returns the name of a member that has lost its entries, or "".
func (o *others) lost(reports map[string]*report) string {
	if o.member.options.HasLost {
		return o.member.options.Name
	}
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		if reports[name].HasLost {
			return name
		}
	}
	return ""
}

// idsOf returns the ids of servers by name.
func idsOf(servers []server) map[string]string {
	ids := make(map[string]string)
	for _, s := range servers {
		ids[s.Name] = s.ID
	}
	return ids
}

// canBegin reports whether this member is the one to begin a cluster, and may: all members reach
// all others, none has been part of a cluster, and all know the same members.
func (o *others) canBegin(reports map[string]*report) bool {
	if len(reports) != len(o.names) || o.member.options.Name > o.names[0] {
		return false
	}
	for name, r := range reports {
		isReady := r.Role == Waits && r.Cluster == "" && len(r.Servers) == 0 &&
			maps.Equal(r.Peers, o.member.options.Peers)
		if !isReady || len(r.Reaches) != len(o.names) || slices.Contains(r.Reaches, name) {
			return false
		}
	}
	return true
}

// begin begins a cluster of this member and those of reports.
func (o *others) begin(reports map[string]*report) error {
	ids := map[string]string{o.member.options.Name: o.member.self.id}
	for name, r := range reports {
		ids[name] = r.ID
	}
	var config raft.Configuration
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		config.Servers = append(config.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(ids[name]), Address: raft.ServerAddress(name),
		})
	}
	if err := o.member.raft.BootstrapCluster(config).Error(); err != nil {
		return fmt.Errorf("cannot begin a cluster: %w", err)
	}
	cluster := clusterOf(ids)
	o.log.Info("all replicas are there, and none belongs to a cluster: this one begins it",
		"cluster", cluster, "id", o.member.self.id)
	return o.member.self.adopt(cluster)
}

// join asks leader to take this member in.
func (o *others) join(ctx context.Context, leader string) error {
	var answer joined
	body := joining{Name: o.member.options.Name, ID: o.member.self.id}
	err := o.ask(ctx, joinLimit, leader, http.MethodPost, "/join", body, &answer)
	if err != nil {
		return fmt.Errorf("cannot join the cluster of %s; trying again: %w", leader, err)
	}
	if !isID(answer.Cluster) {
		return fmt.Errorf("%s answers with the cluster %q, which is no id", leader, answer.Cluster)
	}
	o.log.Info("the leader takes this replica in", "leader", leader, "cluster", answer.Cluster,
		"id", body.ID)
	return o.member.self.adopt(answer.Cluster)
}

// answerJoin answers a request to join.
func (o *others) answerJoin(w http.ResponseWriter, r *http.Request) {
	var body joining
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&body)
	if err != nil || !isID(body.ID) || !slices.Contains(o.names, body.Name) {
		http.Error(w, "the leader does not know this replica: add it to --peers of all",
			http.StatusForbidden)
		return
	}
	if err := o.mayJoin(r, body); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if err := o.takeIn(r.Context(), body); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	reply(w, joined{Cluster: o.member.self.clusterID()})
}

// mayJoin returns an error unless the member of body has sent r and is the one at its address.
func (o *others) mayJoin(r *http.Request, body joining) error {
	address := o.member.options.Peers[body.Name]
	if err := namesMember(certOf(r), body.Name, address); err != nil {
		return err
	}
	var is report
	err := o.ask(r.Context(), o.timing.ask, body.Name, http.MethodGet, "/info", nil, &is)
	if err != nil {
		return fmt.Errorf("the leader does not reach %s at %s: %w", body.Name, address, err)
	}
	if is.Name != body.Name || is.ID != body.ID || is.Cluster != "" {
		return fmt.Errorf("another replica than the one that wants to join is at %s: stop one of them",
			address)
	}
	return nil
}

// takeIn makes the member of body part of the cluster, without a vote, in the place of the one that
// had its name.
func (o *others) takeIn(ctx context.Context, body joining) error {
	r, wait := o.member.raft, o.timing.rpc
	if r.State() != raft.Leader {
		return errors.New("this replica does not lead; ask again")
	}
	if find(o.member.servers(), func(s server) bool { return s.ID == body.ID }) != nil {
		return nil
	}
	change := func(f func() raft.IndexFuture) error {
		err := o.member.calls.inTurn(ctx, func() error { return f().Error() })
		if err != nil {
			return fmt.Errorf("the cluster cannot change its replicas now: %w", err)
		}
		return nil
	}
	for _, s := range o.member.servers() {
		if s.Name != body.Name {
			continue
		}
		o.log.Info("a replica comes with an empty directory: removing the one that it was",
			"replica", body.Name, "old_id", s.ID)
		err := change(func() raft.IndexFuture { return r.RemoveServer(raft.ServerID(s.ID), 0, wait) })
		if err != nil {
			return err
		}
	}
	err := change(func() raft.IndexFuture {
		return r.AddNonvoter(raft.ServerID(body.ID), raft.ServerAddress(body.Name), 0, wait)
	})
	if err != nil {
		return err
	}
	o.log.Info("a replica joins; it gets a vote when it has caught up", "replica", body.Name,
		"id", body.ID)
	select {
	case o.kick <- struct{}{}:
	default:
	}
	return nil
}

// maxLag is how many entries a member may lack that gets a vote.
const maxLag = 64

// promote gives votes to the members that have caught up, as the leader. It reports whether there
// are any without a vote.
func (o *others) promote(reports map[string]*report) (isAny bool) {
	r := o.member.raft
	for _, s := range o.member.servers() {
		if s.Votes {
			delete(o.looking.caught, s.ID)
			continue
		}
		isAny = true
		is := reports[s.Name]
		isCaughtUp := is != nil && is.ID == s.ID && is.Trouble == "" &&
			is.Applied+maxLag > r.CommitIndex() && is.Leader == o.member.options.Name
		if !isCaughtUp {
			o.looking.caught[s.ID] = 0
			continue
		}
		if o.looking.caught[s.ID]++; o.looking.caught[s.ID] < 2 {
			continue
		}
		err := o.member.calls.inTurn(context.Background(), func() error {
			return r.AddVoter(raft.ServerID(s.ID), raft.ServerAddress(s.Name), 0, o.timing.rpc).Error()
		})
		if err != nil {
			o.log.Debug("cannot give a replica its vote now", "replica", s.Name, "error", err)
			continue
		}
		o.log.Info("a replica has caught up and has a vote now", "replica", s.Name, "id", s.ID)
	}
	return isAny
}
