package replica

import (
	"sync"

	"github.com/hashicorp/raft"
)

// trickyDisk makes the writes of a store hang or fail.
type trickyDisk struct {
	mu   sync.Mutex
	gate chan struct{} // writes wait until it is closed
	err  error
}

func newTrickyDisk() *trickyDisk {
	d := &trickyDisk{gate: make(chan struct{})}
	close(d.gate)
	return d
}

func (d *trickyDisk) hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = make(chan struct{})
}

func (d *trickyDisk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *trickyDisk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = nil
	select {
	case <-d.gate:
	default:
		close(d.gate)
	}
}

// pass waits while the disk hangs, and returns its error.
func (d *trickyDisk) pass() error {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	<-gate
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *trickyDisk) under(s store) store { return trickyStore{s, d} }

type trickyStore struct {
	store
	disk *trickyDisk
}

func (s trickyStore) StoreLogs(logs []*raft.Log) error {
	if err := s.disk.pass(); err != nil {
		return err
	}
	return s.store.StoreLogs(logs)
}

func (s trickyStore) Set(key, value []byte) error {
	if err := s.disk.pass(); err != nil {
		return err
	}
	return s.store.Set(key, value)
}

func (s trickyStore) SetUint64(key []byte, value uint64) error {
	if err := s.disk.pass(); err != nil {
		return err
	}
	return s.store.SetUint64(key, value)
}
