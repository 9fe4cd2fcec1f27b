package main

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

type pebbleStore struct{ db *pebble.DB }

// openPebble takes the newest format, whose log tells a torn end from one that was damaged later, and has damage reported,
// which by itself is fatal.
func openPebble(dir string) (store, error) {
	db, err := pebble.Open(dir, &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest, MemTableSize: 8 << 20, Logger: strict{},
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}},
	})
	if err != nil {
		return nil, err
	}
	return pebbleStore{db}, nil
}

func (s pebbleStore) write(batch []change) error {
	b := s.db.NewBatch()
	for _, c := range batch {
		if err := b.Set(c.key, c.value, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

func (s pebbleStore) each(f func(key, value []byte) error) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			_ = it.Close() // there is an error already
			return err
		}
	}
	return it.Close()
}

func (s pebbleStore) close() error { return s.db.Close() }

// strict is a logger that says nothing. What Pebble takes for fatal is a panic, and counted as one.
type strict struct{}

func (strict) Infof(string, ...any)  {}
func (strict) Errorf(string, ...any) {}
func (strict) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
