// The public types: what a member is made of, and what it says of itself.

package replica

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// MaxEntry bounds an entry, in bytes.
const MaxEntry = 60 << 20

// LeaseTimeout is how long a leader goes on after it began the last requests that more than half of
// the members have answered.
const LeaseTimeout = 500 * time.Millisecond

// Options configure a Member. All fields are required, except where they say otherwise.
type Options struct {
	// Name is the member's. It must be one of Peers.
	Name string
	// Peers are the addresses of all members, this one's included, as HOST:PORT, by name. An odd
	// number, three or more.
	Peers map[string]string
	// Identity is the member's certificate and whom it trusts.
	Identity *Identity
	// Dir is the member's directory. It is made if it is not there.
	Dir string
	// Storage gets the entries.
	Storage Storage
	// Version is the version of this informd, for Info.
	Version string
	// Logger is for what operators should know. nil discards.
	Logger *slog.Logger

	// Unable returns why the member could not do a leader's work now, or "". Such a member may lead
	// nevertheless: see Member.HandOver. nil means that it always could.
	Unable func() string
	// HasLost says that an earlier member in this place had entries, which are lost. Such a member
	// begins no cluster: another one may have what it had.
	HasLost bool
	// Suspects returns the changes in whose steps earlier processes of this member died, for Info. nil
	// returns none.
	Suspects func() []Suspect
	// Asked answers the requests that other members of the cluster send by their Transport. It may
	// be called once Start was, and bounds how long it reads a request. nil answers none.
	Asked http.Handler
	// Listen makes the listener; nil listens on the port of the member's own address, on all
	// addresses of this machine, or on that address alone if it is a loopback one.
	Listen func() (net.Listener, error)
	// Dial connects to an address of Peers; nil dials TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// timing and tamper are for tests: how long things take, and what the disk does.
	timing timing
	tamper func(store) store
}

// Storage is what the entries are for. It has to survive a loss of power only from one Sync to the
// next: a member applies again what came after.
type Storage interface {
	// Apply takes a committed entry. It is called in order, again for entries that the Storage may
	// have already, and concurrently with Snapshot and Sync. An error ends the member. While Apply
	// takes longer than a second, the member is silent. Apply keeps nothing of entry.
	Apply(entry []byte) error
	// Sync returns when everything that was applied before the call is on disk. An error ends the
	// member.
	Sync() error
	// Snapshot returns everything that was applied before the call, and perhaps more. It has exactly
	// size bytes. It may be called concurrently with everything but Install. The content may be read
	// while anything else is called. The caller closes it.
	Snapshot() (content io.ReadCloser, size int64, err error)
	// Install replaces everything by a Snapshot of another member, at once or not at all, even if
	// the process is killed meanwhile. The content is whole only if it ends with io.EOF: after
	// another error, Install must keep what it had and return an error. When it returns nil, all is
	// on disk. Nothing else is called meanwhile. After an error the leader sends a snapshot again.
	Install(content io.Reader) error
}

// Info is what a member knows about itself.
type Info struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Cluster string `json:"cluster,omitempty"` // the cluster's id; "" before it is part of one
	Version string `json:"version"`
	Role    Role   `json:"role"`
	Term    uint64 `json:"term"`    // the newest that it knows
	Applied uint64 `json:"applied"` // the number of the newest entry that it has applied
	Last    uint64 `json:"last"`    // the number of the newest entry on its disk
	// Newest is the number of the leader's newest entry, some seconds ago. It is 0 if the member has
	// not reached a leader in the last twenty seconds.
	Newest uint64 `json:"newest"`
	Leader string `json:"leader,omitempty"`
	// IsCaughtUp says that it applies what the leader has within some ten seconds, and has done so
	// since it started. It says nothing of a member that has no leader, or is in trouble, by now.
	IsCaughtUp bool `json:"isCaughtUp"`
	// Trouble says why it does not take part; "" if it does.
	Trouble string `json:"trouble,omitempty"`
	// Unable says why it could not do a leader's work; "" if it could.
	Unable string `json:"unable,omitempty"`
	// Suspects are the changes in whose steps earlier processes of the member died.
	Suspects []Suspect `json:"suspects,omitempty"`
}

// Suspect is a change in whose step a member died: an object of an informer, at one version.
type Suspect struct {
	Informer uint64    `json:"informer"` // a number for the informer, the same in all members
	Resource string    `json:"resource"`
	Object   string    `json:"object"`
	Version  string    `json:"version"`
	Kind     uint8     `json:"kind"`
	Deaths   int       `json:"deaths"`
	At       time.Time `json:"at"` // of the last
}

// Role is what a member does.
type Role string

// These are the roles.
const (
	Leads    Role = "leader"
	Follows  Role = "follower"
	Learns   Role = "learner"   // it has no vote yet
	Searches Role = "candidate" // it knows no leader
	Waits    Role = "waiting"   // it is not part of a cluster yet
)

// Status is what a member knows about all members.
type Status struct {
	// Leader is the leader's name; "" if none is known.
	Leader string `json:"leader"`
	// Stale says that no leader has answered. Each member then speaks for itself only, and which of
	// them have a vote is what this member last knew.
	Stale bool `json:"stale"`
	// Tolerates is how many more members may be lost now without a standstill. It is negative if
	// more than half of the voters are away.
	Tolerates int            `json:"tolerates"`
	Members   []MemberStatus `json:"members"` // sorted by name
}

// MemberStatus is a member as another one sees it.
type MemberStatus struct {
	Info
	Address string `json:"address"`
	// Unreachable says why Info is empty but for the name.
	Unreachable string `json:"unreachable,omitempty"`
	// Lag is how many entries the leader has committed that the member has not applied.
	Lag uint64 `json:"lag"`
}
