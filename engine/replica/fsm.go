// This file owns how committed entries reach the Storage.

package replica

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// machine is the Storage as raft wants it. After an error of the Storage nothing reaches it any
// more, as there would be a gap.
type machine struct {
	storage Storage
	fail    func(error)                                        // ends the member
	during  func(what string, bytes int, f func() error) error // calls f; see watched
	applied atomic.Uint64
	isBusy  atomic.Bool // Apply runs

	// mu lets Install run alone: raft receives a snapshot while it still applies entries from
	// before. They come to a Storage that has them already, or to the old content if Install fails.
	mu sync.RWMutex

	failing sync.Mutex // guards failed; taken after mu
	failed  error

	installs    atomic.Uint64 // how many snapshots of others have begun to replace the content
	isReplacing atomic.Bool   // one has begun, and raft has not called Restore yet
}

// ended returns the error after which nothing reaches the Storage.
func (m *machine) ended() error {
	m.failing.Lock()
	defer m.failing.Unlock()
	return m.failed
}

// refuse makes err the one after which nothing reaches the Storage.
func (m *machine) refuse(err error) {
	m.failing.Lock()
	defer m.failing.Unlock()
	if m.failed == nil {
		m.failed = err
	}
}

// end refuses what follows because of err, which ends the member.
func (m *machine) end(err error) {
	m.refuse(err)
	m.fail(err)
}

// Apply implements raft.FSM. It returns an error or nil.
func (m *machine) Apply(entry *raft.Log) any {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.isBusy.Store(true)
	defer m.isBusy.Store(false)
	if err := m.ended(); err != nil {
		return err
	}
	apply := func() error { return m.storage.Apply(entry.Data) }
	if err := m.during("apply an entry", len(entry.Data), apply); err != nil {
		err = fmt.Errorf("cannot apply entry %d: %w", entry.Index, err)
		m.end(err)
		return err
	}
	m.advance(entry.Index)
	return nil
}

// advance notes that everything up to index was applied.
func (m *machine) advance(index uint64) {
	for was := m.applied.Load(); was < index; was = m.applied.Load() {
		if m.applied.CompareAndSwap(was, index) {
			return
		}
	}
}

// StoreConfiguration implements raft.ConfigurationStore. With it, a snapshot may end with a change
// of the members.
func (m *machine) StoreConfiguration(index uint64, _ raft.Configuration) {
	if m.ended() == nil {
		m.advance(index)
	}
}

// errReplaced is why a snapshot of this member's own is not noted: the content is another one than
// raft believes.
var errReplaced = errors.New("a snapshot of another replica replaces the content")

// Snapshot implements raft.FSM. It copies nothing.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	snapshot := persisting{m, m.installs.Load()}
	if m.isReplacing.Load() {
		return snapshot, errReplaced
	}
	return snapshot, m.ended()
}

// Restore implements raft.FSM. The sink of the snapshot has already handed its content to the
// Storage.
func (m *machine) Restore(content io.ReadCloser) error {
	m.isReplacing.Store(false)
	return errors.Join(content.Close(), m.ended())
}

// persisting is a snapshot of the machine: the Storage itself.
type persisting struct {
	*machine
	since uint64 // installs when it was taken
}

// Persist implements raft.FSMSnapshot: it makes sure that the Storage has on disk what the log may
// lose.
func (p persisting) Persist(to raft.SnapshotSink) error {
	to.(*sink).isOwn, to.(*sink).since = true, p.since
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.ended(); err != nil {
		return err
	}
	if err := p.storage.Sync(); err != nil {
		err = fmt.Errorf("cannot sync what was applied: %w", err)
		p.end(err)
		return err
	}
	return p.ended()
}

// Release implements raft.FSMSnapshot.
func (p persisting) Release() {}

// open returns the Storage's content.
func (m *machine) open() (io.ReadCloser, int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.ended(); err != nil {
		return nil, 0, err
	}
	return m.storage.Snapshot()
}

// install replaces the Storage's content.
func (m *machine) install(content io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ended(); err != nil {
		return err
	}
	return m.storage.Install(content)
}
