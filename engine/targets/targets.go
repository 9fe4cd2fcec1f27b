// Package targets keeps account of what the own actions of rules act on.
//
// A target is one object of the cluster, or its status. A claim says that a source object asks for
// a target under a rule: what came of it, and when it is tried next. The owner of a target is the
// oldest claim of a rule that prunes. A claim behind the owner waits until the owner's is dropped,
// and then has the target, without a deletion in between. Claims of rules that do not prune own
// nothing: any number of them may be about one target, also beside an owner.
//
// A wave is one walk over everything that a source object asks for: see [Table.Begin]. First the
// wave asks for all targets ([Wave.Ask]). [Wave.Asked] ends that: it drops what the source object
// asked for earlier and not in this wave. Then the wave tries the targets ([Wave.Try]) and settles
// each by itself ([Attempt.Settle]).
//
// A claim that owns is recorded before its target is tried, and its record goes once the target is
// deleted or somebody else's. So after a crash, no target is without a claim. Other claims are
// recorded only if their wave is long or fails, so that the next one does not repeat all of it.
//
// The package is pure: the time is an argument, a [Records] takes the rows, and nothing here sends
// a request or looks at an object. Methods that change claims are called within a cut of the state,
// so that what one call changes is recorded as a whole or not at all.
package targets

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
)

// Target is what an action changes. Two Targets that differ only in the version of the resource are
// the same one.
type Target struct {
	Resource    schema.GroupVersionResource
	Subresource string // status, or empty
	Key         delta.Key
}

// CanExist reports whether a cluster can have such an object. A [Table] takes no other targets.
func (t Target) CanExist() bool {
	isPart := func(text string, most int) bool {
		return len(text) <= most && !strings.Contains(text, "/")
	}
	return t.Key.Name != "" && isPart(t.Key.Name, 253) && isPart(t.Key.Namespace, 63) &&
		t.Resource.Resource != "" && isPart(t.Resource.Resource, 63) &&
		isPart(t.Resource.Group, 253) && isPart(t.Resource.Version, 63) && isPart(t.Subresource, 63)
}

// isObject reports whether the target is an object, or its status. A caller may have targets of other
// kinds, with subresources that Kubernetes has not.
func (t Target) isObject() bool { return t.Subresource == "" || t.Subresource == "status" }

// Asker is a source object under a rule. A later object of the same name is the same Asker.
type Asker struct {
	Rule string    // the rule's ID in the state, which survives a rename
	Key  delta.Key // of the source object
}

// State says how far a claim has come.
type State uint8

// The states of a claim. The first four are recorded: never renumber them.
const (
	Asked   State = iota + 1 // no request has ended yet, or none since the claim got the target
	Done                     // the target is as the source object asked
	Waits                    // failed for now: tried again when it is due
	Refused                  // failed for good, until the source object or the rule changes
	Behind                   // another claim has the target
	Dropped                  // the source object asks for it no more: the target is to be deleted
)

// String returns the state as a word.
func (s State) String() string {
	words := [...]string{"", "asked", "done", "waits", "refused", "behind", "dropped"}
	if int(s) < len(words) {
		return words[s]
	}
	return ""
}

// Claim is one row of the table, as it was when it was returned.
type Claim struct {
	Asker    Asker
	Target   Target
	Owns     bool // counts for ownership: the rule prunes what it applies
	State    State
	Failures int       // in a row; the fields below are about the last one
	Due      time.Time // when the target is tried again; zero unless it waits
	Cause    string    // in a word, such as quota
	Reason   string
	// Former is the owner before this claim, until the target was applied for this one. Until then,
	// the target may have the marks of any source object of this claim's rule or of Former's.
	// Former is zero if there is none.
	Former Asker
}

// CauseForeign is the Cause of an Outcome if the target is somebody else's.
const CauseForeign = "foreign"

// Outcome is what came of one request.
type Outcome struct {
	// State is Done, Waits or Refused. A deletion is Done if the target is not there any more, or
	// was not the rule's own. Asked means that the request was given up, and changes nothing.
	State State
	// Cause and Reason say why it failed. A target that is Done with a Cause is there for now, and
	// tried again when its namespace appears. Reason quotes no object, as it is recorded.
	Cause, Reason string
	After         time.Duration // how long the API server wants to be left alone
}

// Verdict says what a wave does about a target.
type Verdict uint8

// The verdicts of [Wave.Try].
const (
	Try    Verdict = iota // send the request, and settle it
	Skip                  // it is done for this event
	Wait                  // it is backing off, or another request for it is under way
	Refuse                // another claim has it, or it was refused for this event
)

// Left is what remains to be done after a wave.
type Left struct {
	Asked   int       // targets of the wave
	Untried int       // that the wave did not get to
	Waits   int       // that failed for now, or wait for another request
	Due     time.Time // when the first of those is tried again
	Refused int       // that failed for good, or belong to others
	Some    []Claim   // the first three that are refused, or else that wait
}

// Bounds of the table.
const (
	// MaxClaims bounds the claims that own, and separately those that do not. A target that is asked
	// for beyond the bound waits.
	MaxClaims = 1_000_000

	maxCause  = 32  // bytes of a claim's cause
	maxReason = 256 // bytes of a claim's reason
)

// Delays between attempts at one target.
const (
	minDelay = time.Second
	maxDelay = 5 * time.Minute
)

// due returns when a claim of a is tried again that failed at now, for the nth time. After that, the
// API server wants to be left alone for a while: after.
func (t *Table) due(a Asker, n int, after time.Duration, now time.Time) time.Time {
	after = min(after, maxDelay)
	if t.exact {
		return now.Add(max(fullDelay(n), after))
	}
	return dueAfter(now, max(delay(a, n), after))
}

// fullDelay returns the delay after the nth failure: a second, doubled with each failure up to five
// minutes.
func fullDelay(n int) time.Duration { return min(minDelay<<min(max(n, 1)-1, 16), maxDelay) }

// delay returns how long a claim of a waits after its nth failure: fullDelay, less up to a fifth.
// What fails together for a has the same delay.
func delay(a Asker, n int) time.Duration {
	full := fullDelay(n)
	hash := fnv.New32a()
	for _, text := range []string{a.Rule, a.Key.Namespace, a.Key.Name} {
		_, _ = hash.Write([]byte(text))
	}
	_, _ = hash.Write([]byte{byte(n)})
	return full - full/5*time.Duration(hash.Sum32()%256)/256
}

// dueAfter returns when a claim is tried again that failed at now. It rounds up, so that claims
// that fail in one wave come due together.
func dueAfter(now time.Time, wait time.Duration) time.Time {
	grain := wait / 16
	return now.Add(wait + grain - 1).Truncate(grain)
}

// EventOf identifies an event together with the actions of the rule: actions is their digest. What
// is done for one is not done for another.
func EventOf(id string, actions uint64) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(id), actions))
	return binary.BigEndian.Uint64(sum[:])
}
