package targets

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// Records take rows. *state.Store implements it.
type Records interface {
	PutNote(records.Note)
	DeleteNote(rule, name string)
}

// A row is a note of its rule. Its name is rowPrefix, and then the source object and the target:
// namespace, name, group, resource, subresource, namespace and name, with slashes in between. The
// names of Kubernetes have none.
const (
	rowPrefix = "target "
	rowParts  = 7
	// wholeNote is the name of the note that says which resources were listed for a rule.
	wholeNote = "targets"
)

// maxOrder is the highest order that a row may have. It leaves room for the orders of later claims.
const maxOrder = 1 << 62

// rowName returns the name of a claim's row.
func (c *claim) rowName() string {
	k, from, to := c.place.kind.Value(), c.asker.key, c.place.key
	return rowPrefix + from.Namespace + "/" + from.Name + "/" +
		k.group + "/" + k.resource + "/" + k.subresource + "/" + to.Namespace + "/" + to.Name
}

// parseRowName returns what rowName put into a name.
func parseRowName(name string) (from delta.Key, at Target, ok bool) {
	part := strings.Split(strings.TrimPrefix(name, rowPrefix), "/")
	if len(part) != rowParts {
		return from, at, false
	}
	at = Target{
		Resource:    schema.GroupVersionResource{Group: part[2], Resource: part[3]},
		Subresource: part[4],
		Key:         delta.Key{Namespace: part[5], Name: part[6]},
	}
	return delta.Key{Namespace: part[0], Name: part[1]}, at, at.CanExist()
}

// put records a claim.
func (l *ledger) put(c *claim) {
	c.isRecorded = true
	if l.records == nil {
		return
	}
	row := records.Claim{
		State: uint8(c.state), Owns: c.owns, Dropped: c.isDropped, Order: c.order, Event: c.event,
		Version: c.place.version,
	}
	if t := c.trouble; t != nil {
		row.Failures, row.Due, row.Cause, row.Reason = t.failures, t.due, t.cause, t.reason
	}
	if c.former != nil {
		row.FormerRule, row.FormerKey = c.former.Rule, c.former.Key
	}
	value := records.AppendClaim(make([]byte, 0, 32), &row)
	l.records.PutNote(records.Note{Rule: c.asker.rule.id, Name: c.rowName(), Value: value})
}

// deleteRow removes the record of a claim, if it has one.
func (l *ledger) deleteRow(c *claim) {
	if l.records != nil && c.isRecorded {
		l.records.DeleteNote(c.asker.rule.id, c.rowName())
	}
}

// restore makes a claim of a row. It returns nil if it cannot read it.
func (l *ledger) restore(n records.Note) *claim {
	key, at, ok := parseRowName(n.Name)
	row, err := records.ReadClaim(n.Value)
	state := State(row.State)
	isSane := Asked <= state && state <= Refused && -maxOrder <= row.Order && row.Order <= maxOrder
	if !ok || err != nil || !isSane {
		return nil
	}
	at.Resource.Version = row.Version
	c := l.add(Asker{Rule: n.Rule, Key: key}, at)
	c.state, c.event, c.isDropped, c.isRecorded = state, row.Event, row.Dropped, true
	c.order, c.did = row.Order, didAll
	l.order = max(l.order, row.Order)
	if row.Failures > 0 || row.Cause != "" || state == Waits {
		l.setTrouble(c, &trouble{row.Failures, row.Due, row.Cause, row.Reason})
	}
	if row.FormerRule != "" {
		c.former = &Asker{Rule: row.FormerRule, Key: row.FormerKey}
	}
	if row.Owns {
		c.owns = true
		l.counts[0]--
		l.counts[1]++
	}
	return c
}

// restoreAll makes claims of all rows among some notes.
func (l *ledger) restoreAll(notes iter.Seq[records.Note]) {
	var owners []*claim
	damaged := make(map[string]struct{}) // rules
	for n := range notes {
		if n.Name == wholeNote {
			l.rule(n.Rule).whole = string(n.Value)
		}
		if !strings.HasPrefix(n.Name, rowPrefix) {
			continue
		}
		switch c := l.restore(n); {
		case c == nil:
			damaged[n.Rule] = struct{}{}
			if l.records != nil {
				l.records.DeleteNote(n.Rule, n.Name)
			}
		case c.owns:
			owners = append(owners, c)
		}
	}
	for id := range damaged {
		l.setWhole(id, "")
	}
	slices.SortFunc(owners, func(a, b *claim) int {
		if a.order != b.order {
			return cmp.Compare(a.order, b.order)
		}
		return compareAskers(a.asker.id(), b.asker.id())
	})
	for _, c := range owners {
		first := c.place.owner()
		c.place.owners.PushBack(&c.inPlace)
		if first != nil && first.isDropped { // its deletion was under way
			l.erase(first)
			l.handOver(first)
		}
	}
}

// setWhole records what [Table.SetWhole] notes.
func (l *ledger) setWhole(id, resources string) {
	r := l.rule(id)
	r.whole = resources
	switch {
	case l.records == nil:
	case resources == "":
		l.records.DeleteNote(id, wholeNote)
	default:
		note := records.Note{Rule: id, Name: wholeNote, Value: []byte(resources)}
		l.records.PutNote(note)
	}
	if len(r.askers) == 0 && resources == "" {
		delete(l.rules, id)
	}
}
