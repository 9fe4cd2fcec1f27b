// Deliveries that only the disk holds: listing and loading those of a lane.

package state

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state/fields"
	"github.com/informd/informd/engine/state/records"
)

// LaneKey summarizes the deliveries on disk of one object.
type LaneKey struct {
	Key         delta.Key
	N           int
	First, Last uint64
	Bytes       int64 // as written
}

// Load returns deliveries of a key from disk, in the order of their numbers, starting after the
// number after. It returns at most maxItems, and stops before it exceeds maxBytes, but returns at
// least one if there is one. It leaves out deliveries that were put and not yet written. An error
// changes nothing, and the next call may succeed.
func (l *Lane) Load(key delta.Key, after uint64, maxItems int, maxBytes int64) (
	[]queue.Numbered[delivery.Delivery], error,
) {
	found, err := l.load(key, after, maxItems, maxBytes)
	if err == nil && len(found) == 0 && l.store.isBehind() {
		l.store.moveSoon(l.store.opts.limits.read)
		return l.load(key, after, maxItems, maxBytes)
	}
	return found, err
}

func (l *Lane) load(key delta.Key, after uint64, maxItems int, maxBytes int64) (
	[]queue.Numbered[delivery.Delivery], error,
) {
	s := l.store
	d := s.db.Load()
	if d == nil || after == math.MaxUint64 || s.isDropped(l.owner) {
		return nil, nil
	}
	var found []queue.Numbered[delivery.Delivery]
	err := d.read(s.opts.limits.read, func(db pebble.Reader) error {
		prefix := records.AppendObjectKey(nil, l.owner, key)
		start := records.AppendDeliveryKey(nil, l.owner, key, after+1)
		dictionary := func(id records.DictionaryID) (*object.Dictionary, error) {
			return d.dictionaries.get(db, id)
		}
		bytes := int64(0)
		return scan(db, prefix, start, func(at []byte, it *pebble.Iterator) (bool, error) {
			if len(found) >= maxItems {
				return false, nil
			}
			_, n, ok := records.ParseDeliveryKey(at)
			value, err := it.ValueAndErr()
			if err != nil {
				return false, err
			}
			r, err := records.ReadDelivery(value, dictionary)
			if err != nil {
				return false, err
			}
			if !ok || r.Value.Delta.Key() != key {
				return false, fields.ErrMalformed
			}
			if bytes += sizeOf(&r.Value); bytes > maxBytes && len(found) > 0 {
				return false, nil
			}
			found = append(found, queue.Numbered[delivery.Delivery]{N: n, Record: r})
			return true, nil
		})
	})
	if err != nil {
		err = fmt.Errorf("load the waiting events of rule %s and object %s: %w", l.rule, key, err)
		return nil, s.unreadable(d, err)
	}
	return found, nil
}

// Keys summarizes the waiting deliveries on disk by object, without reading the deliveries. Call it
// at the start, before any Put: the Lane learns from it what is on disk. The error is
// [ErrSetAside], or any read error once the Store runs.
func (l *Lane) Keys() ([]LaneKey, error) {
	s := l.store
	d := s.db.Load()
	if d == nil || s.hides(l.owner, s.opts.limits.load) {
		return nil, nil
	}
	var keys []LaneKey
	var last [2]uint64
	err := d.read(s.opts.limits.load, func(db pebble.Reader) error {
		prefix := l.owner[:]
		return scan(db, prefix, prefix, func(at []byte, it *pebble.Iterator) (bool, error) {
			key, n, ok := records.ParseDeliveryKey(at)
			if !ok {
				return false, fields.ErrMalformed
			}
			if len(keys) == 0 || keys[len(keys)-1].Key != key {
				keys = append(keys, LaneKey{Key: key, First: n})
			}
			of := &keys[len(keys)-1]
			value := it.LazyValue()
			of.N, of.Last, of.Bytes = of.N+1, n, of.Bytes+int64(value.Len())
			last[rangeOf(n)] = max(last[rangeOf(n)], n)
			return true, nil
		})
	})
	if err != nil {
		err = fmt.Errorf("list the waiting events of rule %s: %w", l.rule, err)
		return nil, s.unreadable(d, err)
	}
	records, bytes := int64(0), int64(0)
	for _, key := range keys {
		records, bytes = records+int64(key.N), bytes+key.Bytes
	}
	if l.numbers.found(last) {
		l.disk.add(records, bytes)
	}
	if !s.running.Load() {
		if err := l.tidy(d, len(keys) == 0); err != nil {
			return nil, s.unreadable(d, err)
		}
	}
	return keys, nil
}

// tidy drops dictionaries that no record refers to. To find them it must read all waiting
// deliveries, so it does that only for a lane with many dictionaries. A lane that is never empty at
// a start gains one or two dictionaries with each start.
func (l *Lane) tidy(d *database, empty bool) error {
	used := make(map[records.DictionaryID]struct{})
	if !empty {
		if d.dictionaries.count(l.owner) <= maxLoaded {
			return nil
		}
		err := d.read(l.store.opts.limits.load, func(db pebble.Reader) error {
			prefix := l.owner[:]
			return scan(db, prefix, prefix, func(_ []byte, it *pebble.Iterator) (bool, error) {
				value, err := it.ValueAndErr()
				if err != nil {
					return false, err
				}
				_, err = records.ReadDelivery(value, func(id records.DictionaryID) (*object.Dictionary, error) {
					used[id] = struct{}{}
					return d.dictionaries.get(db, id)
				})
				return true, err
			})
		})
		if err != nil {
			return fmt.Errorf("list the waiting events of rule %s: %w", l.rule, err)
		}
	}
	d.dictionaries.keep(l.owner, used)
	return nil
}

func sizeOf(d *delivery.Delivery) int64 {
	size := recordCost + len(d.Payload) + len(d.Answer.Record()) + d.Delta.Object.Size()
	if d.Delta.Old != nil {
		size += d.Delta.Old.Size()
	}
	for i := range d.Items {
		item := &d.Items[i]
		if size += len(item.Payload) + item.Delta.Object.Size(); item.Delta.Old != nil {
			size += item.Delta.Old.Size()
		}
	}
	return int64(size)
}
