package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/records"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STATE_TEST_END"); dir != "" {
		endInStore(dir, os.Getenv("STATE_TEST_HOW"))
	}
	if dir := os.Getenv("STATE_TEST_OPEN"); dir != "" {
		os.Exit(openInAnotherProcess(dir))
	}
	goleak.VerifyTestMain(m)
}

// quick returns limits for tests with a misbehaving disk.
var quick = limits{
	pause: time.Millisecond, patience: 100 * time.Millisecond, grace: time.Minute, retry: 20 * time.Millisecond,
	opening: time.Minute, read: 500 * time.Millisecond, size: 50 * time.Millisecond,
}

// running is a Store whose Run runs.
type running struct {
	*Store
	t    testing.TB
	stop func()
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs s until close, or until the test ends.
func run(t testing.TB, s *Store) *running {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r := &running{s, t, sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(r.stop)
	return r
}

// closed runs s only to write and close it.
func closed(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (r *running) written() {
	r.t.Helper()
	eventually(r.t, "everything is written", func() bool {
		status := r.Status()
		return status.Unwritten == 0 && status.Trouble == ""
	})
}

// flush writes everything that was recorded to the disk, of a Store that does not run.
func (s *Store) flush(d *database) error {
	s.tryAppend()
	s.trySync()
	return d.fail.reported()
}

// turn gives Pebble a log if one is full, as Run would.
func (s *Store) turn() error {
	d := s.db.Load()
	select {
	case full := <-d.full.next:
		s.move(d, full)
	default:
	}
	return d.fail.reported()
}

// moved does what flush does, and gives Pebble everything.
func (s *Store) moved() error {
	d := s.db.Load()
	s.wantsMoved.Store(true)
	if err := s.flush(d); err != nil {
		return err
	}
	return s.turn()
}

// recorded calls f between Begin and End.
func (s *Store) recorded(f func()) {
	s.Begin()
	defer s.End()
	f()
}

// onMemory returns Options for a disk in memory.
func onMemory(files vfs.FS) Options {
	return Options{disk: files, limits: quick, FlushEvery: 5 * time.Millisecond, lock: func(string) (io.Closer, error) { return io.NopCloser(nil), nil }}
}

// cases returns how many random cases a test tries: some of them, or all in `make soak`.
func cases(some, all uint64) uint64 {
	if os.Getenv("INFORMD_SOAK") != "" {
		return all
	}
	return some
}

// long skips a test with -short: it moves so many bytes that it takes forty times as long with the
// race detector. `make test` runs this package with both, and whole without.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long with the race detector; runs without it")
	}
}

func obj(t testing.TB, name string, version int, more string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":"uid-of-%s","resourceVersion":"%d","labels":{"tier":"web"}},"spec":{"text":%q}}`, name, name, version, more))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func key(name string) delta.Key { return delta.Key{Namespace: "shop", Name: name} }

// pods returns texts that resemble each other and hold some entropy, like those of a real cluster.
type pods struct{ *rand.Rand }

func newPods(seed uint64) pods { return pods{rand.New(rand.NewPCG(seed, 1))} }

func (p pods) pod(t testing.TB, n, version, size int) *object.Object {
	t.Helper()
	var b bytes.Buffer
	name := fmt.Sprintf("web-%06d-%05d", n/10, n)
	fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":"%08x-%04x-4000-8000-%012x","resourceVersion":"%d","labels":{"app":"web-%06d","pod-template-hash":"%08x"}},"spec":{"nodeName":"node-%03d","containers":[`,
		name, n, n%65536, n, version, n/10, n/10*2654435761%(1<<32), n%100)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"c%d","image":"registry.example.com/shop/web@sha256:%016x%016x","resources":{"limits":{"cpu":"%dm","memory":"%dMi"},"requests":{"cpu":"%dm","memory":"%dMi"}},"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-%05x","readOnly":true}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`,
			i, p.Uint64(), p.Uint64(), p.IntN(1000), p.IntN(1000), p.IntN(1000), p.IntN(1000), p.IntN(1<<20))
	}
	b.WriteString(`]},"status":{"phase":"Running"}}`)
	o, err := object.FromJSON(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// journal is a log that tests can read.
type journal struct {
	mu sync.Mutex
	b  strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// count counts the text in what has been logged. The status is ahead of the log: what changes it logs
// afterwards.
func (j *journal) count(text string) int { return strings.Count(j.text(), text) }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func versions(s Snapshot) map[string]string {
	m := make(map[string]string)
	for _, o := range s.Objects {
		m[o.Name()] = o.ResourceVersion()
	}
	return m
}

func (s *Store) mustLoad(t testing.TB, id string) Snapshot {
	t.Helper()
	snapshot, err := s.Objects(id, ObjectsOptions{}).Load()
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func (s *Store) hasNoDictionary(db pebble.Reader) error {
	for _, prefix := range []byte{records.UsePrefix, records.DictionaryPrefix} {
		err := scan(db, []byte{prefix}, []byte{prefix}, func(key []byte, _ *pebble.Iterator) (bool, error) {
			return false, fmt.Errorf("the store still has the key %q", key)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func openInAnotherProcess(dir string) int {
	_, err := Open(dir, Options{})
	if locked := new(LockedError); errors.As(err, &locked) {
		fmt.Println(locked.PID, locked)
		return 3
	}
	fmt.Println(err)
	return 0
}

// copyLive copies the directory of a store that runs, as kill -9 would leave it: with the files of one
// moment.
func copyLive(t *testing.T, to, from string) {
	t.Helper()
	names := func() (names []string) {
		_ = filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, path)
			return nil
		})
		return names
	}
	for {
		before := names()
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil && slices.Equal(before, names()) {
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}
