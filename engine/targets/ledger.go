package targets

import (
	"math"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/internal/list"
)

// ledger has the claims of a [Table], whose lock guards it. What its methods change within the cut
// of their caller is recorded there.
type ledger struct {
	records  Records // nil if nothing is kept
	rules    map[string]*rule
	places   map[placeKey]*place
	claims   map[claimKey]*claim
	troubled map[string]map[*claim]struct{} // claims with a trouble, by the target's namespace
	counts   [2]int                         // of claims that do not own, and of those that own
	order    int64                          // the highest of a claim so far
}

// rule is what the ledger knows about one rule.
type rule struct {
	id     string
	askers map[delta.Key]*asker
	whole  string // see Table.SetWhole
}

// asker is a source object with claims.
type asker struct {
	rule   *rule
	key    delta.Key
	claims list.List[*claim] // in the order in which they were made
}

func (a *asker) id() Asker { return Asker{Rule: a.rule.id, Key: a.key} }

// kind is a resource without its version, and a subresource.
type kind struct{ group, resource, subresource string }

// placeKey identifies a target.
type placeKey struct {
	kind unique.Handle[kind]
	key  delta.Key
}

func placeKeyOf(at Target) placeKey {
	k := kind{at.Resource.Group, at.Resource.Resource, at.Subresource}
	return placeKey{unique.Make(k), at.Key}
}

// place is a target with claims, or with a request under way.
type place struct {
	placeKey
	version string            // of the API: the one last asked with
	owners  list.List[*claim] // claims that own, in their order: the first one is the owner
	claims  int32             // also those that do not own
	open    int32             // requests under way of claims that own, or did when they were tried
}

// owner returns the claim that has the target, or nil.
func (p *place) owner() *claim {
	if first := p.owners.Front(); first != nil {
		return first.Value
	}
	return nil
}

// hasHeir reports whether somebody is behind the owner.
func (p *place) hasHeir() bool { return p.owners.Front() != p.owners.Back() }

func (p *place) target() Target {
	k := p.kind.Value()
	return Target{
		Resource: schema.GroupVersionResource{
			Group: k.group, Version: p.version, Resource: k.resource,
		},
		Subresource: k.subresource,
		Key:         p.key,
	}
}

// claimKey identifies a claim.
type claimKey struct {
	asker *asker
	place *place
}

// claim is a row. A claim behind the owner is Asked, whatever became of it before.
type claim struct {
	claimKey
	inAsker list.Element[*claim]
	inPlace list.Element[*claim] // of the owners; used only if the claim owns
	order   int64                // among the owners
	event   uint64               // that Done and Refused are about: see EventOf
	trouble *trouble             // of the last attempt; nil if it had none
	former  *Asker               // see Claim.Former; nil if there is none
	wave    uint32               // the last one that asked for it
	asks    uint32               // how many times that wave does something to the target
	repeats uint32               // of those, how many its second walk has asked for again
	did     uint32               // how many times it was done for the event; didAll if that is all
	state   State                // Asked, Done, Waits or Refused

	owns       bool
	isDropped  bool // the source object asks for it no more
	isRecorded bool
	isOpen     bool // a request is under way
	isGone     bool // it is not in the ledger any more
	hasFailed  bool // in this wave
}

// didAll is the did of a claim that was done in a run before.
const didAll = math.MaxUint32

// trouble says why an attempt failed. It does not change, but for due.
type trouble struct {
	failures      int
	due           time.Time // only if the claim waits
	cause, reason string
}

// isAfter reports whether the trouble is due only later. If the clock was set back meanwhile, the
// claim waits no longer than any other.
func (t *trouble) isAfter(now time.Time) bool {
	if t.due.After(now.Add(maxDelay + maxDelay/16)) { // dueAfter rounds up
		t.due = now.Add(maxDelay)
	}
	return t.due.After(now)
}

func (c *claim) isOwner() bool { return c.owns && c.place.owner() == c }

// isForeign reports whether the target was somebody else's at the last attempt.
func (c *claim) isForeign() bool {
	return c.state != Done && c.trouble != nil && c.trouble.cause == CauseForeign
}

// shown returns the state of the claim as others see it.
func (c *claim) shown() State {
	switch {
	case c.isDropped:
		return Dropped
	case c.owns && !c.isOwner():
		return Behind
	}
	return c.state
}

// view returns the claim as others see it.
func (c *claim) view() Claim {
	v := Claim{Asker: c.asker.id(), Target: c.place.target(), Owns: c.owns, State: c.shown()}
	if t := c.trouble; t != nil {
		v.Failures, v.Due, v.Cause, v.Reason = t.failures, t.due, t.cause, t.reason
	}
	if c.former != nil {
		v.Former = *c.former
	}
	return v
}

// rule returns a rule, and makes it if there is none.
func (l *ledger) rule(id string) *rule {
	r := l.rules[id]
	if r == nil {
		r = &rule{id: strings.Clone(id), askers: make(map[delta.Key]*asker)}
		l.rules[r.id] = r
	}
	return r
}

// asker returns a source object, or nil if it has no claims.
func (l *ledger) asker(a Asker) *asker {
	if r := l.rules[a.Rule]; r != nil {
		return r.askers[a.Key]
	}
	return nil
}

// find returns a claim, or nil.
func (l *ledger) find(a Asker, at Target) *claim {
	asker := l.asker(a)
	if asker == nil {
		return nil
	}
	return l.claims[claimKey{asker, l.places[placeKeyOf(at)]}]
}

// isFull reports whether there is no room for another claim that owns, or that does not.
func (l *ledger) isFull(owns bool) bool {
	if owns {
		return l.counts[1] >= MaxClaims
	}
	return l.counts[0] >= MaxClaims
}

// add makes a claim that owns nothing, if there is none yet.
func (l *ledger) add(a Asker, at Target) *claim {
	of := l.asker(a)
	if of == nil {
		of = &asker{rule: l.rule(a.Rule), key: cloned(a.Key)}
		of.rule.askers[of.key] = of
	}
	key := placeKeyOf(at)
	p := l.places[key]
	if p == nil {
		key.key = cloned(key.key)
		p = &place{placeKey: key, version: strings.Clone(at.Resource.Version)}
		l.places[key] = p
	}
	if c := l.claims[claimKey{of, p}]; c != nil {
		return c
	}
	c := &claim{claimKey: claimKey{of, p}, state: Asked}
	c.inAsker.Value, c.inPlace.Value = c, c
	of.claims.PushBack(&c.inAsker)
	p.claims++
	l.claims[c.claimKey] = c
	l.counts[0]++
	return c
}

// cloned returns a key that keeps no other memory alive.
func cloned(k delta.Key) delta.Key {
	both := k.Namespace + k.Name
	if k.Namespace == "" || k.Name == "" {
		both = strings.Clone(both)
	}
	return delta.Key{Namespace: both[:len(k.Namespace)], Name: both[len(k.Namespace):]}
}

// remove removes a claim, but not its record.
func (l *ledger) remove(c *claim) {
	of, p := c.asker, c.place
	l.leaveTroubled(c)
	c.isGone = true
	delete(l.claims, c.claimKey)
	of.claims.Remove(&c.inAsker)
	if of.claims.Front() == nil {
		delete(of.rule.askers, of.key)
	}
	if len(of.rule.askers) == 0 && of.rule.whole == "" {
		delete(l.rules, of.rule.id)
	}
	if c.owns {
		p.owners.Remove(&c.inPlace)
		l.counts[1]--
	} else {
		l.counts[0]--
	}
	p.claims--
	l.tidy(p)
}

// tidy forgets a place that has neither claims nor requests.
func (l *ledger) tidy(p *place) {
	if p.claims == 0 && p.open == 0 && l.places[p.placeKey] == p {
		delete(l.places, p.placeKey)
	}
}

// erase removes a claim and its record.
func (l *ledger) erase(c *claim) {
	l.remove(c)
	l.deleteRow(c)
}

// reset makes a claim one that was not tried yet.
func (l *ledger) reset(c *claim) {
	c.state, c.event = Asked, 0
	l.setTrouble(c, nil)
}

// tryAgain has the targets of a source object tried again for the same event, if one was refused.
// Only for those that were refused it records that.
func (l *ledger) tryAgain(a *asker) {
	hasRefused := false
	for e := a.claims.Front(); e != nil; e = e.Next() {
		if c := e.Value; c.state == Refused && c.event != 0 {
			hasRefused, c.event = true, 0
			l.put(c)
		}
	}
	for e := a.claims.Front(); hasRefused && e != nil; e = e.Next() {
		if c := e.Value; c.state == Done && c.event != 0 {
			c.event = 0
		}
	}
}

// setTrouble notes why the last attempt at a claim failed; nil if it did not.
func (l *ledger) setTrouble(c *claim, now *trouble) {
	l.leaveTroubled(c)
	if c.trouble = now; now == nil {
		return
	}
	namespace := c.place.key.Namespace
	if l.troubled[namespace] == nil {
		l.troubled[namespace] = make(map[*claim]struct{})
	}
	l.troubled[namespace][c] = struct{}{}
}

// leaveTroubled takes a claim out of those with a trouble.
func (l *ledger) leaveTroubled(c *claim) {
	if c.trouble == nil {
		return
	}
	namespace := c.place.key.Namespace
	delete(l.troubled[namespace], c)
	if len(l.troubled[namespace]) == 0 {
		delete(l.troubled, namespace)
	}
}
