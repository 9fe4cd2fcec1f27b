// Loading the objects of an informer.

package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/fields"
	"github.com/informd/informd/engine/state/records"
	"golang.org/x/sync/errgroup"
)

// ErrSetAside means that the whole state was set aside, because a part of it could not be read.
// Whatever was loaded from it is no longer on disk. A caller that loads before [Store.Run] must
// load everything again, and finds nothing.
var ErrSetAside = errors.New("the state could not be read and is set aside")

// Snapshot is what an informer had seen when it was recorded.
type Snapshot struct {
	Objects         []*object.Object // packed, in no order; of Secrets, identities
	ResourceVersion string           // what to go on from; "" if that cannot be
	HasFollowed     bool             // there was a ResourceVersion, now or earlier
	Kept            string           // ObjectsOptions.Kept when they were recorded, or KeptMixed
	Inside          map[delta.Key][]string
}

// maxLoaded is how many dictionaries of an informer survive a start. Each start makes new ones, and
// an object may stay unchanged over any number of starts. So a start packs the objects of the
// rarest dictionaries again.
const maxLoaded = 8

// Load returns the informer's objects on disk. Call it before [Store.Run], or when an informer is
// new. The Snapshot is empty if nothing is on disk. Load uses all processors, for about 20 µs per
// object. Before Run the only error is [ErrSetAside]. Later Load returns any read error: then
// nothing is loaded, and the next write replaces the records on disk.
func (i *Objects) Load() (Snapshot, error) {
	s := i.store
	d := s.db.Load()
	if d == nil || s.hides(i.owner, s.opts.limits.load) {
		return Snapshot{}, nil
	}
	l := loader{informer: i, db: d, uses: make(map[records.DictionaryID]int)}
	err := d.read(s.opts.limits.load, l.run)
	if err != nil {
		err = fmt.Errorf("load the snapshot of informer %s: %w", i.id, err)
		return Snapshot{}, s.unreadable(d, err)
	}
	i.loaded.Store(true)
	i.written = l.record
	s.Begin()
	defer s.End()
	if i.version = l.record.ResourceVersion; i.version == records.Withdrawn {
		i.version = ""
	}
	if !s.running.Load() {
		l.repack()
	}
	return Snapshot{
		Objects: l.objects, ResourceVersion: i.version, HasFollowed: l.record.ResourceVersion != "",
		Kept: l.record.Kept, Inside: l.inside,
	}, nil
}

// unreadable handles an error of loading, and returns the error that the caller gets.
func (s *Store) unreadable(d *database, err error) error {
	if !s.running.Load() {
		s.startOver(d, reason(err), err)
		return ErrSetAside
	}
	if !disk.IsAtFault(err) && !errors.Is(err, errClosed) {
		s.breakDown(d, err)
	}
	return err
}

// loader loads one informer. Several goroutines decode; mu guards the fields that follow it.
type loader struct {
	informer *Objects
	db       *database
	record   records.Informer

	mu      sync.Mutex
	objects []*object.Object
	packed  []records.DictionaryID // the dictionary of each object
	inside  map[delta.Key][]string
	uses    map[records.DictionaryID]int
}

// raw is the key and the record of one object.
type raw struct{ key, value []byte }

// batch is the records that one goroutine decodes at a time, and the memory that they share.
type batch struct {
	records []raw
	memory  []byte
}

// A batch is full when it has so many records, or so many bytes. A record can be larger than that.
const (
	batchRecords = 256
	batchBytes   = 1 << 20
)

// batches are reused. Without that, they would be half of the memory that loading allocates.
var batches = sync.Pool{New: func() any { return &batch{records: make([]raw, 0, batchRecords)} }}

func (b *batch) isFull() bool {
	return len(b.records) == batchRecords || len(b.memory) >= batchBytes
}

// add copies a record into the batch.
func (b *batch) add(key, value []byte) {
	from := len(b.memory)
	b.memory = append(append(b.memory, key...), value...)
	b.records = append(b.records, raw{b.memory[from : from+len(key)], b.memory[from+len(key):]})
}

// recycle gives the batch to whoever needs one next, unless it has become too large.
func (b *batch) recycle() {
	if cap(b.memory) > 4*batchBytes {
		return
	}
	clear(b.records)
	b.records, b.memory = b.records[:0], b.memory[:0]
	batches.Put(b)
}

func (l *loader) run(db pebble.Reader) error {
	text, ok, err := get(db, records.InformerKey(l.informer.owner))
	if err != nil || !ok {
		return err
	}
	if l.record, err = records.ReadInformer(text); err != nil {
		return err
	}
	if l.record.ID != l.informer.id {
		return fields.ErrMalformed
	}
	workers := errgroup.Group{}
	workers.SetLimit(runtime.GOMAXPROCS(0))
	pending := batches.Get().(*batch)
	flush := func() {
		full := pending
		workers.Go(func() error {
			defer full.recycle()
			return l.decode(db, full.records)
		})
		pending = batches.Get().(*batch)
	}
	prefix := l.informer.owner[:]
	err = scan(db, prefix, prefix, func(key []byte, it *pebble.Iterator) (bool, error) {
		value, err := it.ValueAndErr()
		if err != nil {
			return false, err
		}
		if pending.add(key, value); pending.isFull() {
			flush()
		}
		return true, nil
	})
	if err == nil && len(pending.records) > 0 {
		flush()
	}
	pending.recycle()
	return errors.Join(err, workers.Wait())
}

func (l *loader) decode(db pebble.Reader, all []raw) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = damage(what)
		}
	}()
	var (
		objects = make([]*object.Object, 0, len(all))
		packed  = make([]records.DictionaryID, 0, len(all))
		keys    = make([]delta.Key, 0, len(all))
		inside  = make([][]string, 0, len(all))
		known   = make(map[string][]string) // most objects are inside the same rules
		with    = make(map[records.DictionaryID]*object.Dictionary)
		key     []byte
	)
	dictionary := func(id records.DictionaryID) (*object.Dictionary, error) {
		if d := with[id]; d != nil {
			return d, nil
		}
		d, err := l.db.dictionaries.get(db, id)
		with[id] = d
		return d, err
	}
	for _, raw := range all {
		o, coded, id, err := records.ReadObject(raw.value, dictionary)
		if err != nil {
			return err
		}
		key = records.AppendObjectKey(key[:0], l.informer.owner, keyOf(o))
		if !bytes.Equal(raw.key, key) {
			return fields.ErrMalformed
		}
		rules, ok := known[string(coded)]
		if !ok {
			rules = records.ReadInside(coded)
			known[string(coded)] = rules
		}
		objects, packed = append(objects, o), append(packed, id)
		keys, inside = append(keys, keyOf(o)), append(inside, rules)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects, l.packed = append(l.objects, objects...), append(l.packed, packed...)
	for n, id := range packed {
		l.uses[id]++
		if len(inside[n]) > 0 {
			if l.inside == nil {
				l.inside = make(map[delta.Key][]string)
			}
			l.inside[keys[n]] = inside[n]
		}
	}
	return nil
}

// repack unpacks the objects of the rarest dictionaries and records them again. It drops
// dictionaries without objects.
func (l *loader) repack() {
	delete(l.uses, records.DictionaryID{})
	ids := make([]records.DictionaryID, 0, len(l.uses))
	for id := range l.uses {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b records.DictionaryID) int {
		return cmp.Or(l.uses[b]-l.uses[a], bytes.Compare(a[:], b[:]))
	})
	keep := make(map[records.DictionaryID]struct{})
	for _, id := range ids[:min(len(ids), maxLoaded)] {
		keep[id] = struct{}{}
	}
	if len(keep) < len(ids) {
		for n, o := range l.objects {
			if _, ok := keep[l.packed[n]]; ok || l.packed[n] == (records.DictionaryID{}) {
				continue
			}
			plain, err := object.FromJSON(o.JSON())
			if err != nil {
				continue // it was checked when it was read
			}
			l.objects[n] = plain
			l.informer.Put(plain, l.inside[keyOf(plain)])
		}
	}
	l.db.dictionaries.keep(l.informer.owner, keep)
}

func keyOf(o *object.Object) delta.Key {
	return delta.Key{Namespace: o.Namespace(), Name: o.Name()}
}
