// The record of what a rule's own actions did about one object of the cluster.

package records

import (
	"encoding/binary"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/fields"
)

// Claim is the value of the note that says how far a rule has come with one target for one object
// of its source. Package targets says what the fields mean. The note's name has the two objects.
type Claim struct {
	State    uint8 // at most MaxClaimState
	Owns     bool
	Dropped  bool
	Order    int64
	Event    uint64
	Failures int
	Due      time.Time
	// Version is the version of the API with which the rule last asked for the target.
	Version       string
	Cause, Reason string
	// FormerRule and FormerKey are the rule and the object of its source whose marks the target may
	// still have. FormerRule is empty if there are none.
	FormerRule string
	FormerKey  delta.Key
}

// MaxClaimState is the highest State that a Claim can have.
const MaxClaimState = 1<<4 - 1

// claimVersion is the version of the record of a claim.
const claimVersion = 1

// Flags of a claim, above its state.
const (
	claimOwns = 1 << (iota + 4)
	claimDropped
	claimFormer // the former owner follows
)

// AppendClaim appends the record of a claim.
func AppendClaim(b []byte, c *Claim) []byte {
	flags := c.State & MaxClaimState
	if c.Owns {
		flags |= claimOwns
	}
	if c.Dropped {
		flags |= claimDropped
	}
	if c.FormerRule != "" {
		flags |= claimFormer
	}
	b = binary.AppendVarint(append(b, claimVersion, flags), c.Order)
	b = binary.BigEndian.AppendUint64(b, c.Event)
	b = binary.AppendUvarint(b, uint64(max(c.Failures, 0)))
	b = fields.AppendTime(b, c.Due)
	for _, text := range []string{c.Version, c.Cause, c.Reason} {
		b = fields.AppendText(b, text)
	}
	if c.FormerRule == "" {
		return b
	}
	for _, text := range []string{c.FormerRule, c.FormerKey.Namespace, c.FormerKey.Name} {
		b = fields.AppendText(b, text)
	}
	return b
}

// ReadClaim reads what AppendClaim wrote.
func ReadClaim(b []byte) (c Claim, err error) {
	r := fields.Reader{Left: b}
	if r.Byte() != claimVersion {
		r.Fail()
	}
	flags := r.Byte()
	c.State, c.Owns, c.Dropped = flags&MaxClaimState, flags&claimOwns != 0, flags&claimDropped != 0
	c.Order = r.Varint()
	if event := r.Take(8); event != nil {
		c.Event = binary.BigEndian.Uint64(event)
	}
	c.Failures = int(min(r.Uvarint(), maxClaimFailures))
	c.Due = r.Time()
	c.Version, c.Cause, c.Reason = r.Text(), r.Text(), r.Text()
	if flags&claimFormer != 0 {
		c.FormerRule = r.Text()
		c.FormerKey = delta.Key{Namespace: r.Text(), Name: r.Text()}
		if c.FormerRule == "" {
			r.Fail()
		}
	}
	if flags >= claimFormer<<1 {
		r.Fail() // a flag that this version does not know
	}
	return c, r.End()
}

// maxClaimFailures bounds the failures of a claim that is read.
const maxClaimFailures = 1 << 30
