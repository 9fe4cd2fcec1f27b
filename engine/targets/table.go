package targets

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// Table has all claims of one informd. It is safe for concurrent use. Methods whose comments say so
// are called within a cut of the state, and record in it what they change.
type Table struct {
	// mu guards the fields below. It is taken within the state's cut, before the locks of records.
	mu     sync.Mutex
	ledger ledger
	waves  uint32 // the number of the last wave
	exact  bool   // see Exact
}

// New returns a table without claims. If r is nil, it keeps them in memory only.
func New(r Records) *Table {
	return &Table{ledger: ledger{
		records: r, rules: make(map[string]*rule), places: make(map[placeKey]*place),
		claims: make(map[claimKey]*claim), troubled: make(map[string]map[*claim]struct{}),
	}}
}

// Exact makes the table give each delay in full, to the moment. It is for an engine in virtual time,
// and is called before anything else.
func (t *Table) Exact() { t.exact = true }

// Restore restores the claims from all notes of all rules, and leaves other notes alone. A row that
// it cannot read is deleted, and the rule's table is not whole any more. Restore is called within a
// cut, before anything else.
func (t *Table) Restore(notes iter.Seq[records.Note]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.restoreAll(notes)
}

// Whole returns what [Table.SetWhole] noted for a rule, or "".
func (t *Table) Whole(rule string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.ledger.rules[rule]; r != nil {
		return r.whole
	}
	return ""
}

// SetWhole notes that the table has all targets of a rule that are of some resources: the text says
// which, and is the caller's. "" means that the table may lack some. SetWhole is called within a
// cut.
func (t *Table) SetWhole(rule, resources string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ledger.setWhole(rule, resources)
}

// Put adds a claim that owns, as the target has the marks of a in the cluster. It comes behind the
// claims that are there, or in front of them. Put returns false if the table has no room. It is
// called within a cut.
func (t *Table) Put(a Asker, at Target, isFirst bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &t.ledger
	if c := l.find(a, at); c != nil && c.owns {
		if isFirst && !c.isOwner() { // a wave may be about to ask for it: it goes on with this claim
			c.place.owners.Remove(&c.inPlace)
			l.pass(c, c.place.owner())
			l.reset(c)
			c.did = 0
			l.put(c)
		}
		return true
	}
	if !at.CanExist() || l.isFull(true) {
		return false
	}
	c := l.add(a, at)
	before := c.place.owner()
	isDeleting := before != nil && before.isDropped && c.place.open > 0
	l.own(c, isFirst)
	if l.takeOver(c); c.isOwner() && !isDeleting {
		c.state = Done
	}
	l.put(c)
	return true
}

// IsFull reports whether the table has no room for a claim that owns, or for one that does not.
func (t *Table) IsFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledger.isFull(true) || t.ledger.isFull(false)
}

// Forget forgets what nobody needs once the delivery of a source object is over: claims that own
// nothing, and those of a wave that did not get to [Wave.Asked]. If a target was refused, the same
// event is a new one if it comes again: somebody has asked for that. Forget returns the claims that
// have a target now. Call it within the cut that ends the delivery.
func (t *Table) Forget(a Asker) (heirs []Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.ledger.asker(a)
	if of == nil {
		return nil
	}
	isOver := func(c *claim) bool { return !c.owns || !c.isRecorded }
	heirs = awake(t.ledger.release([]*asker{of}, isOver, true))
	t.ledger.tryAgain(of)
	return heirs
}

// Thin forgets n of what Forget would, if there is more than that, so that Forget is quick. It
// reports whether it did. It is called within a cut.
func (t *Table) Thin(a Asker, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.ledger.asker(a)
	if of == nil {
		return false
	}
	some := make([]*claim, 0, n+1)
	for e := of.claims.Front(); e != nil && len(some) <= n; e = e.Next() {
		if c := e.Value; !c.owns {
			some = append(some, c)
		}
	}
	if len(some) <= n {
		return false
	}
	for _, c := range some[:n] {
		t.ledger.erase(c)
	}
	return true
}

// Release removes those claims of a rule for which which returns true. Their targets stay in the
// cluster. Release returns the claims that have a target now. It is called within a cut, and which
// must not use the table.
func (t *Table) Release(rule string, which func(Claim) bool) (heirs []Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	match := func(c *claim) bool { return which(c.view()) }
	return awake(t.ledger.release(t.askers(rule), match, true))
}

// DropRule removes all claims of a rule that is gone. Their targets stay in the cluster. DropRule
// returns the claims that have a target now. It is called within the cut that drops the rule: the
// rows go with the rule's other notes.
func (t *Table) DropRule(rule string) (heirs []Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := func(*claim) bool { return true }
	heirs = awake(t.ledger.release(t.askers(rule), all, false))
	delete(t.ledger.rules, rule)
	return heirs
}

// askers returns the source objects of a rule that have claims. t.mu is held.
func (t *Table) askers(rule string) (all []*asker) {
	if r := t.ledger.rules[rule]; r != nil {
		for _, a := range r.askers {
			all = append(all, a)
		}
	}
	return all
}

// awake returns those heirs that can be tried, in the order in which they asked. Settle returns the
// others, once the request for their target has ended.
func awake(heirs []*claim) (list []Claim) {
	slices.SortFunc(heirs, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.order, b.order), compareAskers(a.asker.id(), b.asker.id()))
	})
	for _, c := range heirs {
		if c.place.open == 0 {
			list = append(list, c.view())
		}
	}
	return list
}

// Retry makes due what waits for a source object. The rows keep the time.
func (t *Table) Retry(a Asker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.ledger.asker(a)
	if of == nil {
		return
	}
	for e := of.claims.Front(); e != nil; e = e.Next() {
		if trouble := e.Value.trouble; trouble != nil {
			trouble.due = time.Time{}
		}
	}
}

// Appeared makes due what failed in a namespace that has appeared, and returns the source objects
// to try. The rows keep the time: the next run sees the namespace appear, too.
func (t *Table) Appeared(namespace string) []Asker {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[Asker]struct{})
	for c := range t.ledger.troubled[namespace] {
		switch c.state {
		case Waits:
			c.trouble.due = time.Time{}
		case Done:
			c.state = Asked
		default:
			continue
		}
		found[c.asker.id()] = struct{}{}
	}
	askers := make([]Asker, 0, len(found))
	for a := range found {
		askers = append(askers, a)
	}
	slices.SortFunc(askers, compareAskers)
	return askers
}

func compareAskers(a, b Asker) int {
	return cmp.Or(cmp.Compare(a.Rule, b.Rule), compareKeys(a.Key, b.Key))
}

func compareKeys(a, b delta.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Pending returns the source objects of a rule with targets that wait for a wave: whatever became
// of the deliveries that asked for them.
func (t *Table) Pending(rule string) (keys []delta.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.askers(rule) {
		for e := a.claims.Front(); e != nil; e = e.Next() {
			c := e.Value
			if (c.state == Asked || c.state == Waits) && (!c.owns || c.isOwner()) {
				keys = append(keys, a.key)
				break
			}
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// Of returns the claims of a source object, in the order in which they were made.
func (t *Table) Of(a Asker) (claims []Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.ledger.asker(a); of != nil {
		for e := of.claims.Front(); e != nil; e = e.Next() {
			claims = append(claims, e.Value.view())
		}
	}
	return claims
}

// Owner returns the claim that has a target. ok is false if there is none.
func (t *Table) Owner(at Target) (owner Claim, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.ledger.places[placeKeyOf(at)]
	if p == nil || p.owner() == nil {
		return Claim{}, false
	}
	return p.owner().view(), true
}

// page is how many claims are copied while the lock is held.
const page = 1000
