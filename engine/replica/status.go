// This file owns what a member knows about all members.

package replica

import (
	"cmp"
	"context"
	"slices"
)

// Status asks all members for what they know, and returns after a second at most.
func (m *Member) Status(ctx context.Context) Status {
	reports, errs := m.others.askAll(ctx)
	own := m.others.report()
	reports[m.options.Name] = &own
	return m.statusOf(reports, errs)
}

// statusOf puts reports together, and errs of members that did not answer.
func (m *Member) statusOf(reports map[string]*report, errs map[string]error) Status {
	known := reports[m.options.Name]
	status := Status{Leader: known.Leader}
	for _, r := range reports { // a deposed leader may not know it yet
		isNewer := status.Leader == "" || r.Term > reports[status.Leader].orEmpty().Term
		isOther := known.Role == Leads && !knows(r, known.ID) // from before the cluster was founded again
		if r.Role == Leads && r.Cluster == known.Cluster && isNewer && !isOther {
			status.Leader = r.Name
		}
	}
	leader := reports[status.Leader]
	status.Stale = leader == nil || leader.Role != Leads
	if !status.Stale {
		known = leader
	}
	voters, present := 0, 0
	for _, s := range known.Servers {
		if !s.Votes {
			continue
		}
		voters++
		if r := reports[s.Name]; r != nil && r.ID == s.ID && r.Trouble == "" {
			present++
		}
	}
	if voters == 0 { // there is no cluster yet
		voters = len(m.options.Peers)
	}
	status.Tolerates = present - (voters/2 + 1)
	for name, address := range m.options.Peers {
		member := MemberStatus{Info: Info{Name: name}, Address: address}
		if r := reports[name]; r != nil {
			member.Info = r.Info
			if known.Applied > r.Applied {
				member.Lag = known.Applied - r.Applied
			}
		} else {
			member.Unreachable = errs[name].Error()
		}
		status.Members = append(status.Members, member)
	}
	slices.SortFunc(status.Members, func(a, b MemberStatus) int { return cmp.Compare(a.Name, b.Name) })
	return status
}

// orEmpty returns r, or an empty report.
func (r *report) orEmpty() *report {
	if r == nil {
		return &report{}
	}
	return r
}
