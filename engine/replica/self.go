// This file owns who a member is in its cluster: a random id, the cluster's id, and the greeting by
// which two members make sure that they mean each other.

package replica

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// idLength is the length of a member's and of a cluster's id: 16 bytes, in hex.
const idLength = 32

// self is who this member is. Any goroutine may use it.
type self struct {
	dir string
	id  string

	mu      sync.Mutex // guards the fields below
	cluster string     // "" before the member is part of one
}

// loadSelf reads who the member is from dir, or makes a new id there.
func loadSelf(dir string) (*self, error) {
	s := &self{dir: dir}
	var err error
	if s.cluster, err = readID(filepath.Join(dir, "cluster")); err != nil {
		return nil, err
	}
	if s.id, err = readID(filepath.Join(dir, "id")); err != nil || s.id != "" {
		return s, err
	}
	s.id = newID()
	return s, writeFile(filepath.Join(dir, "id"), []byte(s.id+"\n"))
}

// adopt makes the member part of cluster. It is on disk when adopt returns nil.
func (s *self) adopt(cluster string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeFile(filepath.Join(s.dir, "cluster"), []byte(cluster+"\n")); err != nil {
		return err
	}
	s.cluster = cluster
	return nil
}

// forget makes the member part of no cluster, in memory.
func (s *self) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster = ""
}

// clusterID returns the cluster's id; "" if the member is part of none.
func (s *self) clusterID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster
}

// greet says on conn whom this member means: the one with id, in its own cluster.
func (s *self) greet(conn io.ReadWriter, id string) error {
	cluster := s.clusterID()
	if len(cluster) != idLength || len(id) != idLength {
		return errors.New("the replica is part of no cluster yet")
	}
	if _, err := io.WriteString(conn, cluster+id); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != welcomes {
		return fmt.Errorf("%w: the replica there has another id or belongs to another cluster",
			errRefused)
	}
	return nil
}

// hearGreeting reads a greeting from conn and answers it. It returns an error if another member is
// meant. So a member whose directory was emptied is never taken for the one that it was: the
// cluster counts on entries and votes that were in that directory.
func (s *self) hearGreeting(conn io.ReadWriter) error {
	var greeting [2 * idLength]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	cluster := s.clusterID()
	if cluster == "" || string(greeting[:]) != cluster+s.id {
		_, _ = conn.Write([]byte{refuses})
		return fmt.Errorf("%w: it means the replica %s of the cluster %s", errRefused,
			printableID(greeting[idLength:]), printableID(greeting[:idLength]))
	}
	_, err := conn.Write([]byte{welcomes})
	return err
}

// These bytes answer a greeting.
const (
	welcomes = 'w'
	refuses  = 'x'
)

// printableID returns an id of another member as it may stand in a log.
func printableID(id []byte) string {
	if !isID(string(id)) {
		return "?"
	}
	return string(id)
}

// newID returns a random id.
func newID() string {
	var random [idLength / 2]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// clusterOf returns the id of the cluster that begins with these members: ids by name. Because the
// ids are random, so is this one. And it can be computed again after a crash.
func clusterOf(ids map[string]string) string {
	digest := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		_, _ = fmt.Fprintf(digest, "%q=%s\n", name, ids[name])
	}
	return hex.EncodeToString(digest.Sum(nil)[:idLength/2])
}

// isID reports whether id looks like one.
func isID(id string) bool {
	return len(id) == idLength && strings.Trim(id, "0123456789abcdef") == ""
}

// readID returns the id in a file; "" if there is no such file.
func readID(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSuffix(string(content), "\n")
	if !isID(id) {
		return "", fmt.Errorf("%s is damaged: it holds no id. Empty the replica's directory, so that "+
			"it gets everything from the others", path)
	}
	return id, nil
}

// writeFile writes a file so that after a crash it is the old or the new one.
func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in dir last.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = file.Sync()
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
