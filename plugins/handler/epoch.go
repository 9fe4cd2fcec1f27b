package handler

import (
	"cmp"
	"strconv"
)

// Epoch orders the informds that lead, one after the other, where several are replicas of each
// other. An informd that was stopped while it led may go on beside its successor for a moment: its
// events then have the older epoch. The zero Epoch is that of an informd that never had
// replicas.
type Epoch struct {
	// Cluster is the id of the group of replicas, not of the Kubernetes cluster.
	Cluster string `json:"cluster"`
	// Generation counts from 1. It grows when an operator goes back from replicas to one informd, which
	// continues with their state.
	Generation uint64 `json:"generation"`
	// Term grows from leader to leader, with gaps. It starts again with each Generation. That of an
	// informd that continues without replicas is 1.
	Term uint64 `json:"term"`
}

// IsZero reports whether the informd never had replicas.
func (e Epoch) IsZero() bool { return e == Epoch{} }

// Compare returns -1 if e is older than other, 0 if they are the same, and 1 if e is newer. ok is
// false if they have different Clusters: then nobody can say which one is older.
func (e Epoch) Compare(other Epoch) (order int, ok bool) {
	if e.Cluster != other.Cluster {
		return 0, false
	}
	return cmp.Or(cmp.Compare(e.Generation, other.Generation), cmp.Compare(e.Term, other.Term)), true
}

// String returns e as CLUSTER/GENERATION/TERM, and "" for the zero Epoch.
func (e Epoch) String() string {
	if e.IsZero() {
		return ""
	}
	return e.Cluster + "/" + strconv.FormatUint(e.Generation, 10) + "/" +
		strconv.FormatUint(e.Term, 10)
}
