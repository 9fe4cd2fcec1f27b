// This file owns snapshots as raft sees them: a note of where the log may begin. The content is the
// Storage's, at the moment when another member needs it.
//
// The content may be newer than the note, never older. A member that gets it then gets entries from
// the note on, of which its Storage has some already, and skips them. If the process ends after the
// content was installed and before the note is written, the older note stays valid for that reason,
// and the leader sends the snapshot again. See fit for an end after the note.

package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// snapshots is a raft.SnapshotStore. Any goroutine may use it.
type snapshots struct {
	path    string
	log     *slog.Logger
	machine *machine
	stall   time.Duration
	stalled func()      // makes the reading of a snapshot fail
	wrote   func()      // a snapshot was noted
	fail    func(error) // ends the member

	mu         sync.Mutex // guards the fields below
	latest     *raft.SnapshotMeta
	installing int // how many snapshots are being installed
}

// load reads the note. It is called once, before the others.
func (s *snapshots) load() error {
	content, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal(content, &meta); err != nil || meta.Index == 0 {
		return fmt.Errorf("%s is damaged: empty the replica's directory, so that it gets everything "+
			"from the others", s.path)
	}
	s.latest = &meta
	return nil
}

// isInstalling reports whether the member receives a snapshot.
func (s *snapshots) isInstalling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installing > 0
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return nil, nil
	}
	meta := *s.latest
	return []*raft.SnapshotMeta{&meta}, nil
}

// received is how the ID of a snapshot begins that was just installed. Nothing needs its content.
const received = "received-"

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	latest := s.latest
	s.mu.Unlock()
	if latest == nil || latest.ID != strings.TrimPrefix(id, received) {
		return nil, nil, fmt.Errorf("there is no snapshot %s any more", id)
	}
	meta := *latest
	if strings.HasPrefix(id, received) {
		return &meta, io.NopCloser(strings.NewReader("")), nil
	}
	content, size, err := s.machine.open()
	meta.Size = size
	return &meta, content, err
}

// Create implements raft.SnapshotStore, for a snapshot of this member and for one of another.
func (s *snapshots) Create(
	version raft.SnapshotVersion, index, term uint64, config raft.Configuration, configIndex uint64,
	_ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{of: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term,
		Configuration: config, ConfigurationIndex: configIndex,
	}}, nil
}

// note makes meta the latest snapshot, on disk.
func (s *snapshots) note(meta raft.SnapshotMeta) error {
	content, err := json.Marshal(meta)
	if err == nil {
		err = writeFile(s.path, append(content, '\n'))
	}
	if err != nil {
		err = fmt.Errorf("cannot write %s: %w", filepath.Base(s.path), err)
		s.fail(err)
		return err
	}
	s.mu.Lock()
	s.latest = &meta
	s.mu.Unlock()
	s.wrote()
	return nil
}

// sink takes one snapshot. Only one goroutine uses it.
type sink struct {
	of    *snapshots
	meta  raft.SnapshotMeta
	isOwn bool   // of this member: nothing is written to it
	since uint64 // if isOwn: the machine's installs when it was taken

	pipe *io.PipeWriter // to Install; nil before it runs
	done chan error     // Install's
	slow *time.Timer    // fires when nothing comes
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string {
	if s.isOwn {
		return s.meta.ID
	}
	return received + s.meta.ID
}

// begin starts Install, which reads what is written from now on.
func (s *sink) begin() {
	if s.pipe != nil {
		return
	}
	reader, writer := io.Pipe()
	s.pipe, s.done = writer, make(chan error, 1)
	s.slow = time.AfterFunc(s.of.stall, s.of.stalled)
	s.of.count(1)
	s.of.machine.installs.Add(1)
	s.of.machine.isReplacing.Store(true)
	go func() {
		err := s.of.machine.install(reader)
		if err == nil {
			// What Install has not read is none of its business, but the writer must not wait.
			_, err = io.Copy(io.Discard, reader)
		}
		_ = reader.CloseWithError(errors.Join(errors.New("the snapshot cannot be installed"), err))
		s.done <- err
	}()
}

func (s *snapshots) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installing += n
}

// Write implements io.Writer.
func (s *sink) Write(content []byte) (int, error) {
	s.begin()
	s.slow.Stop() // that Install takes its time is not the leader's fault
	n, err := s.pipe.Write(content)
	s.slow.Reset(s.of.stall)
	return n, err
}

// finish ends the pipe with err, nil for its end, and returns what Install does.
func (s *sink) finish(err error) error {
	s.slow.Stop()
	_ = s.pipe.CloseWithError(err)
	err = <-s.done
	s.of.count(-1)
	if err != nil {
		s.of.machine.isReplacing.Store(false)
	}
	return err
}

// Close implements raft.SnapshotSink. It returns when the snapshot is installed and noted.
func (s *sink) Close() error {
	if s.isOwn {
		if s.of.machine.installs.Load() != s.since {
			return errReplaced
		}
		return s.of.note(s.meta)
	}
	s.begin()
	if err := s.finish(nil); err != nil {
		s.of.log.Error("cannot install the snapshot that the leader sends; it will send it again",
			"error", err)
		return err
	}
	s.of.log.Info("installed a snapshot of the leader", "last", s.meta.Index)
	s.of.machine.advance(s.meta.Index)
	return s.of.note(s.meta)
}

// Cancel implements raft.SnapshotSink. The content stays as it was.
func (s *sink) Cancel() error {
	if s.pipe == nil {
		return nil
	}
	_ = s.finish(errors.New("the leader stopped sending the snapshot"))
	return nil
}
