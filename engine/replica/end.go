// This file owns how a member falls silent, and how it ends.

package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// hush makes the member silent until a call of speak. A term ends first, because of why.
func (m *Member) hush(why error) {
	m.lead.bar(why)
	m.network.all.begin()
}

// speak takes back one call of hush.
func (m *Member) speak() {
	m.network.all.end()
	m.lead.unbar()
}

// dropInbound closes the connections that others have opened.
func (m *Member) dropInbound() {
	m.log.Warn("the leader does not go on sending a snapshot: closing the connection")
	m.network.all.drop(func(c *connection) bool { return c.isInbound })
}

// fail ends the member because of err. It stays silent until Close.
func (m *Member) fail(err error) {
	m.fate.once.Do(func() {
		m.log.Error("this replica cannot go on and is silent: restart it when this is repaired",
			"error", err)
		m.fate.err = err
		m.hush(err)
		close(m.fate.done)
	})
}

// Failed returns a channel that is closed when the member cannot go on. Err says why.
func (m *Member) Failed() <-chan struct{} { return m.fate.done }

// Err returns why the member cannot go on; nil if it can.
func (m *Member) Err() error {
	select {
	case <-m.fate.done:
		return m.fate.err
	default:
		return nil
	}
}

// Close ends the member. It remains one of the cluster's. Close ends a term, but hands nothing
// over: see HandOver. It waits for everything that the member does. If the disk hangs, it waits ten
// seconds and returns an error; the directory stays in use until the disk goes on.
func (m *Member) Close() error {
	m.close1.Do(func() { m.closed = m.close() })
	return m.closed
}

// close is Close, and also closes a member that open has not finished.
func (m *Member) close() error {
	patience := m.options.timing.grace
	m.lead.close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
		case <-m.fate.done: // raft waits in the disk until nothing it says can reach the others
			m.quieten()
		}
	}()
	m.calls.close(patience / 2)
	m.quieten()
	var future raft.Future
	if m.raft != nil {
		future = m.raft.Shutdown()
	}
	m.stop()
	result := make(chan error, 1)
	go func() { result <- m.finish(future) }()
	select {
	case err := <-result:
		return err
	case <-time.After(patience / 2):
		return fmt.Errorf("the replica in %s does not end, as its disk hangs: end the process",
			m.options.Dir)
	}
}

// finish waits for raft, if it ran, and for the goroutines, and closes what is on disk.
func (m *Member) finish(future raft.Future) error {
	var err error
	if future != nil {
		err = future.Error()
	} else if m.trans != nil {
		err = m.trans.Close()
	}
	m.group.Wait()
	if m.disk != nil {
		err = errors.Join(err, m.disk.store.Close())
	}
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}

// quieten closes the network. Then the disk need do nothing any more: see watched. Of what it
// returns from then on, nothing may reach the Storage.
func (m *Member) quieten() {
	if m.network != nil {
		m.network.close()
	}
	if m.disk != nil {
		m.machine.refuse(errClosed)
		m.disk.release()
	}
}
