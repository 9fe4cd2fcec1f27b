package main

// store is what informd needs of an embedded store.
type store interface {
	// write puts all of a batch, which is in order of keys, in one transaction. When it returns that is on the disk.
	write(batch []change) error
	// each reads everything, in order of keys. Its arguments are valid for the time of the call.
	each(func(key, value []byte) error) error
	close() error
}

type change struct{ key, value []byte }

// candidate is one of the stores.
type candidate struct {
	name, module string
	open         func(dir string) (store, error)
}

var candidates = []candidate{
	{"Pebble", "github.com/cockroachdb/pebble/v2", openPebble},
	{"bbolt", "go.etcd.io/bbolt", openBolt},
	{"Badger", "github.com/dgraph-io/badger/v4", openBadger},
	{"SQLite", "modernc.org/sqlite", openSQLite},
}

// none is the price of making the changes, which the candidates' is told without.
var none = candidate{"none", "", func(string) (store, error) { return nothing{}, nil }}

type nothing struct{}

func (nothing) write([]change) error                     { return nil }
func (nothing) each(func(key, value []byte) error) error { return nil }
func (nothing) close() error                             { return nil }
