// What is loaded at the start, and the records that belong to no informer and no lane.

package state

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
)

// Cluster identifies a cluster.
type Cluster = records.Cluster

// isSame reports whether a state of cluster was may be used with c.
func isSame(c, was Cluster) bool {
	if c.UID != "" && was.UID != "" {
		return c.UID == was.UID
	}
	return c.Server == was.Server
}

// Bind binds the state to cluster c. It sets aside a state of another cluster. Call it once, before
// loading anything. Bad content of the disk is never an error. A state of another cluster is one for
// a Store of a [Replica].
func (s *Store) Bind(c Cluster) error {
	s.mu.Lock()
	s.bound = &c
	s.mu.Unlock()
	var was *Cluster
	if d := s.db.Load(); d != nil {
		var read *Cluster
		err := d.read(s.opts.limits.read, func(db pebble.Reader) error {
			text, ok, err := get(db, records.ClusterKey)
			if err != nil || !ok {
				return err
			}
			found, err := records.ReadCluster(text)
			read = &found
			return err
		})
		switch {
		case err != nil:
			s.startOver(d, reason(err), fmt.Errorf("read the state's cluster: %w", err))
		case read != nil && !isSame(c, *read) && d.isShared:
			return fmt.Errorf("the state of the replicas belongs to the cluster %s at %s, not to %s at %s: "+
				"give them the kubeconfig of that cluster, or empty state directories",
				known(read.UID), read.Server, known(c.UID), c.Server)
		case read != nil && !isSame(c, *read):
			s.startOver(d, otherCluster, fmt.Errorf(
				"it belongs to the cluster %s at %s, not to %s at %s",
				known(read.UID), read.Server, known(c.UID), c.Server))
		default:
			was = read
		}
	}
	if was != nil && c.UID == "" {
		c.UID = was.UID
	}
	if was == nil || *was != c {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bound, s.cluster = &c, &c
		s.unwritten.records.Add(1)
	}
	return nil
}

func known(uid string) string {
	if uid == "" {
		return "(of unknown uid)"
	}
	return uid
}

// Informers returns the ids of all informers that have a record.
func (s *Store) Informers() ([]string, error) {
	var ids []string
	err := s.all([]byte{records.InformerPrefix}, func(value []byte, _ records.DictionaryOf) error {
		i, err := records.ReadInformer(value)
		ids = append(ids, i.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Rules returns the rules on disk, by name. Call it before recording anything.
func (s *Store) Rules() ([]RuleMemory, error) {
	var rules []RuleMemory
	err := s.all([]byte{records.RulePrefix}, func(value []byte, _ records.DictionaryOf) error {
		r, err := records.ReadRule(value)
		rules = append(rules, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rules, nil
}

// Letters returns the dead letters on disk, the oldest first. Those whose reason was not written
// are confidential. Call Letters before recording anything.
func (s *Store) Letters() ([]delivery.Letter, error) {
	if s.db.Load() == nil {
		s.know(nil)
		return nil, nil
	}
	var list []delivery.Letter
	used := make(map[records.DictionaryID]struct{})
	err := s.all([]byte{records.LetterPrefix}, func(value []byte, get records.DictionaryOf) error {
		l, err := records.ReadLetter(value, func(id records.DictionaryID) (*object.Dictionary, error) {
			used[id] = struct{}{}
			return get(id)
		})
		list = append(list, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	if d := s.db.Load(); d != nil && !s.running.Load() {
		d.dictionaries.keep(records.Letters, used)
	}
	slices.SortStableFunc(list, func(a, b delivery.Letter) int { return a.Died.Compare(b.Died) })
	s.know(list)
	return list, nil
}

// know notes which letters are on disk.
func (s *Store) know(list []delivery.Letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buried = make(map[string]struct{}, len(list))
	for _, l := range list {
		s.buried[l.ID] = struct{}{}
	}
}

// all calls f with each value whose key begins with prefix.
func (s *Store) all(prefix []byte, f func(value []byte, get records.DictionaryOf) error) error {
	d := s.db.Load()
	if d == nil {
		return nil
	}
	s.moveSoon(s.opts.limits.load)
	err := d.read(s.opts.limits.load, func(db pebble.Reader) error {
		dictionary := func(id records.DictionaryID) (*object.Dictionary, error) {
			return d.dictionaries.get(db, id)
		}
		return scan(db, prefix, prefix, func(key []byte, it *pebble.Iterator) (bool, error) {
			value, err := it.ValueAndErr()
			if err == nil {
				err = f(value, dictionary)
			}
			return err == nil, err
		})
	})
	if err != nil {
		return s.unreadable(d, fmt.Errorf("read the state: %w", err))
	}
	return nil
}

// PutLetter records a dead letter. It replaces one with the same ID. A confidential reason is not
// written. Of a letter about a Secret, neither are the payload and the object. Call PutLetter
// between Begin and End.
func (s *Store) PutLetter(l delivery.Letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	if _, ok := s.letters[l.ID]; !ok {
		s.unwritten.add(1, recordCost)
	}
	s.letters[l.ID] = &l
}

// DeleteLetter records that a dead letter is gone. Call it between Begin and End.
func (s *Store) DeleteLetter(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.Load() {
		return
	}
	_, unwritten := s.letters[id]
	if _, buried := s.buried[id]; !buried && (s.buried != nil || s.db.Load() == nil) {
		if unwritten {
			delete(s.letters, id)
			s.unwritten.add(-1, -recordCost)
		}
		return
	}
	if !unwritten {
		s.unwritten.add(1, recordCost)
	}
	s.letters[id] = nil
}

// forget clears everything that was learned from a store that can no longer be used, but not the
// generation: events of this process have it.
func (s *Store) forget() {
	s.cut.Lock()
	defer s.cut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.informers {
		i.forget()
	}
	for _, l := range s.lanes {
		l.forget()
	}
	s.buried = make(map[string]struct{})
	s.storeRecords, s.dropping = newStoreRecords(), nil
	s.unwritten.take()
	if s.cluster = s.bound; s.cluster != nil {
		s.unwritten.records.Add(1)
	}
	if s.entered != nil {
		s.notes[generationNote] = s.entered
		s.unwritten.add(1, int64(len(s.entered)))
	}
}
