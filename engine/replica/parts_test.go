package replica

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	wrong := identityOf(t, c.ca, "b")
	for want, change := range map[string]func(*Options){
		"2 replicas":           func(o *Options) { delete(o.Peers, "c") },
		"is none of":           func(o *Options) { o.Name = "x" },
		`"a b"`:                func(o *Options) { delete(o.Peers, "b"); o.Peers["a b"] = "b:1" },
		"not HOST:PORT":        func(o *Options) { o.Peers["b"] = "b" },
		"no number between":    func(o *Options) { o.Peers["b"] = "b:x" },
		"host is missing":      func(o *Options) { o.Peers["b"] = ":1" },
		"neither a nor a.wide": func(o *Options) { o.Identity, o.Peers["a"] = wrong, "a.wide:1" },
		"needs an Identity":    func(o *Options) { o.Identity = nil },
	} {
		o := c.nodes[0].options
		o.Peers = map[string]string{"a": "a:1", "b": "b:1", "c": "c:1"}
		change(&o)
		if m, err := Start(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
			if err == nil {
				_ = m.Close()
			}
		}
	}
}

func TestDifferencesOfPeersAreNamed(t *testing.T) {
	t.Parallel()
	own := map[string]string{"a": "a:1", "b": "b:1", "c": "c:1"}
	more := map[string]string{"a": "a:1", "b": "b:1", "c": "c:1", "d": "d:1"}
	for want, others := range map[string]map[string]string{
		"":                                      {"a": "a:1", "b": "b:1", "c": "c:1"},
		"a knows the replica c, but b does not": {"a": "a:1", "b": "b:1"},
		`a has the address "c:1" for the replica c, but b h`: {"a": "a:1", "b": "b:1", "c": "c:2"},
		`b knows the replica "d", but a does not`:            more,
	} {
		is := differences("a", own, "b", others)
		if !strings.HasPrefix(is, want) || want == "" && is != "" {
			t.Errorf("%q, want %q", is, want)
		}
	}
}

func TestTheClusterHasTheSameIDAgain(t *testing.T) {
	t.Parallel()
	ids := map[string]string{"a": newID(), "b": newID(), "c": newID()}
	id := clusterOf(ids)
	if !isID(id) || clusterOf(ids) != id {
		t.Errorf("the id is %q", id)
	}
	ids["c"] = newID()
	if clusterOf(ids) == id {
		t.Error("other replicas have the same cluster")
	}
}

func TestSelfIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := loadSelf(dir)
	if err != nil || !isID(first.id) || first.clusterID() != "" {
		t.Fatalf("%+v %v", first, err)
	}
	cluster := newID()
	if err := first.adopt(cluster); err != nil {
		t.Fatal(err)
	}
	again, err := loadSelf(dir)
	if err != nil || again.id != first.id || again.clusterID() != cluster {
		t.Errorf("%+v %v", again, err)
	}
	if err := writeFile(filepath.Join(dir, "id"), []byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSelf(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged id: %v", err)
	}
}

// entries returns entries from first to last, of term.
func entries(first, last, term uint64) []*raft.Log {
	var all []*raft.Log
	for i := first; i <= last; i++ {
		all = append(all, &raft.Log{Index: i, Term: term, Data: []byte("x")})
	}
	return all
}

// A member may end between the note of a snapshot that it got and the removal of its old log.
func TestTheLogFitsTheSnapshot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		log         []*raft.Log
		meta        *raft.SnapshotMeta
		first, last uint64
		err         string
	}{
		"no snapshot":             {entries(1, 9, 1), nil, 1, 9, ""},
		"no log":                  {nil, &raft.SnapshotMeta{Index: 5, Term: 1}, 0, 0, ""},
		"a snapshot of its own":   {entries(1, 9, 1), &raft.SnapshotMeta{Index: 5, Term: 1}, 1, 9, ""},
		"a shortened log":         {entries(6, 9, 1), &raft.SnapshotMeta{Index: 5, Term: 1}, 6, 9, ""},
		"the log ends before":     {entries(1, 4, 1), &raft.SnapshotMeta{Index: 5, Term: 1}, 0, 0, ""},
		"entries of another term": {entries(1, 9, 1), &raft.SnapshotMeta{Index: 5, Term: 2}, 0, 0, ""},
		"a gap": {
			entries(7, 9, 1), &raft.SnapshotMeta{Index: 5, Term: 1}, 7, 9, "entry 7",
		},
		"a gap without a snapshot": {entries(7, 9, 1), nil, 7, 9, "entry 7"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lock, err := openDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lock.Close() }()
			log, err := openStore(dir, 1<<20, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = log.Close() }()
			if err := log.StoreLogs(test.log); err != nil {
				t.Fatal(err)
			}
			err = fit(log, test.meta)
			if !says(err, test.err) {
				t.Errorf("fit: %v", err)
			}
			first, _ := log.FirstIndex()
			last, _ := log.LastIndex()
			if first != test.first || last != test.last {
				t.Errorf("the log has %d to %d, want %d to %d", first, last, test.first, test.last)
			}
			if last == 0 && test.meta != nil {
				if err := log.StoreLogs(entries(test.meta.Index+1, test.meta.Index+3, 3)); err != nil {
					t.Errorf("raft cannot go on: %v", err)
				}
			}
		})
	}
}

// newSnapshots returns a store over storage, in dir.
func newSnapshots(t *testing.T, dir string, storage Storage) *snapshots {
	t.Helper()
	s := &snapshots{
		path: filepath.Join(dir, "snapshot"), log: slog.New(slog.DiscardHandler), stall: limit,
		machine: &machine{
			storage: storage, fail: func(err error) { t.Log(err) },
			during: func(_ string, _ int, f func() error) error { return f() },
		},
		stalled: func() {}, wrote: func() {}, fail: func(err error) { t.Error(err) },
	}
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *snapshots) make(t *testing.T, index uint64) raft.SnapshotSink {
	t.Helper()
	made, err := s.Create(1, index, 2, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	dir, from, to := t.TempDir(), new(memory), new(memory)
	for _, entry := range []string{"1:a", "2:b", "3:c"} {
		_ = from.Apply([]byte(entry))
	}
	_ = to.Apply([]byte("1:a"))
	own := newSnapshots(t, t.TempDir(), from)
	if all, err := own.List(); len(all) != 0 || err != nil {
		t.Errorf("%v %v", all, err)
	}
	made := own.make(t, 7)
	snapshot, _ := own.machine.Snapshot()
	if err := errors.Join(snapshot.Persist(made), made.Close()); err != nil {
		t.Fatal(err)
	}
	if from.synced != 3 {
		t.Error("Persist does not sync")
	}
	meta, content, err := own.Open(made.ID())
	if err != nil || meta.Index != 7 {
		t.Fatalf("%+v %v", meta, err)
	}
	read, _ := io.ReadAll(content)
	if int64(len(read)) != meta.Size {
		t.Errorf("%d bytes, and not %d", len(read), meta.Size)
	}

	other := newSnapshots(t, dir, to)
	for _, cancel := range []bool{true, false} {
		made := other.make(t, 7)
		if _, err := made.Write(read[:len(read)/2]); err != nil {
			t.Fatal(err)
		}
		if !other.isInstalling() {
			t.Error("nobody sees that a snapshot is installed")
		}
		if cancel {
			_ = made.Cancel()
			if len(to.entries) != 1 {
				t.Error("a cancelled snapshot was installed")
			}
			if all, _ := other.List(); len(all) != 0 {
				t.Error("a cancelled snapshot was noted")
			}
			continue
		}
		_, err := made.Write(read[len(read)/2:])
		if err := errors.Join(err, made.Close()); err != nil {
			t.Fatal(err)
		}
		meta, content, err := other.Open(made.ID())
		if err != nil || meta.Index != 7 {
			t.Fatalf("%+v %v", meta, err)
		}
		if err := other.machine.Restore(content); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(to.entries, from.entries) || other.isInstalling() {
		t.Errorf("installed %q", to.entries)
	}
	all, _ := newSnapshots(t, dir, to).List()
	if len(all) != 1 || all[0].Index != 7 || all[0].Term != 2 {
		t.Errorf("after a restart: %+v", all)
	}
}

// A snapshot of its own that a member was taking when another one replaced its content is not noted:
// the log may begin later by now.
func TestASnapshotThatComesTooLate(t *testing.T) {
	t.Parallel()
	s := newSnapshots(t, t.TempDir(), new(memory))
	own, err := s.machine.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	of := s.make(t, 5)
	if err := own.Persist(of); err != nil {
		t.Fatal(err)
	}
	received := s.make(t, 9)
	if _, err := received.Write([]byte("[]")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.machine.Snapshot(); !errors.Is(err, errReplaced) {
		t.Errorf("a snapshot while another one is installed: %v", err)
	}
	if err := received.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.machine.Snapshot(); !errors.Is(err, errReplaced) {
		t.Errorf("a snapshot before raft knows what was installed: %v", err)
	}
	if err := of.Close(); !errors.Is(err, errReplaced) {
		t.Errorf("the late snapshot: %v", err)
	}
	_, content, err := s.Open(received.ID())
	if err = errors.Join(err, s.machine.Restore(content)); err != nil {
		t.Error(err)
	}
	if _, err := s.machine.Snapshot(); err != nil {
		t.Errorf("a snapshot afterwards: %v", err)
	}
	if all, _ := s.List(); len(all) != 1 || all[0].Index != 9 {
		t.Errorf("noted %+v", all)
	}
}

// An Install that fails early does not make raft wait.
func TestAnInstallThatFails(t *testing.T) {
	t.Parallel()
	s := newSnapshots(t, t.TempDir(), refusing{new(memory)})
	made := s.make(t, 7)
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		_, err = made.Write(make([]byte, 1000))
	}
	if err == nil {
		t.Error("all was written")
	}
	_ = made.Cancel()
	if made = s.make(t, 7); made.Close() == nil {
		t.Error("an Install that fails is none")
	}
	if all, _ := s.List(); len(all) != 0 {
		t.Errorf("noted %+v", all)
	}
}

// A leader that does not go on sending does not keep the member waiting.
func TestASnapshotThatStalls(t *testing.T) {
	t.Parallel()
	s := newSnapshots(t, t.TempDir(), new(memory))
	stalled := make(chan struct{}, 1)
	s.stall, s.stalled = time.Millisecond, func() { stalled <- struct{}{} }
	made := s.make(t, 7)
	if _, err := made.Write([]byte("[")); err != nil {
		t.Fatal(err)
	}
	<-stalled
	_ = made.Cancel()
}

type refusing struct{ *memory }

func (refusing) Install(io.Reader) error { return errors.New("no space left") }

// After an error of the Storage, nothing reaches it and no snapshot is noted: there would be a gap.
func TestNothingFollowsAnErrorOfTheStorage(t *testing.T) {
	t.Parallel()
	storage := new(memory)
	s := newSnapshots(t, t.TempDir(), storage)
	storage.fail = errors.New("broken")
	if err := s.machine.Apply(&raft.Log{Index: 1, Data: []byte("1:a")}); err == nil {
		t.Error("no error")
	}
	storage.fail = nil
	err := s.machine.Apply(&raft.Log{Index: 2, Data: []byte("2:b")})
	if err == nil || len(storage.entries) > 0 || len(storage.wrong) > 0 {
		t.Errorf("applied after an error: %v", storage.entries)
	}
	if _, err := s.machine.Snapshot(); err == nil {
		t.Error("a snapshot after an error")
	}
	if _, _, err := s.machine.open(); err == nil {
		t.Error("content after an error")
	}
}

// While a member is closed, its log may return entries that mean nothing.
func TestNothingFollowsTheEnd(t *testing.T) {
	t.Parallel()
	storage := new(memory)
	s := newSnapshots(t, t.TempDir(), storage)
	s.machine.refuse(errClosed)
	if err := s.machine.Apply(&raft.Log{Index: 1, Data: []byte("1:a")}); err == nil {
		t.Error("no error")
	}
	if len(storage.entries) > 0 {
		t.Errorf("applied %q", storage.entries)
	}
}

func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCalls()
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	isRunning := make(chan struct{})
	go func() {
		result <- c.inTurn(ctx, func() error {
			close(isRunning)
			<-release
			return nil
		})
	}()
	<-isRunning
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ended: %v", err)
	}
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c.inTurn(brief, func() error { t.Error("not in turn"); return nil }); err == nil {
		t.Error("no error")
	}
	if c.close(time.Millisecond) {
		t.Error("close does not wait")
	}
	close(release)
	if !c.close(limit) {
		t.Error("close waits for nothing")
	}
	if err := c.inTurn(context.Background(), func() error { return nil }); !errors.Is(err, errClosed) {
		t.Errorf("a call after close: %v", err)
	}
}

func TestSizesSayWhenASnapshotIsDue(t *testing.T) {
	t.Parallel()
	s := newSizes(timing{logBytes: 100, logEntries: 4})
	isDue := func() bool {
		select {
		case <-s.due:
			return true
		default:
			return false
		}
	}
	add := func(index uint64, size int) {
		s.add([]*raft.Log{{Index: index, Data: make([]byte, size)}})
	}
	add(11, 200)
	add(12, 200)
	if isDue() {
		t.Error("due with too few entries")
	}
	add(13, 200)
	add(14, 200)
	if !isDue() || s.keep() != 4 {
		t.Errorf("not due, or keeps %d", s.keep())
	}
	s.reset()
	for i := range uint64(9) {
		add(15+i, 10)
	}
	if isDue() {
		t.Error("due with too few bytes")
	}
	add(24, 10)
	if !isDue() || s.keep() != 10 {
		t.Errorf("not due, or keeps %d", s.keep())
	}
}
