// This file owns what may be done to a directory while no member uses it: to read what a member has
// left there, and to make one in which a member begins a cluster by itself.

package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
)

// Remains is what a member has left in its directory.
type Remains struct {
	Cluster string // the cluster's id; "" if it has never been part of one
	Name    string // the member's, in the cluster; "" if it does not know it yet
	Votes   bool   // the cluster has given it a vote
	IsAlone bool   // the cluster has no other member
	Last    uint64 // the number of the newest entry; 0 if it has had none
	Term    uint64 // the newest term that it knows
	// At is when the leader made the newest entry, by its clock. It is zero if that is not known.
	At time.Time
}

// Inspect returns what a member has left in dir. It hands the entries that the [Storage] may lack to
// apply, in order, also those of which the member does not know whether they are committed. apply may
// be nil. The error is [fs.ErrNotExist] if there is no such directory.
func Inspect(dir string, apply func(entry []byte) error) (is Remains, err error) {
	if _, err := os.Stat(dir); err != nil {
		return is, err
	}
	lock, err := openDir(dir)
	if err != nil {
		return is, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	id, err := readID(filepath.Join(dir, "id"))
	if err != nil {
		return is, err
	}
	if is.Cluster, err = readID(filepath.Join(dir, "cluster")); err != nil {
		return is, err
	}
	notes := snapshots{path: filepath.Join(dir, "snapshot")}
	if err := notes.load(); err != nil {
		return is, err
	}
	log, err := openStore(dir, timing{}.withDefaults().segment, slog.New(slog.DiscardHandler))
	if err != nil {
		return is, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := fit(log, notes.latest); err != nil {
		return is, err
	}
	servers, err := is.read(log, notes.latest, apply)
	for _, s := range servers {
		if string(s.ID) == id {
			is.Name, is.Votes = string(s.Address), s.Suffrage == raft.Voter
			is.IsAlone = len(servers) == 1
		}
	}
	return is, err
}

// read reads log, and returns the members of the cluster. meta is that of the latest snapshot, or nil.
func (is *Remains) read(
	log store, meta *raft.SnapshotMeta, apply func([]byte) error,
) (servers []raft.Server, err error) {
	if meta != nil {
		is.Last, is.Term, servers = meta.Index, meta.Term, meta.Configuration.Servers
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	var entry raft.Log
	if last > 0 && last <= is.Last { // it tells the time
		if err := log.GetLog(last, &entry); err != nil {
			return nil, err
		}
		is.At = entry.AppendedAt
	}
	for index := is.Last + 1; index <= last; index++ {
		entry = raft.Log{}
		if err := log.GetLog(index, &entry); err != nil {
			return nil, err
		}
		switch {
		case entry.Type == raft.LogConfiguration:
			servers = raft.DecodeConfiguration(entry.Data).Servers
		case entry.Type == raft.LogCommand && apply != nil:
			if err := apply(entry.Data); err != nil {
				return nil, fmt.Errorf("entry %d: %w", index, err)
			}
		}
		is.Last, is.Term, is.At = entry.Index, entry.Term, entry.AppendedAt
	}
	term, err := log.GetUint64(termKey)
	is.Term = max(is.Term, term)
	return servers, err
}

// termKey is raft's name for the term among what it keeps beside the log.
var termKey = []byte("CurrentTerm")

// Found makes dir, which must not be there. A member that starts there leads the cluster before as its
// only voter, or a new one if that has no id. Others with empty directories then join. What the member's
// [Storage] has stands for all entries up to before. The member has a new id: those that the cluster
// had before are none of its members any more. A process that is killed leaves no dir, or a whole one.
func Found(dir, name string, before Remains) (err error) {
	if err := CheckName(name); err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: %w", dir, errors.Join(err, fs.ErrExist))
	}
	made := dir + ".new"
	if err := os.RemoveAll(made); err != nil { // of an attempt that was cut short
		return err
	}
	if err := found(made, name, before); err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	if err := os.Rename(made, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// found is Found, in a directory that may be half done.
func found(dir, name string, before Remains) (err error) {
	lock, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	self, err := loadSelf(dir)
	if err != nil {
		return err
	}
	cluster := before.Cluster
	if cluster == "" {
		cluster = clusterOf(map[string]string{name: self.id})
	}
	if err := self.adopt(cluster); err != nil {
		return err
	}
	index, term := before.Last+1, before.Term+1
	log, err := openStore(dir, timing{}.withDefaults().segment, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := errors.Join(log.SetUint64(termKey, term), log.Close()); err != nil {
		return err
	}
	note, err := json.Marshal(raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term,
		Configuration: raft.Configuration{Servers: []raft.Server{{
			Suffrage: raft.Voter, ID: raft.ServerID(self.id), Address: raft.ServerAddress(name),
		}}},
		ConfigurationIndex: index,
	})
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "snapshot"), append(note, '\n')); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Join(dir, "raft")), syncDir(dir))
}
