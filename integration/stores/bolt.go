package main

import (
	"path/filepath"

	"go.etcd.io/bbolt"
)

type boltStore struct{ db *bbolt.DB }

var bucket = []byte("objects")

func openBolt(dir string) (store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	return boltStore{db}, nil
}

func (s boltStore) write(batch []change) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		for _, c := range batch {
			if err := b.Put(c.key, c.value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s boltStore) each(f func(key, value []byte) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucket); b != nil {
			return b.ForEach(f)
		}
		return nil
	})
}

func (s boltStore) close() error { return s.db.Close() }
