package queue

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
)

// disk is a Store that writes when a test says so. Load returns only what is written, as it was
// written.
type disk struct {
	t         testing.TB
	unwritten map[uint64]*recordOf // nil value: deleted
	written   map[uint64]*recordOf
	noRoom    bool
	failing   bool
	loads     int
	cut       uint64 // what Put returns
}

type recordOf struct {
	key string
	Record[change]
}

func newDisk(t testing.TB) *disk {
	return &disk{t: t, unwritten: map[uint64]*recordOf{}, written: map[uint64]*recordOf{}}
}

func (d *disk) Put(n uint64, key string, r Record[change]) (cut uint64) {
	if n == 0 {
		d.t.Errorf("%v of %s has no number", r, key)
	}
	d.unwritten[n] = &recordOf{key, r}
	return d.cut
}

func (d *disk) Delete(n uint64, key string) {
	if r := d.latest(n); r == nil || r.key != key {
		d.t.Errorf("%d of %s is deleted but was never there", n, key)
	}
	d.unwritten[n] = nil
}

func (d *disk) Room(int64) bool { return !d.noRoom }

func (d *disk) latest(n uint64) *recordOf {
	if r, ok := d.unwritten[n]; ok {
		return r
	}
	return d.written[n]
}

// write writes everything.
func (d *disk) write() {
	for n, r := range d.unwritten {
		if r == nil {
			delete(d.written, n)
		} else {
			d.written[n] = r
		}
	}
	clear(d.unwritten)
}

func (d *disk) Load(key string, after uint64, maxItems int, maxBytes int64) (out []Numbered[change], err error) {
	d.loads++
	if d.failing {
		return nil, errors.New("input/output error")
	}
	for _, n := range d.numbers(key, d.written) {
		if r := d.written[n]; n > after && len(out) < maxItems && (len(out) == 0 || maxBytes > 0) {
			out = append(out, Numbered[change]{n, r.Record})
			maxBytes -= sizeOf(r.Value)
		}
	}
	return out, nil
}

// numbers returns the numbers of a key's records, in order.
func (d *disk) numbers(key string, of map[uint64]*recordOf) (numbers []uint64) {
	for n, r := range of {
		if r != nil && r.key == key {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, cmp.Compare[uint64])
	return numbers
}

// all returns everything that is recorded, written or not.
func (d *disk) all() map[uint64]*recordOf {
	all := maps.Clone(d.written)
	maps.Copy(all, d.unwritten)
	maps.DeleteFunc(all, func(_ uint64, r *recordOf) bool { return r == nil })
	return all
}

// crash returns a new queue with what the disk has written, as a new process would have.
func (d *disk) crash(o Options[string, change]) *Queue[string, change] {
	clear(d.unwritten)
	o.Store = d
	q := newChanges(o)
	keys := map[string]bool{}
	for _, r := range d.written {
		keys[r.key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		numbers, bytes := d.numbers(key, d.written), int64(0)
		for _, n := range numbers {
			bytes += sizeOf(d.written[n].Value)
		}
		q.Restore(key, len(numbers), numbers[0], numbers[len(numbers)-1], bytes)
	}
	return q
}

func nothing() {}

// An item says which cut holds its record as it is now, also after a merge and a retry.
func TestItemsNameTheCutOfTheirRecord(t *testing.T) {
	d := newDisk(t)
	merge := func(_, newer change, _ bool) (change, bool, bool) { return newer, true, true }
	q := New(Options[string, change]{Store: d, Merge: merge})
	take := func(what string, want uint64) {
		t.Helper()
		if item, ok := q.Take(); !ok || item.Cut != want {
			t.Errorf("%s: cut %d, %v; want %d", what, item.Cut, ok, want)
		}
	}
	d.cut = 5
	q.Add("a", change{})
	q.Add("b", change{})
	d.cut = 6
	q.Add("b", change{})
	take("added", 5)
	take("merged", 6)
	d.cut = 7
	q.Postpone("a", change{}, 0)
	take("postponed, so its record is as it was", 5)
	q.Retry("a", change{}, 0)
	take("retried", 7)
}

// refill loads as long as there is anything to load now.
func refill(q *Queue[string, change]) error {
	var errs error
	for more := true; more; {
		var err error
		more, err = q.Refill(nothing, nothing)
		errs = errors.Join(errs, err)
	}
	return errs
}
