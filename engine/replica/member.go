// This file owns a member's life: how its parts are put together, and how it ends.

package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Member takes part in a cluster.
type Member struct {
	options Options // with timing's defaults
	log     *slog.Logger
	self    *self
	lock    *os.File
	network *network
	disk    *watched
	machine *machine
	notes   *snapshots
	trans   *transport
	raft    *raft.Raft
	lead    *leadership
	others  *others
	fate    *fate
	calls   *calls

	stop   context.CancelFunc // ends the goroutines of group
	group  sync.WaitGroup
	close1 sync.Once
	closed error // Close's
}

// fate is how a member ends.
type fate struct {
	once sync.Once
	done chan struct{} // closed when the member cannot go on
	err  error         // why; set before done is closed
}

// Start begins a member, which takes part until Close. What it needs of o it copies. If the
// directory is in use or damaged, or the address is, that is an error.
func Start(o Options) (*Member, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.timing = o.timing.withDefaults()
	o.Peers = maps.Clone(o.Peers)
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Identity.setLog(o.Logger)
	m := &Member{
		options: o, log: o.Logger, fate: &fate{done: make(chan struct{})}, calls: newCalls(),
	}
	m.lead = newLeadership(m.calls)
	m.lead.handOver = m.HandOver
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open opens what is on disk and on the network, and begins the goroutines. After an error, Close
// closes what was opened.
func (m *Member) open() error {
	o, t := &m.options, m.options.timing
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	var err error
	if m.lock, err = openDir(o.Dir); err != nil {
		return err
	}
	if m.self, err = loadSelf(o.Dir); err != nil {
		return err
	}
	m.machine = &machine{storage: o.Storage, fail: m.fail}
	sizes := newSizes(t)
	m.notes = &snapshots{
		path: filepath.Join(o.Dir, "snapshot"), log: m.log, machine: m.machine, stall: t.stall,
		stalled: m.dropInbound, wrote: sizes.reset, fail: m.fail,
	}
	if err := m.notes.load(); err != nil {
		return err
	}
	opened, err := openStore(o.Dir, t.segment, m.log)
	if err != nil {
		return err
	}
	if o.tamper != nil {
		opened = o.tamper(opened)
	}
	m.disk = &watched{
		store: opened, log: m.log, limit: t.hang, speak: m.speak,
		hush: func() { m.hush(errSilent) }, fail: m.fail, sizes: sizes,
		closing: make(chan struct{}),
	}
	m.machine.during = m.disk.during
	if err := m.prepare(opened, sizes); err != nil {
		return err
	}
	if m.network, err = listen(o, t, m.self, m.log); err != nil {
		return err
	}
	if err := m.startRaft(ctx); err != nil {
		return err
	}
	if err := checkOwnName(m.servers(), m.self.id, o.Name); err != nil {
		return err
	}
	m.others = newOthers(m)
	m.group.Go(func() { m.others.serve(ctx) })
	m.group.Go(func() { m.others.run(ctx) })
	m.group.Go(func() { sizes.bound(ctx, m.raft, t.rest, m.log) })
	return nil
}

// checkOwnName returns an error if the cluster knows the member with id by another name: the others
// would look for it at the address of that name.
func checkOwnName(servers []server, id, name string) error {
	is := find(servers, func(s server) bool { return s.ID == id })
	if is == nil || is.Name == name {
		return nil
	}
	return fmt.Errorf("the directory belongs to the replica %s, and not to %s: start it with --name %s. If "+
		"no other replica has joined it yet and that name is wrong, use informd cluster recover with "+
		"--name %s", is.Name, name, is.Name, name)
}

// prepare makes what is on disk fit together.
func (m *Member) prepare(log store, sizes *sizes) error {
	if err := fit(log, m.notes.latest); err != nil {
		return err
	}
	hasState, err := raft.HasExistingState(log, log, m.notes)
	if err != nil {
		return err
	}
	if !hasState { // it may have ended just before raft wrote something; the others tell it again
		m.self.forget()
		return nil
	}
	snapshot := uint64(0)
	if m.notes.latest != nil {
		snapshot = m.notes.latest.Index
	}
	m.machine.advance(snapshot)
	return sizes.count(log, snapshot)
}

// startRaft begins raft.
func (m *Member) startRaft(ctx context.Context) error {
	t, says := m.options.timing, make(chan bool)
	m.group.Go(func() { m.lead.follow(ctx, says) })
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(m.self.id)
	config.Logger = hcLogger(m.log, "raft")
	config.HeartbeatTimeout, config.ElectionTimeout = t.heartbeat, t.heartbeat
	config.LeaderLeaseTimeout, config.CommitTimeout = t.lease, t.commit
	config.MaxAppendEntries = maxBatch
	config.NotifyCh = says
	config.NoSnapshotRestoreOnStart, config.NoLegacyTelemetry = true, true
	config.ShutdownOnRemove = false
	// sizes says when a snapshot is due: raft would count entries only.
	config.SnapshotInterval, config.SnapshotThreshold = 24*time.Hour, math.MaxUint64
	config.TrailingLogs = t.logEntries
	logs, err := raft.NewLogCache(64, m.disk)
	if err != nil {
		return err
	}
	m.trans = newTransport(m.network, m.log)
	started := make(chan struct{})
	go func() {
		m.raft, err = raft.NewRaft(config, m.machine, logs, m.disk, m.notes, m.trans)
		close(started)
	}()
	select {
	case <-started:
	case <-m.fate.done: // it waits for release
		m.quieten()
		<-started
		return m.fate.err
	}
	if err != nil {
		return fmt.Errorf("cannot start raft: %w", err)
	}
	m.lead.raft = m.raft
	m.lead.lease = func() time.Time {
		config := m.raft.GetConfiguration().Configuration()
		return m.trans.quorumAnswered(config, raft.ServerID(m.self.id)).Add(t.lease)
	}
	return nil
}
