package state

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// formatOn returns the version of the format that the store of a member says, its logs not counted.
func formatOn(t *testing.T, m *member) (version uint64) {
	t.Helper()
	err := m.current.Load().locked(func(db pebble.Reader) error {
		text, _, err := get(db, records.FormatKey)
		if err == nil {
			version, err = versionOf(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// formats returns the versions that the entries of a group set.
func (g *group) formats() (versions []uint64) {
	g.t.Helper()
	for _, entry := range g.agreed {
		e, err := log.ReadEntry(entry)
		if err != nil {
			g.t.Fatal(err)
		}
		if record, ok := e.Only(records.FormatKey); ok {
			version, err := versionOf(record)
			if err != nil {
				g.t.Fatal(err)
			}
			versions = append(versions, version)
		}
	}
	return versions
}

// entryAt returns an entry that sets a key, for the end of a member's log.
func entryAt(t *testing.T, m *member, key, value []byte) (entry []byte) {
	t.Helper()
	propose := func(e []byte) error {
		entry = bytes.Clone(e)
		return errLost
	}
	m.propose.Store(&propose)
	defer m.propose.Store(nil)
	l := m.log.Load()
	var f log.Frame
	f.Reset(l.End())
	f.Change(log.Set, key)
	f.Value(value, nil)
	if _, err := l.Append(&f); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	return entry
}

// The first leader makes all stores ones of the format that it writes, by an entry of the log, and no
// later one does so again. Each store says so before its log has anything of the format, and so does a
// copy. Which version a store without replicas gets does not matter.
func TestFormatOfReplicas(t *testing.T) {
	for _, format := range []uint64{records.FormatVersion, records.SharedFormat} {
		t.Run(fmt.Sprint(format), func(t *testing.T) { formatOfReplicas(t, newGroupOf(t, 1, format)) })
	}
}

func formatOfReplicas(t *testing.T, g *group) {
	g.isAlone = true
	for _, m := range g.members {
		if got := formatOn(t, m); got != records.FirstShared {
			t.Errorf("an empty store is of version %d, want %d", got, records.FirstShared)
		}
	}
	g.leadIn(g.members[0], "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r", Resource: strings.Repeat("x", 5000)}) })
	if got := formatOn(t, g.members[0]); got != records.SharedFormat {
		t.Errorf("the leader's store is of version %d, want %d", got, records.SharedFormat)
	}
	m := g.members[1]
	for m.applied < len(g.agreed) {
		e, err := log.ReadEntry(g.agreed[m.applied])
		if err != nil {
			t.Fatal(err)
		}
		g.apply(m, m.applied+1)
		if got := formatOn(t, m); e.At.Offset > 0 && got != records.SharedFormat {
			t.Errorf("after entry %d the store is of version %d, want %d", m.applied, got, records.SharedFormat)
		}
	}
	g.copy(g.members[2], g.members[1])
	for _, m := range g.members {
		g.restart(m, false)
		if got := formatOn(t, m); got != records.SharedFormat {
			t.Errorf("after a restart the store is of version %d, want %d", got, records.SharedFormat)
		}
	}
	g.leadIn(g.members[2], "c1", 1, nothing)
	g.leadIn(g.members[1], "c1", 1, nothing)
	if got := g.formats(); len(got) != 1 || got[0] != records.SharedFormat {
		t.Errorf("the log sets the formats %v", got)
	}
	g.compare()
}

// A newer informd that starts leaves the format of a replica's store as it is. The leader changes
// it, for all replicas at once.
func TestFormatIsNotRaisedAtAStart(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	g.format = records.SharedFormat
	for _, m := range g.members {
		m.journal = new(journal)
		g.restart(m, false)
		if got := formatOn(t, m); got != records.FirstShared {
			t.Errorf("after a start the store is of version %d, want %d", got, records.FirstShared)
		}
		if text := m.journal.text(); strings.Contains(text, "upgraded") {
			t.Errorf("logged: %s", text)
		}
	}
	g.leadIn(g.members[0], "c1", 1, nothing)
	if got := g.formats(); len(got) != 1 || got[0] != records.SharedFormat {
		t.Errorf("the log sets the formats %v", got)
	}
}

// A replica whose informd is older than the format follows, says so, and does not lead, also after a
// restart, and after a copy. An informd without replicas refuses the state.
func TestNewerFormatOfReplicas(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	old, copied, leader := g.members[0], g.members[1], g.members[2]
	g.leadIn(leader, "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r"}) })
	if why := leader.Trouble(); why != "" || leader.CheckFormat() != nil {
		t.Errorf("trouble: %s, %v", why, leader.CheckFormat())
	}
	// What a newer informd writes.
	for _, value := range [][]byte{records.FormatOf(records.NewestFormat + 1), []byte("new")} {
		key := records.FormatKey
		if string(value) == "new" {
			key = records.RuleKey("r")
		}
		entry := entryAt(t, leader, key, value)
		g.agreed = append(g.agreed, entry)
		g.apply(leader, len(g.agreed))
	}
	g.apply(old, len(g.agreed))
	g.copy(copied, leader)
	for range 2 {
		for i, m := range g.members {
			if got := formatOn(t, m); got != records.NewestFormat+1 {
				t.Errorf("member %d is of version %d", i, got)
			}
			if why := m.Trouble(); !strings.Contains(why, "it cannot lead until it is updated") {
				t.Errorf("member %d: trouble %q", i, why)
			}
			if err := m.CheckFormat(); !errors.As(err, new(*VersionError)) {
				t.Errorf("member %d: the format is fine: %v", i, err)
			}
			_, err := m.Lead(func([]byte) error { return errors.New("it proposes an entry") })
			if newer := new(VersionError); !errors.As(err, &newer) || newer.Dir != groupDir || newer.Found != records.NewestFormat+1 {
				t.Errorf("member %d leads: %v", i, err)
			}
			if m.Err() != nil {
				t.Errorf("member %d does not follow: %v", i, m.Err())
			}
			if n := m.journal.count("it cannot lead until it is updated"); n != 1 {
				t.Errorf("member %d logged it %d times:\n%s", i, n, m.journal.text())
			}
		}
		entry := entryAt(t, leader, records.RuleKey("r"), []byte("newer"))
		g.agreed = append(g.agreed, entry)
		for _, m := range g.members {
			g.apply(m, len(g.agreed))
		}
		g.compare()
		for _, m := range g.members {
			m.journal = new(journal)
			g.restart(m, false)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	g.members = g.members[1:]
	if _, err := Open(groupDir, onMemory(old.files)); !errors.As(err, new(*VersionError)) {
		t.Errorf("an informd without replicas opens it: %v", err)
	}
}

// A replica may end after its log has the entry and before its store says so. Then the log says it to
// whoever opens the store, and nothing is set aside.
func TestNewerFormatInTheLogAlone(t *testing.T) {
	g := newGroup(t, 1)
	g.isAlone = true
	m := g.members[0]
	g.leadIn(m, "c1", 1, func(s *Store) { s.PutRule(RuleMemory{Name: "r"}) })
	e, err := log.ReadEntry(entryAt(t, m, records.FormatKey, records.FormatOf(records.NewestFormat+1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.log.Load().Write(e); err != nil {
		t.Fatal(err)
	}
	g.restart(m, false)
	if got := formatOn(t, m); got != records.SharedFormat {
		t.Errorf("the store is of version %d already", got)
	}
	if _, err := m.Lead(func([]byte) error { return errors.New("it proposes an entry") }); !errors.As(err, new(*VersionError)) {
		t.Errorf("the replica leads: %v", err)
	}
	if why := m.Trouble(); why == "" || m.Err() != nil {
		t.Errorf("trouble %q, %v", why, m.Err())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	g.members = g.members[1:]
	if _, err := Open(groupDir, onMemory(m.files)); !errors.As(err, new(*VersionError)) {
		t.Errorf("an informd without replicas opens it: %v", err)
	}
	if names, err := m.files.List(groupDir); err != nil || len(names) != 1 {
		t.Errorf("there are %v, %v", names, err)
	}
}

// A log that sets an older format and gets into the store late does not lower what the store says.
func TestFormatIsNotLowered(t *testing.T) {
	g := newGroup(t, 1)
	m := g.members[0]
	g.leadIn(m, "c1", 1, nothing)
	d := m.current.Load()
	next, err := d.next()
	if err != nil {
		t.Fatal(err)
	}
	left, err := log.Recover(logFiles{m.files}, d.dir, next)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	const newer = records.NewestFormat + 1
	if err := d.raiseFormat(newer); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, c := range left.Contents {
		if !c.Changes(string(records.FormatKey)) {
			continue
		}
		moved++
		begun := records.Progress{Next: c.Number(), Begun: c.Length()}
		if err := d.move(c, nil, begun, records.Progress{Next: c.Number() + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := formatOn(t, m); got != newer || moved != 1 {
		t.Errorf("the store is of version %d, want %d, and %d logs were moved", got, newer, moved)
	}
}
