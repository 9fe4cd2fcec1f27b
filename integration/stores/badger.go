package main

import (
	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

type badgerStore struct{ db *badger.DB }

// openBadger keeps values with their keys, as they are small, and has every block's checksum looked at, which it does not by
// itself.
func openBadger(dir string) (store, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).
		WithChecksumVerificationMode(options.OnTableAndBlockRead).WithLogger(nil))
	if err != nil {
		return nil, err
	}
	return badgerStore{db}, nil
}

func (s badgerStore) write(batch []change) error {
	return s.db.Update(func(tx *badger.Txn) error {
		for _, c := range batch {
			if err := tx.Set(c.key, c.value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerStore) each(f func(key, value []byte) error) error {
	return s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if err := item.Value(func(value []byte) error { return f(item.Key(), value) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerStore) close() error { return s.db.Close() }
