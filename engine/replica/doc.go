// Package replica keeps one log on several machines. Its members agree on each entry by raft, so an
// entry survives as long as more than half of the members keep their disks. One member leads, and
// only the leader proposes. The package knows nothing about what an entry means: it hands entries
// to a [Storage], on every member in the same order.
//
// # A member
//
// [Start] begins a member, which takes part until [Member.Close]. [Member.Lead] waits until it
// leads and returns the [Term]: everything that was committed before has then been applied here.
// [Term.Propose] returns nil once an entry is committed and applied here. [Term.Context] ends when
// the member may no longer lead.
//
//	m, err := replica.Start(options)
//	for {
//		term, err := m.Lead(ctx)
//		if err != nil {
//			break // ctx has ended, the member is closed, or cannot go on
//		}
//		work(term.Context(), term.Propose)
//		term.End()
//	}
//	err = m.Close()
//
// A term ends with [Term.End], [Member.HandOver], or when the member must not lead any more.
// Term.End makes another member lead, if one can. Member.Close does not.
//
// # Guarantees
//
// An entry is applied on a member only after more than half of the voters have it on disk, synced.
// Entries are applied in one order on all members, without a gap, and at least once: after a
// restart or a snapshot a member may see entries again that its Storage has, in the same order, up
// to the newest. If Propose returns an error, the entry may have been committed or may be committed
// later, but only before any entry of the next term. So a former leader knows nothing that the next
// leader does not know.
//
// A term's Context ends no later than [LeaseTimeout] after the beginning of the last requests that
// more than half of the members answered. That is half a second before another member may lead,
// unless the process does not run at all. Whatever must not happen twice has to be verified: see
// [Term.Verify].
//
// A member whose disk hangs for a second falls silent: it neither answers nor asks, so another
// member leads. A write of many bytes may take a second more for each 4 MiB. An Apply of the
// [Storage] counts as a write. The member speaks again when the disk goes on. If the disk reports
// an error, or the Storage does, the member stays silent: [Member.Failed] says so, Lead returns the
// error, and all that is left is Close.
//
// # Members
//
// A member has a name, which the operator chose, and an id, which is random and lives in its
// directory. A directory that was emptied makes a new member: the leader replaces the old id of
// that name by the new one, first without a vote, and gives it a vote when it has caught up. A
// member that stops remains a member. Who connects for raft says which id and which cluster it
// means, so no member is ever taken for the one that had its name before.
//
// A cluster begins when all members of [Options.Peers] reach each other, agree on Peers, and none
// of them has ever been part of one. The one whose name sorts first then makes it. One member with
// an empty disk can therefore not begin a second cluster. The cluster's id is made of the first
// members' ids.
//
// [Found] makes the directory of a member that begins alone, with what its Storage has: with a state
// from before there was a cluster, or with that of one member when most disks are lost. [Inspect]
// reads what such a member has left. The cluster keeps its id, and none of the former members' ids is
// one of its members: nobody connects to them for raft, so they are not heard. If more than half of
// them come back with their directories, they lead the former cluster beside this one.
//
// A member that was away for minutes gets entries up to ten seconds after it is back: raft tries
// less and less often. So who restarts members one by one has to wait for each: see [MemberStatus].
//
// A member logs, and does not repair, that another one has other Peers, belongs to another cluster,
// or has taken its place, that it is no member of its cluster any more, or that two lead it.
//
// # On the wire
//
// Members speak TLS 1.3 to each other, and both sides show a certificate: see [Identity]. A
// connection begins with a byte. After 'r' come the cluster's id and the id of the member that is
// meant, and after its answer of one byte, raft. After 'c' comes HTTP, with which members ask for
// each other's [Info] and join. Their callers can use it, too: what [Member.Transport] sends,
// Options.Asked of another member answers. Names in addresses are resolved at each dial.
//
// # On disk
//
// The directory has mode 0700. It holds the member's id (id), the cluster's (cluster), the vote and
// the entries that some member may still need (raft), what is known of the latest snapshot
// (snapshot), and a file that keeps a second process out (lock). The content of a snapshot is the
// Storage's.
//
// # Bounds
//
// An entry has at most [MaxEntry] bytes. One proposal at a time is on its way. The directory keeps
// about 64 MiB of entries, or 256 entries if those are more, and twice that until the next
// snapshot. In memory are the latest 64 entries, and up to 8 for each member that lags. 256
// connections may be open on which nothing has come, and 64 whose other side has begun a handshake.
// For another one, the member closes the oldest connection of the address that has the most.
//
// # Concurrency
//
// All methods of a Member and a Term are safe for concurrent use. The Storage's methods are called
// by one goroutine at a time, except where they say otherwise.
package replica
