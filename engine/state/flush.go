// Cuts on their way into the log: taking what was recorded, and writing it as a frame.

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// maxSpare is how many records a map may hold to be kept for reuse.
const maxSpare = 1 << 10

// cut is everything that was recorded up to a moment, and not before the cut before it.
type cut struct {
	number uint64
	storeRecords
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
	before     [2]uint64 // the highest numbers that earlier cuts may have
}

// swap takes the unwritten records, for the log with a number. Nothing can be recorded meanwhile,
// so it only exchanges maps.
func (s *Store) swap(number uint64) cut {
	s.cut.Lock()
	defer s.cut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := cut{number: s.number, storeRecords: s.storeRecords}
	s.number++
	s.storeRecords = newStoreRecords()
	for _, o := range c.dropped {
		s.dropping = append(s.dropping, dropping{o, number})
	}
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
		c.lanes = append(c.lanes, laneCut{l, l.unwritten, l.numbers.taken()})
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

// done returns the cut's maps for reuse.
func (s *Store) done(c cut) {
	s.cut.Lock()
	defer s.cut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
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
}

// append writes what was recorded to the log. It takes as long as the operating system takes. Only
// the goroutine that appends calls it.
func (s *Store) append(d *database) error {
	now := s.opts.Clock.Now()
	s.health.begin(appending, now)
	c := s.swap(d.log.End().File)
	bytes, err := d.append(c)
	if err != nil {
		return err
	}
	s.done(c)
	records, _ := s.inFlight.take()
	s.unsynced.add(records, bytes)
	s.health.appended(now)
	s.logged.reach(c.number)
	s.isLate.Store(false)
	if s.unsynced.bytes.Load() > earlyFlush {
		s.wakeSync.send()
	}
	return nil
}

// append writes a cut to the log, and returns the size of its frames. An error says nothing about
// what is on disk: there the log ends with the cut before.
func (d *database) append(c cut) (bytes int64, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("a record cannot be made: %v", what)
		}
	}()
	w, began := &d.writer, d.log.End()
	w.db, w.logID = d, d.log.ID()
	w.frame.Reset(began)
	w.frame.SpillAt(d.limits.part, w.spill)
	w.write(c)
	if err := w.frame.Err(); err != nil {
		return 0, err
	}
	if w.frame.IsEmpty() {
		return 0, nil
	}
	end, err := d.log.Append(&w.frame)
	if err != nil {
		return 0, err
	}
	return end.Offset - began.Offset, nil
}

// spill writes the part of a cut that is ready as one of several frames. Before the first one, it
// records in the store that its logs may have such cuts. The store of replicas says so already.
func (w *writer) spill() error {
	if !w.db.isShared {
		if err := w.db.raiseFormat(records.PartedFormat); err != nil {
			return err
		}
	}
	end, err := w.db.log.AppendPart(&w.frame)
	if err != nil {
		return err
	}
	w.frame.Reset(end)
	return nil
}

// writer writes cuts into frames of the log.
type writer struct {
	db         *database
	logID      uint64 // of the file of the log that the cut goes to
	frame      log.Frame
	key, value []byte // scratch
	inserts    []log.Insert
	texts      []text
}

// text says where a value that is being made holds the record of an object.
type text struct {
	object   *object.Object
	from, to int
}

func (w *writer) write(c cut) {
	if c.cluster != nil {
		w.set(log.Set, records.ClusterKey, records.AppendCluster(nil, *c.cluster))
	}
	for _, o := range c.dropped {
		w.drop(o, c.rules)
	}
	for _, i := range c.informers {
		w.objects(i)
	}
	for _, l := range c.lanes {
		w.deliveries(l)
	}
	for id, l := range c.letters {
		if l == nil {
			w.frame.Change(log.Delete, records.LetterKey(id))
			continue
		}
		w.value = records.AppendLetter(w.value[:0], l, &referrer{writer: w, owner: records.Letters})
		w.set(log.Set, records.LetterKey(id), w.value)
	}
	for name, r := range c.rules {
		if r == nil {
			w.frame.Change(log.Delete, records.RuleKey(name))
			continue
		}
		w.value = records.AppendRule(w.value[:0], r)
		w.set(log.Set, records.RuleKey(name), w.value)
	}
	for id, value := range c.notes {
		if value == nil {
			w.frame.Change(log.Delete, records.NoteKey(id))
			continue
		}
		w.value = records.AppendNote(w.value[:0], id, value)
		w.set(log.Set, records.NoteKey(id), w.value)
	}
	w.db.dictionaries.tidy(&w.frame)
}

// set writes a value, and notes where in the log the objects are that it holds.
func (w *writer) set(kind log.Kind, key, value []byte) {
	w.frame.Change(kind, key)
	from := w.frame.Value(value, w.inserts)
	if len(w.inserts) == 0 {
		for _, t := range w.texts {
			place(t.object, w.logID, from+int64(t.from), t.to-t.from)
		}
	}
	w.inserts, w.texts = w.inserts[:0], w.texts[:0]
}

// referrer makes the references of records of an owner.
type referrer struct {
	*writer
	owner records.Owner
	last  *object.Dictionary   // of the latest reference
	id    records.DictionaryID // its id
}

// dictionary implements references. It writes a dictionary that is not on disk.
func (r *referrer) Dictionary(with *object.Dictionary) records.DictionaryID {
	if with != r.last {
		r.last, r.id = with, r.db.dictionaries.refer(r.owner, with, &r.frame)
	}
	return r.id
}

// repeat implements references.
func (r *referrer) Repeat(o *object.Object, at int) bool {
	offset, length, ok := placeOf(o, r.logID)
	if !ok {
		return false
	}
	if _, with, _ := o.Packed(); with != nil {
		r.Dictionary(with)
	}
	r.inserts = append(r.inserts, log.Insert{At: at, Offset: offset, Length: length})
	return true
}

// wrote implements references.
func (r *referrer) Wrote(o *object.Object, from, to int) {
	r.texts = append(r.texts, text{o, from, to})
}

// drop removes everything that belongs to an owner. It also removes the record without which the
// rule or informer counts as new.
func (w *writer) drop(o records.Owner, rules map[string]*RuleMemory) {
	w.db.dictionaries.keep(o, nil)
	w.frame.Change(log.Drop, o[:])
	switch o[0] {
	case records.ObjectPrefix:
		w.frame.Change(log.Delete, records.InformerKey(o))
		return
	case records.NotePrefix:
		return
	}
	for name := range rules {
		if records.NewOwner(records.DeliveryPrefix, name) == o {
			w.frame.Change(log.Delete, records.RuleKey(name))
		}
	}
}

// objects writes the objects of an informer and what it resumes from. It packs the objects first.
func (w *writer) objects(i informerCut) {
	if i.loaded.CompareAndSwap(false, true) && i.written == (records.Informer{}) {
		w.drop(i.owner, nil) // nobody has loaded what is on disk
	}
	refer := &referrer{writer: w, owner: i.owner}
	for key, r := range i.objects {
		w.key = records.AppendObjectKey(w.key[:0], i.owner, key)
		if r.object == nil {
			w.frame.Change(log.Delete, w.key)
			continue
		}
		if !i.opts.Secret {
			i.opts.Packer.PackBeside(r.object)
		}
		w.value = records.AppendObject(w.value[:0], r.object, r.inside, i.opts.Secret, refer)
		w.set(log.Set, w.key, w.value)
	}
	if i.written.ID == "" {
		i.written = records.Informer{ID: i.id, Kept: i.opts.Kept}
	} else if len(i.objects) > 0 && i.written.Kept != i.opts.Kept {
		i.written.Kept = KeptMixed
	}
	hasFollowed := i.told || i.written.ResourceVersion != ""
	if i.written.ResourceVersion = i.version; i.version == "" && hasFollowed {
		i.written.ResourceVersion = records.Withdrawn
	}
	if i.told && i.version != "" {
		i.written.Kept = i.opts.Kept
	}
	w.value = records.AppendInformer(w.value[:0], i.written)
	w.set(log.Set, records.InformerKey(i.owner), w.value)
}

// deliveries writes the waiting deliveries of a lane and removes the gone ones.
func (w *writer) deliveries(l laneCut) {
	if l.inLog != w.logID {
		l.inLog, l.earlier = w.logID, l.before
	}
	refer := &referrer{writer: w, owner: l.owner}
	for _, n := range slices.Sorted(maps.Keys(l.deliveries)) {
		d := l.deliveries[n]
		w.key = records.AppendDeliveryKey(w.key[:0], l.owner, d.key, n)
		if d.gone {
			w.frame.Change(log.Delete, w.key)
			l.left()
			continue
		}
		kind := log.Add
		if n <= l.earlier[rangeOf(n)] {
			kind = log.Set
		}
		w.value = records.AppendDelivery(w.value[:0], &d.record, l.opts.Secret, refer)
		if !d.again {
			l.disk.add(1, int64(len(w.key)+len(w.value))+lengthOf(w.inserts))
		}
		w.set(kind, w.key, w.value)
	}
}

func lengthOf(inserts []log.Insert) (sum int64) {
	for _, i := range inserts {
		sum += i.Length
	}
	return sum
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
