package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler/handlertest/testca"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds every wait of a test. It is generous, as the machine may be slow and busy.
const limit = 2 * time.Minute

// memory is a Storage. An entry is NUMBER:TEXT; numbers have no gap.
type memory struct {
	mu      sync.Mutex
	entries []string
	synced  int
	wrong   []string // what must not happen
	fail    error    // Apply's
	busy    bool     // Install runs
}

func (s *memory) Apply(entry []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	var number int
	if _, err := fmt.Sscanf(string(entry), "%d:", &number); err != nil {
		s.wrong = append(s.wrong, fmt.Sprintf("entry %q", entry))
	}
	switch {
	case s.busy:
		s.wrong = append(s.wrong, "Apply during Install")
	case number == len(s.entries)+1:
		s.entries = append(s.entries, string(entry))
	case number > len(s.entries)+1 || s.entries[number-1] != string(entry):
		s.wrong = append(s.wrong, fmt.Sprintf("entry %.20q after %d", entry, len(s.entries)))
	}
	return nil
}

func (s *memory) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = len(s.entries)
	return nil
}

func (s *memory) Snapshot() (io.ReadCloser, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, err := json.Marshal(s.entries)
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), err
}

func (s *memory) Install(content io.Reader) error {
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	read, err := io.ReadAll(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if err != nil {
		return err
	}
	var entries []string
	if err := json.Unmarshal(read, &entries); err != nil {
		return err
	}
	s.entries, s.synced = entries, len(entries)
	return nil
}

// losePower makes s forget what was not synced.
func (s *memory) losePower() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = s.entries[:s.synced]
}

func (s *memory) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries)
}

// node is a member with what outlives it.
type node struct {
	name    string
	dir     string
	storage *memory
	disk    *trickyDisk
	options Options

	mu     sync.Mutex
	member *Member // nil while it is stopped
	term   *Term
	stop   context.CancelFunc
	done   chan struct{}
}

// cluster is three nodes with a network between them.
type cluster struct {
	t     *testing.T
	net   *tangle
	ca    *testca.CA
	nodes []*node
	acked []string
	log   *slog.Logger
}

// quick is the timing of tests. Elections are no faster than with the defaults: the machine may be
// busy.
var quick = timing{
	look: 100 * time.Millisecond, rest: 500 * time.Millisecond, commit: 100 * time.Millisecond,
	ask: 5 * time.Second, handshake: 10 * time.Second, segment: 1 << 20,
}

// newCluster makes three nodes, which are not started.
func newCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	if len(names) == 0 {
		names = []string{"a", "b", "c"}
	}
	c := &cluster{
		t: t, net: newTangle(), ca: testca.New(t, t.TempDir(), "ca"),
		log: slog.New(slog.NewTextHandler(lines{t}, &slog.HandlerOptions{Level: level()})),
	}
	peers := make(map[string]string)
	for _, name := range names {
		peers[name] = name + ".example:1"
	}
	for _, name := range names {
		n := &node{name: name, dir: filepath.Join(t.TempDir(), "r"), storage: new(memory)}
		n.disk = newTrickyDisk()
		n.options = Options{
			Name: name, Peers: peers, Identity: identityOf(t, c.ca, name), Dir: n.dir,
			Storage: n.storage, Version: "v1", timing: quick, tamper: n.disk.under,
			Logger: c.log.With("at", name),
		}
		n.options.Listen, n.options.Dial = c.net.of(name)
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.disk.heal()
			n.close(t)
			n.storage.mu.Lock()
			for _, wrong := range n.storage.wrong {
				t.Errorf("the storage of %s: %s", n.name, wrong)
			}
			n.storage.mu.Unlock()
		}
	})
	return c
}

// startCluster is newCluster, and starts the nodes.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.startAll()
	return c
}

func (c *cluster) startAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.start(c.t)
	}
}

func level() slog.Level {
	if os.Getenv("REPLICA_TEST_DEBUG") != "" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// lines writes to a test's log.
type lines struct{ t *testing.T }

func (l lines) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// identityOf makes an Identity whose certificate is for hosts.
func identityOf(t testing.TB, ca *testca.CA, hosts ...string) *Identity {
	t.Helper()
	dir := t.TempDir()
	writeIdentity(t, dir, ca, hosts...)
	identity, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func writeIdentity(t testing.TB, dir string, ca *testca.CA, hosts ...string) {
	t.Helper()
	cert, key := ca.Issue(t, strings.Join(hosts, "-"), hosts...)
	for from, to := range map[string]string{cert: "tls.crt", key: "tls.key", ca.File: "ca.crt"} {
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// start starts the member, and leads whenever it can.
func (n *node) start(t *testing.T) {
	t.Helper()
	member, err := Start(n.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.member, n.stop, n.done = member, stop, make(chan struct{})
	done := n.done
	go func() {
		defer close(done)
		for {
			term, err := member.Lead(ctx)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.term = term
			n.mu.Unlock()
			<-term.Context().Done()
		}
	}()
}

// close closes the member, if it runs.
func (n *node) close(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	member, stop, done := n.member, n.stop, n.done
	n.member, n.term = nil, nil
	n.mu.Unlock()
	if member == nil {
		return
	}
	stop()
	if err := member.Close(); err != nil {
		t.Errorf("closing %s: %v", n.name, err)
	}
	<-done
}

// wipe empties what the node has on disk.
func (n *node) wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	wrong := n.storage.wrong
	n.storage = &memory{wrong: wrong}
	n.options.Storage = n.storage
}

// current returns the node's term, if it leads.
func (n *node) current() *Term {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term == nil || n.term.Context().Err() != nil {
		return nil
	}
	return n.term
}

// next returns text as the entry that would follow those of n.
func (n *node) next(text string) string {
	return fmt.Sprintf("%d:%s", len(n.storage.all())+1, text)
}

// wait waits until is returns true.
func wait(t testing.TB, for_ string, is func() bool) {
	t.Helper()
	until := time.Now().Add(limit)
	for !is() {
		if time.Now().After(until) {
			t.Fatalf("waited too long: %s", for_)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// leader waits until a node leads that is none of but.
func (c *cluster) leader(but ...*node) *node {
	c.t.Helper()
	leader, _ := c.leading(but...)
	return leader
}

// leading is leader and returns the term, too.
func (c *cluster) leading(but ...*node) (leader *node, term *Term) {
	c.t.Helper()
	wait(c.t, "a replica leads", func() bool {
		for _, n := range c.nodes {
			if slices.Contains(but, n) {
				continue
			}
			if leader, term = n, n.current(); term != nil {
				return true
			}
		}
		return false
	})
	return leader, term
}

// propose appends count entries of size bytes, by whoever leads.
func (c *cluster) propose(count, size int) {
	c.t.Helper()
	for range count {
		wait(c.t, "an entry is committed", func() bool {
			for _, n := range c.nodes {
				term := n.current()
				if term == nil {
					continue
				}
				entry := n.next(newID() + " " + strings.Repeat("x", size))
				if term.Propose([]byte(entry)) == nil {
					c.acked = append(c.acked, entry)
					return true
				}
			}
			return false
		})
	}
}

// settle waits until all running nodes have applied the same entries, with all that were
// acknowledged, in their order.
func (c *cluster) settle() {
	c.t.Helper()
	wait(c.t, "all replicas have the same entries", func() bool {
		var first []string
		for _, n := range c.nodes {
			if n.member == nil {
				continue
			}
			all := n.storage.all()
			if first == nil {
				first = all
			}
			if !slices.Equal(all, first) || !hasAll(all, c.acked) {
				return false
			}
		}
		return true
	})
}

// hasAll reports whether all has the entries of some, in their order.
func hasAll(all, some []string) bool {
	for _, entry := range all {
		if len(some) > 0 && some[0] == entry {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// recorder keeps log lines.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *recorder) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), text)
}
