package gather

import (
	"container/list"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
)

// Change is one change that waits for the event of its group. Once added, it belongs to the Groups.
type Change struct {
	Group rule.Group
	Value delivery.Delivery
	Since time.Time // when it came
	// Sent means that the handler may have received the change already, so a deletion does not
	// cancel it.
	Sent bool
	// N is the number of its record. 0 means that it has none yet.
	N uint64

	size int64
	at   *list.Element // in its group
	// older and newer are the changes of the object that came before and after, in any group.
	older, newer *Change
}

func (c *Change) key() delta.Key { return c.Value.Delta.Key() }

func (c *Change) place() place { return place{c.Group, c.key()} }

// next returns the change behind c in its group, or nil.
func (c *Change) next() *Change { return changeAt(c.at.Next()) }

// ordered holds the changes of a group, the newest last.
type ordered struct{ list.List }

// first returns the oldest change, or nil.
func (l *ordered) first() *Change { return changeAt(l.Front()) }

func changeAt(e *list.Element) *Change {
	if e == nil {
		return nil
	}
	return e.Value.(*Change)
}

// place is an object in a group.
type place struct {
	group rule.Group
	key   delta.Key
}

// changes holds the changes that wait, in all groups, and their records.
type changes struct {
	bounds  Bounds
	records Records // may be nil
	number  uint64  // the highest of a record

	last  map[place]*Change         // the newest change of an object in a group
	held  map[delta.Key]ofOneObject // the changes of an object, in any group
	items int
	bytes int64
}

// ofOneObject are the changes of one object that wait.
type ofOneObject struct {
	oldest, newest *Change
	n              int
}

func newChanges(b Bounds, r Records, number uint64) changes {
	return changes{
		bounds: b, records: r, number: number,
		last: make(map[place]*Change), held: make(map[delta.Key]ofOneObject),
	}
}

// isFull reports whether some more items would pass the bounds, or without more, whether they are
// passed.
func (s *changes) isFull(items int, bytes int64) bool {
	return s.items+items > s.bounds.MaxItems || s.bytes+bytes > s.bounds.MaxBytes
}

// record records a change under a new number.
func (s *changes) record(c *Change) {
	s.number++
	c.N = s.number
	if s.records != nil {
		s.records.Put(c)
	}
}

// unrecord drops the record of a change, if it has one.
func (s *changes) unrecord(c *Change) {
	if s.records != nil && c.N != 0 {
		s.records.Delete(c)
	}
}

// add adds a change as the newest of its object and its group.
func (s *changes) add(to *group, c *Change) {
	c.at = to.changes.PushBack(c)
	s.last[c.place()] = c
	s.items++
	s.bytes += c.size
	s.link(c)
}

// link adds a change behind the others of its object.
func (s *changes) link(c *Change) {
	key := c.key()
	of := s.held[key]
	c.older, c.newer = of.newest, nil
	if of.newest != nil {
		of.newest.newer = c
	} else {
		of.oldest = c
	}
	of.newest = c
	of.n++
	s.held[key] = of
}

// renew gives a change another value, which is newer than all others of its object and its group.
func (s *changes) renew(of *group, c *Change, value delivery.Delivery) {
	s.bytes -= c.size
	c.Value, c.size = value, delivery.Size(&value)
	s.bytes += c.size
	of.changes.MoveToBack(c.at)
	s.unlink(c)
	s.link(c)
	s.unrecord(c) // a restart puts changes in the order of their numbers
	s.record(c)
}

// remove takes a change out of its group, and drops its record.
func (s *changes) remove(from *group, c *Change) {
	s.detach(from, c)
	s.unrecord(c)
}

// empty takes all changes out of a group, but leaves their records.
func (s *changes) empty(from *group) (all []*Change) {
	for c := from.changes.first(); c != nil; c = from.changes.first() {
		s.detach(from, c)
		all = append(all, c)
	}
	return all
}

// detach undoes add.
func (s *changes) detach(from *group, c *Change) {
	from.changes.Remove(c.at)
	if p := c.place(); s.last[p] == c {
		delete(s.last, p)
	}
	s.items--
	s.bytes -= c.size
	s.unlink(c)
}

// unlink undoes link.
func (s *changes) unlink(c *Change) {
	key := c.key()
	of := s.held[key]
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		of.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		of.newest = c.older
	}
	c.older, c.newer = nil, nil
	if of.n--; of.n == 0 {
		delete(s.held, key)
		return
	}
	s.held[key] = of
}

// group is what one group has gathered, and when its last event was made.
type group struct {
	id       rule.Group
	changes  ordered
	since    time.Time // when the first of them came
	hadEvent bool
	made     int64 // when its last event was made, as in calendar
	key      delta.Key
	isBusy   bool // is in Groups.busy
}

// restart makes the first change that is left the one from which the group's time counts.
func (of *group) restart() {
	if first := of.changes.first(); first != nil {
		of.since = first.Since
	}
}
