package state

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// leadIn makes a member lead, and enter a generation of the group with an id. record runs before its
// term ends.
func (g *group) leadIn(m *member, cluster string, want uint64, record func(*Store)) {
	g.t.Helper()
	g.apply(m, len(g.agreed))
	s, err := m.Lead(func(entry []byte) error { return g.propose(m, entry) })
	if err != nil {
		g.t.Fatal(err)
	}
	if got, err := s.EnterGeneration(cluster); err != nil || got != (Generation{cluster, want}) {
		g.t.Errorf("got %v, %v, want %s/%d", got, err, cluster, want)
	}
	s.recorded(func() { record(s) })
	ctx, cancel := context.WithCancel(g.t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		g.t.Fatal(err)
	}
}

func nothing(*Store) {}

// The generation is part of what replicas agree on: the next leader knows it, and no leader records it
// again.
func TestGenerationOfReplicas(t *testing.T) {
	g := newGroup(t, 1)
	g.leadIn(g.members[0], "c1", 1, func(s *Store) { s.PutNote(Note{Rule: "r", Name: "n", Value: []byte("v")}) })
	first := len(g.agreed)
	g.leadIn(g.members[1], "c1", 1, nothing)
	for _, entry := range g.agreed[first:] {
		if strings.Contains(string(entry), generationNote.Name) {
			t.Error("the second leader records the generation again")
		}
	}
	g.restart(g.members[1], false)
	g.leadIn(g.members[1], "c1", 1, nothing)
	g.copy(g.members[2], g.members[1])
	g.leadIn(g.members[2], "c1", 1, nothing)
	g.compare()
}

// alone opens the state of a member as an informd without replicas does, and returns its generation.
func alone(t *testing.T, m *member) (got Generation) {
	t.Helper()
	s := open(t, groupDir, onMemory(m.files))
	got, err := s.EnterGeneration("")
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := s.Rules(); err != nil || len(rules) != 1 {
		t.Errorf("rules %v, %v", rules, err)
	}
	closed(t, s)
	return got
}

// An informd that continues with the state of replicas raises the generation once, whichever member's
// state that is, and whether the member has ended in order.
func TestGenerationOfOneOutOfReplicas(t *testing.T) {
	g := newGroup(t, 1)
	g.leadIn(g.members[0], "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r"}) })
	g.apply(g.members[1], len(g.agreed))
	g.copy(g.members[2], g.members[0])
	for len(g.members) > 0 {
		m := g.members[0]
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		g.members = g.members[1:]
		for range 3 {
			if got := alone(t, m); got != (Generation{"c1", 2}) {
				t.Errorf("got %v, and %d members are left", got, len(g.members))
			}
		}
	}
}

// The new generation is in the log with the first cut, before any event of it. If it is lost, the next
// process enters the same one.
func TestGenerationIsRecordedFirst(t *testing.T) {
	g := newGroup(t, 1)
	g.leadIn(g.members[0], "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r"}) })
	m := g.members[0]
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	g.members = g.members[1:]
	for range 2 { // the first one ends before it has written anything
		s := open(t, groupDir, onMemory(m.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: g.Rand})))
		if got, err := s.EnterGeneration(""); err != nil || got.Number != 2 {
			t.Fatalf("got %v, %v", got, err)
		}
		s.recorded(func() { s.PutRule(RuleMemory{Name: "r2"}) })
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
		c, err := log.Recover(logFiles{s.opts.disk}, s.db.Load().dir, s.db.Load().log.End().File)
		if err != nil {
			t.Fatal(err)
		}
		last := c.Contents[len(c.Contents)-1]
		if !last.Changes(string(records.NoteKey(generationNote))) || !last.Changes(string(records.RuleKey("r2"))) {
			t.Error("the log has no generation")
		}
		c.Close()
		closed(t, s)
	}
}

// A process that has entered a generation keeps it if the state turns out to be of no use
// afterwards: its events have that generation, and so have those of the process after it.
func TestGenerationOutlivesTheState(t *testing.T) {
	for name, c := range map[string]struct {
		lives int // in which the state is of use
		lose  func(*testing.T, *Store)
	}{
		"another cluster at the first start": {0, ofAnotherCluster},
		"another cluster later":              {2, ofAnotherCluster},
		"damaged":                            {1, isDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 1)
			m := g.members[0]
			g.leadIn(m, "c1", 1, func(s *Store) {
				if err := s.Bind(Cluster{UID: "u"}); err != nil {
					t.Error(err)
				}
			})
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			g.members = g.members[1:]
			for life := range c.lives + 3 {
				s := open(t, groupDir, onMemory(m.files))
				if got, err := s.EnterGeneration(""); err != nil || got != (Generation{"c1", 2}) {
					t.Errorf("life %d: got %v, %v", life, got, err)
				}
				if life == c.lives {
					c.lose(t, s)
					if n := len(s.Status().SetAside); n != 1 {
						t.Errorf("%d states are set aside", n)
					}
				}
				closed(t, s)
			}
		})
	}
}

func ofAnotherCluster(t *testing.T, s *Store) {
	if err := s.Bind(Cluster{UID: "another"}); err != nil {
		t.Error(err)
	}
}

func isDamaged(t *testing.T, s *Store) {
	if err := s.unreadable(s.db.Load(), errDamaged); !errors.Is(err, ErrSetAside) {
		t.Error(err)
	}
}

// A state that replicas never had has no generation, and keeps none.
func TestStateWithoutGeneration(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s := open(t, dir, Options{})
		if got, err := s.EnterGeneration(""); err != nil || got != (Generation{}) {
			t.Errorf("got %v, %v", got, err)
		}
		if s.unwrittenRecords() != 0 {
			t.Error("it records something")
		}
		closed(t, s)
	}
	meddle(t, dir, func(db *pebble.DB) error {
		if _, ok, err := get(db, records.NoteKey(generationNote)); ok || err != nil {
			t.Errorf("the store has a generation: %v", err)
		}
		return nil
	})
}

// What the note says can only be damaged with the rest of the state.
func TestDamagedGeneration(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	s.recorded(func() { s.setNote(generationNote, []byte{5}) })
	closed(t, s)
	s = open(t, dir, Options{})
	if got, err := s.EnterGeneration(""); !errors.Is(err, ErrSetAside) || got != (Generation{}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.EnterGeneration(""); err != nil || got != (Generation{}) {
		t.Errorf("afterwards: %v, %v", got, err)
	}
	closed(t, s)
}

// A generation grows whenever replicas and an informd without any take turns.
func TestNextGeneration(t *testing.T) {
	kept := keptGeneration{}
	for i, c := range []struct {
		cluster string
		want    keptGeneration
	}{
		{"", keptGeneration{}},
		{"a", keptGeneration{Generation{"a", 1}, false}},
		{"a", keptGeneration{Generation{"a", 1}, false}},
		{"", keptGeneration{Generation{"a", 2}, true}},
		{"", keptGeneration{Generation{"a", 2}, true}},
		{"a", keptGeneration{Generation{"a", 3}, false}},
		{"", keptGeneration{Generation{"a", 4}, true}},
		{"b", keptGeneration{Generation{"b", 1}, false}},
	} {
		kept = kept.next(c.cluster)
		if kept != c.want {
			t.Errorf("%d: got %v, want %v", i, kept, c.want)
		}
		if again, err := decodeGeneration(kept.encode()); err != nil || again != kept {
			t.Errorf("%d: read back as %v, %v", i, again, err)
		}
	}
}

// A replica may end while it puts a copy in the place of its store. An informd without replicas
// completes that as the replica would, and removes what else is left of copies.
func TestOneOutOfReplicasCompletesACopy(t *testing.T) {
	g := newGroup(t, 1)
	g.leadIn(g.members[0], "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r"}) })
	m := g.members[0]
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	g.members = g.members[1:]
	if err := errors.Join(
		m.files.Rename(groupDir+"/"+storeName, groupDir+"/"+completeName),
		m.files.MkdirAll(groupDir+"/"+copyPrefix+"1/"+storeName, 0o700),
		m.files.MkdirAll(groupDir+"/"+incomingName, 0o700),
	); err != nil {
		t.Fatal(err)
	}
	if got := alone(t, m); got != (Generation{"c1", 2}) {
		t.Errorf("got %v", got)
	}
	names, err := m.files.List(groupDir)
	if err != nil || len(names) != 1 || names[0] != storeName {
		t.Errorf("left are %v, %v", names, err)
	}
}
