package state

import (
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// maxBatch is the size in bytes at which a transaction ends and another one begins.
const maxBatch = 16 << 20

// listBatch replaces maxBatch while the cut holds only first lists. Pebble keeps a transaction of
// more than 4 MiB in memory, together with its slack, until it becomes a table.
const listBatch = 3 << 20

// maxSpare is the largest map that is kept for reuse.
const maxSpare = 1 << 13

// cut is everything that was recorded up to a moment.
type cut struct {
	records
	informers []informerCut
	lanes     []laneCut
}

type informerCut struct {
	*Objects
	objects map[delta.Key]objectRecord
	version string
	told    bool
}

type laneCut struct {
	*Lane
	deliveries map[uint64]*unwrittenDelivery
}

// swap takes the unwritten records. Nothing can be recorded meanwhile, so it only exchanges maps.
func (s *Store) swap() cut {
	s.cut.Lock()
	defer s.cut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := cut{records: s.records}
	s.records, s.dropping = newRecords(), c.dropped
	for id := range c.letters {
		if s.buried != nil {
			s.buried[id] = struct{}{}
		}
	}
	for _, i := range s.informers {
		if len(i.unwritten) == 0 && !i.touched {
			continue
		}
		c.informers = append(c.informers, informerCut{i, i.unwritten, i.version, i.told})
		if i.unwritten, i.spare = i.spare, nil; i.unwritten == nil {
			i.unwritten = make(map[delta.Key]objectRecord)
		}
		i.touched = false
	}
	for _, l := range s.lanes {
		if len(l.unwritten) == 0 {
			continue
		}
		c.lanes = append(c.lanes, laneCut{l, l.unwritten})
		if l.unwritten, l.spare = l.spare, nil; l.unwritten == nil {
			l.unwritten = make(map[uint64]*unwrittenDelivery)
		}
		l.numbers.swapped()
		l.unwrittenTally.take()
	}
	records, bytes := s.unwritten.take()
	s.inFlight.add(records, bytes)
	return c
}

// full returns the size in bytes at which a transaction of the cut ends and another one begins. If
// no informer could be resumed before the cut or after it, one large transaction would gain almost
// nothing.
func (c cut) full(limit int) int {
	if len(c.informers) == 0 {
		return limit
	}
	for _, i := range c.informers {
		if i.version != "" || i.written.resourceVersion != "" {
			return limit
		}
	}
	return min(limit, listBatch)
}

// done returns the cut's maps for reuse.
func (s *Store) done(c cut) {
	s.cut.Lock()
	defer s.cut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropping = nil
	for id, l := range c.letters {
		if _, again := s.letters[id]; l == nil && !again {
			delete(s.buried, id)
		}
	}
	for _, i := range c.informers {
		if len(i.objects) <= maxSpare {
			clear(i.objects)
			i.spare = i.objects
		}
	}
	for _, l := range c.lanes {
		if len(l.deliveries) <= maxSpare {
			clear(l.deliveries)
			l.spare = l.deliveries
		}
	}
	s.inFlight.take()
}

// flush writes what was recorded. It takes as long as the disk takes.
func (s *Store) flush(d *database) error {
	now := s.opts.Clock.Now()
	s.health.writing(now)
	c := s.swap()
	batch := d.pebble.NewBatch(pebble.WithMaxRetainedSizeBytes(4 << 20))
	w := &writer{db: d, batch: batch, full: c.full(s.opts.limits.batch)}
	err := w.write(c)
	if closing := w.batch.Close(); err == nil {
		err = closing
	}
	if err != nil {
		d.fail.report(damage(err))
		return err
	}
	s.done(c)
	s.health.wrote(now)
	return nil
}

// writer writes one cut, in several transactions if the cut is large.
type writer struct {
	db         *database
	batch      *pebble.Batch
	full       int    // size in bytes at which a batch ends
	key, value []byte // scratch
	err        error  // the first error; nothing is written after it
}

// write writes in an order in which every prefix is harmless. See the package comment.
func (w *writer) write(c cut) error {
	if c.cluster != nil { // first: it says whose state this is
		w.set(clusterKey, c.cluster.append(nil))
	}
	for _, o := range c.dropped {
		w.drop(o, c.rules)
	}
	for _, i := range c.informers {
		w.begin(i)
	}
	for _, l := range c.lanes {
		w.deliveries(l, false)
	}
	for id, l := range c.letters {
		if l != nil {
			w.value = appendLetter(w.value[:0], l, w.references(letters))
			w.set(letterKey(id), w.value)
		}
	}
	for name, r := range c.rules {
		if r == nil {
			w.delete(ruleKey(name))
			continue
		}
		w.value = appendRule(w.value[:0], r)
		w.set(ruleKey(name), w.value)
	}
	for _, l := range c.lanes {
		w.deliveries(l, true)
	}
	for _, i := range c.informers {
		w.objects(i)
	}
	for id, l := range c.letters {
		if l == nil {
			w.delete(letterKey(id))
		}
	}
	for _, i := range c.informers {
		w.end(i)
	}
	if w.err == nil {
		w.err = w.db.dictionaries.tidy(w.batch)
	}
	return w.commit()
}

// set and delete begin another transaction when the current one is full.
func (w *writer) set(key, value []byte) {
	if w.err == nil {
		w.err = w.batch.Set(key, value, nil)
	}
	w.mayCommit()
}

func (w *writer) delete(key []byte) {
	if w.err == nil {
		w.err = w.batch.Delete(key, nil)
	}
	w.mayCommit()
}

func (w *writer) mayCommit() {
	if w.err == nil && w.batch.Len() > w.full {
		w.err = w.commit()
		w.batch.Reset()
	}
}

func (w *writer) commit() error {
	if w.err != nil || w.batch.Empty() {
		return w.err
	}
	return w.db.commit(w.batch)
}

// references returns the function by which records of an owner refer to dictionaries. That function
// writes a dictionary that is not on disk.
func (w *writer) references(o owner) references {
	return func(with *object.Dictionary) dictionaryID {
		id, err := w.db.dictionaries.refer(o, with, w.batch)
		if w.err == nil {
			w.err = err
		}
		return id
	}
}

// drop removes everything that belongs to an owner. It also removes the record without which the
// rule or informer counts as new.
func (w *writer) drop(o owner, rules map[string]*RuleMemory) {
	w.db.dictionaries.keep(o, nil)
	if w.err == nil {
		w.err = w.batch.DeleteRange(o[:], after(o[:]), nil)
	}
	if o[0] == objectPrefix {
		w.delete(informerKey(o))
		return
	}
	for name := range rules {
		if newOwner(deliveryPrefix, name) == o {
			w.delete(ruleKey(name))
		}
	}
}

// begin marks the informer as not resumable until end. It packs the objects first, because
// deliveries share them.
func (w *writer) begin(i informerCut) {
	if i.loaded.CompareAndSwap(false, true) && i.written == (informerRecord{}) {
		w.drop(i.owner, nil) // nobody has loaded what is on disk
	}
	for _, r := range i.objects {
		if r.object != nil && !i.opts.Secret {
			i.opts.Packer.Pack(r.object)
		}
	}
	if i.written.id == "" {
		i.written = informerRecord{id: i.id, kept: i.opts.Kept}
	} else if len(i.objects) > 0 && i.written.kept != i.opts.Kept {
		i.written.kept = KeptMixed
	}
	i.written.resourceVersion = ""
	w.informer(i)
}

func (w *writer) end(i informerCut) {
	i.written.resourceVersion = i.version
	if i.told && i.version != "" {
		i.written.kept = i.opts.Kept
	}
	w.informer(i)
}

func (w *writer) informer(i informerCut) {
	w.value = i.written.append(w.value[:0])
	w.set(informerKey(i.owner), w.value)
}

func (w *writer) objects(i informerCut) {
	refer := w.references(i.owner)
	for key, r := range i.objects {
		w.key = appendObjectKey(w.key[:0], i.owner, key)
		if r.object == nil {
			w.delete(w.key)
			continue
		}
		w.value = appendObjectRecord(w.value[:0], r.object, r.inside, i.opts.Secret, refer)
		w.set(w.key, w.value)
	}
}

// deliveries writes the waiting deliveries and removes the gone ones, in the order of their
// numbers. A reader, meanwhile or after a crash, takes the deliveries that it finds for all up to
// the last number.
func (w *writer) deliveries(l laneCut, gone bool) {
	refer := w.references(l.owner)
	for _, n := range slices.Sorted(maps.Keys(l.deliveries)) {
		d := l.deliveries[n]
		if d.gone != gone {
			continue
		}
		w.key = appendDeliveryKey(w.key[:0], l.owner, d.key, n)
		if gone {
			w.delete(w.key)
			l.left()
			continue
		}
		w.value = appendDelivery(w.value[:0], &d.record, l.opts.Secret, refer)
		w.set(w.key, w.value)
		if !d.again {
			l.disk.add(1, int64(len(w.key)+len(w.value)))
		}
	}
}

// left notes that a delivery has left the disk. Its size is unknown, so it counts as average.
func (l *Lane) left() {
	records, bytes := l.disk.records.Load(), l.disk.bytes.Load()
	if records <= 1 {
		l.disk.take()
		return
	}
	l.disk.add(-1, -bytes/records)
}
