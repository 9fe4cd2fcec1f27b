package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// group is several replicas, and what they agree on.
type group struct {
	t *testing.T
	*rand.Rand

	mu      sync.Mutex // guards the fields below
	chance  *rand.Rand // what propose throws
	agreed  [][]byte
	members []*member
	// fails is how many entries are left before one is not agreed on, or its proposer does not learn
	// that it is; -1 means that none fails.
	fails int
	// isAlone says that no other member applies what is agreed on, until apply.
	isAlone bool
	format  uint64 // the version that a store without replicas gets; 0 means FormatVersion
}

// member is a replica on a disk of its own.
type member struct {
	*Replica
	files   *vfs.MemFS
	journal *journal
	applied int // how many entries
	synced  int // how many of them were synced for certain
}

const groupDir = "/state"

func newGroup(t *testing.T, seed uint64) *group { return newGroupOf(t, seed, 0) }

// newGroupOf returns a group whose informds give a store without replicas a version of the format.
func newGroupOf(t *testing.T, seed, format uint64) *group {
	g := &group{
		t: t, Rand: rand.New(rand.NewPCG(seed, 2)), chance: rand.New(rand.NewPCG(seed, 4)), fails: -1,
		format: format,
	}
	for range 3 {
		m := &member{files: vfs.NewCrashableMem(), journal: new(journal)}
		g.open(m)
		g.members = append(g.members, m)
	}
	t.Cleanup(func() {
		for _, m := range g.members {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

func (g *group) open(m *member) {
	g.t.Helper()
	o := onMemory(m.files)
	o.limits.log, o.limits.part, o.limits.read = 20<<10, 3000, 0
	o.limits.format = g.format
	o.limits.patience = time.Minute // a slow machine must not pass for a sick disk
	o.Logger = m.journal.logger()
	r, err := OpenReplica(groupDir, o)
	if err != nil {
		g.t.Fatal(err)
	}
	m.Replica = r
}

// restart ends a member's process, or its machine if losesPower is set, and begins it again.
func (g *group) restart(m *member, losesPower bool) {
	g.t.Helper()
	unsynced := 100 // percent of it that is kept
	if losesPower {
		unsynced, m.applied = g.IntN(101), m.synced
	}
	rest := m.files.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(g.Uint64(), 3)),
	})
	if err := m.Close(); err != nil {
		g.t.Fatal(err)
	}
	m.files = rest
	g.open(m)
}

// apply applies what was agreed on, up to a number of entries.
func (g *group) apply(m *member, upTo int) {
	g.t.Helper()
	for ; m.applied < upTo; m.applied++ {
		if err := m.Apply(g.agreed[m.applied]); err != nil {
			panic(fmt.Sprintf("entry %d: %v\n%s", m.applied, err, m.journal.text())) // not only in the test's goroutine
		}
	}
}

var errLost = fmt.Errorf("%w: leadership is lost", ErrDeposed)

// propose is what a member that leads calls.
func (g *group) propose(m *member, entry []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails == 0 {
		if g.chance.IntN(2) == 0 {
			g.agreed = append(g.agreed, bytes.Clone(entry))
		}
		return errLost
	}
	g.fails = max(g.fails-1, -1)
	g.agreed = append(g.agreed, bytes.Clone(entry))
	g.apply(m, len(g.agreed))
	if other := g.members[g.chance.IntN(len(g.members))]; other != m && !g.isAlone && g.chance.IntN(3) == 0 {
		g.apply(other, len(g.agreed))
	}
	return nil
}

// content is what a store holds: the versions of objects, and the numbers of deliveries by object.
type content struct {
	objects    map[string]string
	deliveries map[string][]uint64
}

func (c content) clone() content {
	return content{maps.Clone(c.objects), maps.Clone(c.deliveries)}
}

func (c content) String() string { return fmt.Sprint(c.objects, c.deliveries) }

// load reads what the store of a term holds, and verifies that each delivery has its object.
func (g *group) load(s *Store) content {
	g.t.Helper()
	c := content{versions(s.mustLoad(g.t, "pods")), make(map[string][]uint64)}
	lane := s.Lane("r", LaneOptions{MaxBytes: 1 << 30})
	keys, err := lane.Keys()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, k := range keys {
		got, err := lane.Load(k.Key, 0, 1000, 1<<30)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, d := range got {
			c.deliveries[k.Key.Name] = append(c.deliveries[k.Key.Name], d.N)
			o := d.Record.Value.Delta.Object
			if want := textOf(k.Key.Name, o.ResourceVersion()); !strings.Contains(string(o.JSON()), want) {
				g.t.Fatalf("delivery %d of %s does not have the object's text", d.N, k.Key.Name)
			}
		}
	}
	return c
}

func textOf(name, version string) string {
	return strings.Repeat(name+"/"+version+" ", 20+len(name)*7)
}

// term lets a member lead for some cuts. history holds what the store may hold: the last of it that
// was agreed on, and what was recorded since. It returns what the next leader may find.
func (g *group) term(m *member, history []content, cuts int) []content {
	g.t.Helper()
	g.mu.Lock()
	g.apply(m, len(g.agreed)) // as a leader does before anything else
	g.fails = -1
	if g.IntN(3) > 0 {
		g.fails = g.IntN(2 * cuts)
	}
	g.mu.Unlock()
	s, err := m.Lead(func(entry []byte) error { return g.propose(m, entry) })
	if errors.Is(err, ErrDeposed) {
		return history
	}
	if err != nil {
		g.t.Fatalf("%v\n%s", err, m.journal.text())
	}
	found := g.load(s)
	if !slices.ContainsFunc(history, func(c content) bool { return c.String() == found.String() }) {
		g.t.Fatalf("the store holds\n%v, and may hold\n%v", found, history)
	}
	history = []content{found}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	objects, lane := s.Objects("pods", ObjectsOptions{Packer: new(object.Packer)}), s.Lane("r", LaneOptions{MaxBytes: 1 << 30})
	version, n := 0, uint64(inOrder)
	for _, v := range found.objects {
		var got int
		fmt.Sscan(v, &got)
		version = max(version, got)
	}
	for _, all := range found.deliveries {
		n = max(n, slices.Max(all))
	}
	now := found.clone()
	for range cuts {
		s.recorded(func() {
			for range 1 + g.IntN(8) {
				version++
				name := fmt.Sprintf("pod-%d", g.IntN(12))
				o := obj(g.t, name, version, textOf(name, fmt.Sprint(version)))
				objects.Put(o, nil)
				objects.Version(fmt.Sprint(version))
				now.objects[name] = fmt.Sprint(version)
				if waiting := now.deliveries[name]; len(waiting) > 2 {
					for _, gone := range waiting {
						lane.Delete(gone, key(name))
					}
					delete(now.deliveries, name)
				}
				n++
				lane.Put(n, key(name), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: o}}})
				now.deliveries[name] = append(slices.Clone(now.deliveries[name]), n)
			}
		})
		history = append(history, now.clone())
		if g.IntN(3) == 0 {
			err := s.AwaitAll(ctx)
			if err != nil && !s.broken.Load() {
				g.t.Fatalf("Await: %v", err)
			}
			if err == nil {
				history = history[len(history)-1:]
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		g.t.Fatal(err)
	}
	if s.IsWritten() {
		history = history[len(history)-1:]
	}
	return history
}

// TestReplicas lets replicas lead in turn, lose their leadership, crash, and copy from each other.
// After each change of the leader, the next one holds everything that was agreed on, and nothing
// that was never recorded.
func TestReplicas(t *testing.T) {
	for seed := range cases(6, 400) {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, seed)
			history := []content{{map[string]string{}, map[string][]uint64{}}}
			for range 12 {
				leader := g.members[g.IntN(3)]
				history = g.term(leader, history, 1+g.IntN(20))
				g.disturb()
			}
			for _, m := range g.members {
				g.apply(m, len(g.agreed))
				for _, text := range []string{"cannot be read", "level=ERROR"} {
					if n := m.journal.count(text); n > 0 {
						t.Errorf("it logged %d times %q:\n%s", n, text, m.journal.text())
					}
				}
			}
			g.compare()
		})
	}
}

// disturb does something to a member that does not lead.
func (g *group) disturb() {
	g.t.Helper()
	m := g.members[g.IntN(3)]
	switch g.IntN(5) {
	case 0:
		g.restart(m, g.IntN(2) == 0)
	case 1:
		g.apply(m, m.applied+g.IntN(len(g.agreed)-m.applied+1))
		if err := m.Sync(); err != nil {
			g.t.Fatal(err)
		}
		m.synced = m.applied
	case 2:
		from := g.members[g.IntN(3)]
		if from == m || from.applied < m.applied {
			return
		}
		g.copy(m, from)
	}
}

func (g *group) copy(m, from *member) {
	g.t.Helper()
	content, size, err := from.Snapshot()
	if err != nil {
		g.t.Fatal(err)
	}
	counted := new(int64)
	if err := m.Install(io.TeeReader(content, countBytes{counted})); err != nil {
		g.t.Fatal(err)
	}
	if err := content.Close(); err != nil {
		g.t.Fatal(err)
	}
	if *counted != size {
		g.t.Errorf("a snapshot of %d bytes was announced with %d", *counted, size)
	}
	m.applied, m.synced = from.applied, from.applied
}

// compare verifies that the members' logs are the same where they overlap.
func (g *group) compare() {
	g.t.Helper()
	type place struct {
		number uint64
		member int
	}
	texts := make(map[place][]byte)
	for i, m := range g.members {
		l := m.log.Load()
		for _, n := range append(l.Full(), l.End().File) {
			if _, err := m.files.Stat(l.Path(n)); err != nil && n == l.End().File {
				continue // the member has no file yet
			}
			f, length, err := logFiles{m.files}.Open(l.Path(n))
			if err != nil {
				g.t.Fatal(err)
			}
			text := make([]byte, length)
			if _, err := f.ReadAt(text, 0); err != nil {
				g.t.Fatal(err)
			}
			_ = f.Close()
			if n == l.End().File {
				text = text[:l.End().Offset]
			}
			texts[place{n, i}] = text
		}
	}
	for at, text := range texts {
		for i := range g.members {
			if other, ok := texts[place{at.number, i}]; ok && !bytes.Equal(text, other) {
				g.t.Errorf("log %d of members %d and %d differs: %d and %d bytes",
					at.number, at.member, i, len(text), len(other))
			}
		}
	}
}

// TestReplicaWithAGap gives a replica an entry that does not go on where its log ends.
func TestReplicaWithAGap(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	g.term(g.members[0], []content{{map[string]string{}, map[string][]uint64{}}}, 20)
	m := g.members[1]
	g.apply(m, 2)
	if err := m.Apply(g.agreed[3]); !errors.As(err, new(*log.GapError)) {
		t.Fatalf("an entry that does not go on: %v", err)
	}
	if err := m.Apply(g.agreed[2]); err == nil {
		t.Error("the replica goes on")
	}
	files := m.files
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	o := onMemory(files)
	o.Logger = m.journal.logger()
	if _, err := OpenReplica(groupDir, o); !errors.Is(err, ErrSetAside) {
		t.Fatalf("a damaged state was not set aside: %v", err)
	}
	g.open(m)
	g.copy(m, g.members[0])
	g.compare()
}

// TestReplicaWithAFlippedBit damages an entry on its way, and a log on disk.
func TestReplicaWithAFlippedBit(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	g.term(g.members[0], []content{{map[string]string{}, map[string][]uint64{}}}, 20)
	m := g.members[1]
	damaged := bytes.Clone(g.agreed[0])
	damaged[len(damaged)-1] ^= 4
	if err := m.Apply(damaged); err == nil {
		t.Error("a damaged entry was applied")
	}
	m = g.members[2]
	g.apply(m, 3)
	if err := m.Sync(); err != nil {
		t.Fatal(err)
	}
	m.synced = 3
	path := m.log.Load().Path(m.log.Load().End().File)
	f, err := m.files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	at, b := m.log.Load().End().Offset-5, []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	g.restart(m, false)
	if err := m.Apply(g.agreed[3]); !errors.As(err, new(*log.GapError)) {
		t.Errorf("an entry after damage: %v", err)
	}
	if said := m.journal.text(); !strings.Contains(said, "the log of this replica is damaged") {
		t.Errorf("the log does not tell of the damage:\n%s", said)
	}
}

// TestReplicaDeposedWhileItsDiskHangs ends a term while the disk hangs, for longer than anybody waits
// for a database that is given up. Then the replica follows again.
func TestReplicaDeposedWhileItsDiskHangs(t *testing.T) {
	files, said := newSickFS(vfs.NewMem()), new(journal)
	o := onMemory(files)
	o.Logger = said.logger()
	r, err := OpenReplica(groupDir, o)
	if err != nil {
		t.Fatal(err)
	}
	var agreed [][]byte
	s, err := r.Lead(func(entry []byte) error {
		if len(agreed) == 5 {
			files.hang()
			return errLost
		}
		agreed = append(agreed, bytes.Clone(entry))
		return r.Apply(entry)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mustLoad(t, "pods")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	objects := s.Objects("pods", ObjectsOptions{Packer: new(object.Packer)})
	for i := 0; !s.broken.Load(); i++ {
		s.recorded(func() { objects.Put(obj(t, "a", i, ""), nil) })
		_ = s.AwaitAll(ctx) // the last one fails
	}
	cancel()
	time.Sleep(1500 * time.Millisecond)
	files.heal()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := r.Apply(agreed[0]); err != nil { // it has this one already
		t.Errorf("the replica does not follow: %v\n%s", err, said.text())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestInstallOfHalfASnapshot ends a snapshot in the middle: the replica keeps what it has.
func TestInstallOfHalfASnapshot(t *testing.T) {
	g := newGroup(t, 1)
	history := g.term(g.members[0], []content{{map[string]string{}, map[string][]uint64{}}}, 20)
	m := g.members[1]
	g.apply(m, len(g.agreed))
	content, size, err := g.members[0].Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Install(io.LimitReader(content, size/2)); err == nil {
		t.Error("half a snapshot was installed")
	}
	if err := content.Close(); err != nil {
		t.Fatal(err)
	}
	g.term(m, history, 5)
}
