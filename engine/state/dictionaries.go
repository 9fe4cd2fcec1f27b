// Which dictionaries are on disk, and who refers to them.

package state

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"weak"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/fields"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// dictionaries knows which dictionaries are on disk and which owners refer to them. It does not
// keep the dictionaries themselves in memory. mu guards all fields; nothing else is locked while it
// is held.
type dictionaries struct {
	mu sync.Mutex
	// ids holds the ids of dictionaries that are in memory, or were recently.
	ids    map[weak.Pointer[object.Dictionary]]records.DictionaryID
	loaded map[records.DictionaryID]weak.Pointer[object.Dictionary]
	uses   map[use]struct{}             // on disk, or in the cut that is being written
	users  map[records.DictionaryID]int // number of uses of each; a dictionary with a use is on disk
	stale  map[use]struct{}             // on disk, but no longer needed
}

// use says that records of an owner may refer to a dictionary.
type use struct {
	owner      records.Owner
	dictionary records.DictionaryID
}

// maxForgotten is how many ids may belong to dictionaries that have left memory. Beyond that number
// the ids are forgotten.
const maxForgotten = 64

func newDictionaries() *dictionaries {
	return &dictionaries{
		ids:    make(map[weak.Pointer[object.Dictionary]]records.DictionaryID),
		loaded: make(map[records.DictionaryID]weak.Pointer[object.Dictionary]),
		uses:   make(map[use]struct{}),
		users:  make(map[records.DictionaryID]int),
		stale:  make(map[use]struct{}),
	}
}

// load reads which dictionaries are in use. It does not read the dictionaries.
func (d *dictionaries) load(db pebble.Reader) error {
	prefix := []byte{records.UsePrefix}
	return scan(db, prefix, prefix, func(key []byte, _ *pebble.Iterator) (bool, error) {
		o, id, ok := records.ParseUseKey(key)
		if !ok {
			return false, fields.ErrMalformed
		}
		u := use{o, id}
		d.uses[u] = struct{}{}
		d.users[u.dictionary]++
		return true, nil
	})
}

// refer returns a dictionary's id. It adds the dictionary and the use to f unless they are on disk.
// A dictionary without text has the zero id.
func (d *dictionaries) refer(
	o records.Owner, with *object.Dictionary, f *log.Frame,
) records.DictionaryID {
	d.mu.Lock()
	defer d.mu.Unlock()
	pointer := weak.Make(with)
	id, ok := d.ids[pointer]
	if !ok {
		if text := with.Bytes(); len(text) > 0 {
			id = records.DictionaryIDOf(text)
		}
		if len(d.ids) >= maxForgotten {
			maps.DeleteFunc(d.ids, func(p weak.Pointer[object.Dictionary], _ records.DictionaryID) bool {
				return p.Value() == nil
			})
		}
		d.ids[pointer] = id
	}
	if id == (records.DictionaryID{}) {
		return id
	}
	u := use{o, id}
	delete(d.stale, u)
	if _, ok := d.uses[u]; ok {
		return id
	}
	d.uses[u] = struct{}{}
	if d.users[id]++; d.users[id] == 1 {
		f.Change(log.Set, records.DictionaryKey(id))
		f.Value(with.Bytes(), nil)
	}
	f.Change(log.Set, records.UseKey(o, id))
	f.Value(nil, nil)
	return id
}

// get returns the dictionary of an id, from memory or from disk.
func (d *dictionaries) get(db pebble.Reader, id records.DictionaryID) (*object.Dictionary, error) {
	d.mu.Lock()
	with := d.loaded[id].Value()
	d.mu.Unlock()
	if with != nil {
		return with, nil
	}
	text, ok, err := get(db, records.DictionaryKey(id))
	if err != nil {
		return nil, err
	}
	if !ok || records.DictionaryIDOf(text) != id {
		return nil, errors.New("a dictionary is missing or damaged")
	}
	if with, err = object.NewDictionary(text); err != nil {
		return nil, fmt.Errorf("a dictionary is damaged: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.loaded) >= maxForgotten {
		maps.DeleteFunc(d.loaded, func(_ records.DictionaryID, p weak.Pointer[object.Dictionary]) bool {
			return p.Value() == nil
		})
	}
	d.loaded[id] = weak.Make(with)
	d.ids[weak.Make(with)] = id
	return with, nil
}

// keep marks all uses of an owner as stale, except those in ids. The next write removes the stale
// ones.
func (d *dictionaries) keep(o records.Owner, ids map[records.DictionaryID]struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.uses {
		if _, ok := ids[u.dictionary]; u.owner == o && !ok {
			d.stale[u] = struct{}{}
		}
	}
}

// count returns how many dictionaries an owner refers to.
func (d *dictionaries) count(o records.Owner) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.uses {
		if u.owner == o {
			n++
		}
	}
	return n
}

// tidy adds to f the removal of stale uses. No record may refer to them once f is on disk.
func (d *dictionaries) tidy(f *log.Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.stale {
		if _, ok := d.uses[u]; !ok {
			continue
		}
		delete(d.uses, u)
		f.Change(log.Delete, records.UseKey(u.owner, u.dictionary))
		if d.users[u.dictionary]--; d.users[u.dictionary] == 0 {
			delete(d.users, u.dictionary)
			f.Change(log.Delete, records.DictionaryKey(u.dictionary))
		}
	}
	clear(d.stale)
}
