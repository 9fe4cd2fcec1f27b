package harness

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/integration/cluster"
)

// Patience is how long a test waits for something that must happen. No test measures anything by
// it.
const Patience = 90 * time.Second

// Binary is the informd under test, without the race detector, which multiplies memory and time: to
// begin, a command takes ten times as long with it.
var Binary string

// Raced is what runs daemons: informd with the race detector if HasRace, and otherwise Binary.
var Raced string

// HasRace says whether daemons have the race detector: they have, but for `make soak`. The test
// binary needs none, since it only drives informd.
var HasRace = !Soak()

// raceOptions are the options of the race detector in all processes that tests start. A race ends
// the process, and an end without one does not wait a second for races that may come.
const raceOptions = "halt_on_error=1 atexit_sleep_ms=0"

// Main runs a package's tests with a built informd, stops the control plane that they shared, and
// exits.
//
// A test that needs a handler may run its own test binary as one: with the name of a role as its
// first argument, Main calls that role with the second argument instead of running tests.
func Main(m *testing.M, roles map[string]func(argument string)) {
	if len(os.Args) == 3 {
		if role := roles[os.Args[1]]; role != nil {
			role(os.Args[2])
			return
		}
	}
	os.Exit(run(m))
}

// waiting is how many tests run side by side if the command line does not say. They spend most of
// their time waiting for a daemon, so more of them than processors make sense.
const waiting = "8"

func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", waiting); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "informd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	if HasRace {
		if err := os.Setenv("GORACE", raceOptions); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if Binary, err = build("informd", "./cmd/informd", false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if Raced = Binary; HasRace {
		if Raced, err = build("raced/informd", "./cmd/informd", true); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return cluster.Main(m)
}

// Root is the path from a test package of integration/ to the root of the repository.
const Root = "../.."

// player is the executable of integration/player, without the race detector: it is not under test.
func player(t testing.TB) string {
	t.Helper()
	return builtOnce(t, "player", "./integration/player")
}

// built has this test binary's own copies of the programs that it built.
var built struct {
	dir   string // set by Main
	mu    sync.Mutex
	paths map[string]string // guarded by mu
}

func builtOnce(t testing.TB, name, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.paths[name]; path != "" {
		return path
	}
	path, err := build(name, pkg, false)
	if err != nil {
		t.Fatal(err)
	}
	if built.paths == nil {
		built.paths = make(map[string]string)
	}
	built.paths[name] = path
	return path
}

// build builds a package and returns the path of this test binary's own copy, in built.dir.
//
// The original stays in bin/test, where `go build` finds it again: of several test packages, one
// links it and the others copy it. A lock lets only one of them build at a time.
func build(name, pkg string, hasRace bool) (string, error) {
	shared, err := filepath.Abs(filepath.Join(Root, "bin", "test"))
	if err != nil {
		return "", err
	}
	original, own := filepath.Join(shared, name), filepath.Join(built.dir, name)
	for _, path := range []string{original, own} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
	}
	lock, err := os.OpenFile(filepath.Join(shared, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and with it the lock ends
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	// The version is left out, because it changes with each commit, and the binary would be linked
	// again. The debugger's symbols are left out, because the linker then takes half the time.
	// Without the race detector, which needs cgo, it is built as in `make build`: the build cache
	// then has most of it.
	//
	// As in the Makefile, the race detector leaves out packages that only compute and share nothing:
	// go-plugin makes a certificate for each process, which took half of the time of a short one.
	with, cgo := []string{"-trimpath"}, "CGO_ENABLED=0"
	if hasRace {
		with, cgo = []string{"-race"}, "CGO_ENABLED=1"
		for _, pattern := range []string{"crypto/internal/fips140/...", "compress/flate", "regexp/..."} {
			with = append(with, "-gcflags="+pattern+"=-race=false")
		}
	}
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-s", "-o", original}, with...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir, cmd.Env = Root, append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return own, copyFile(own, original)
}

// copyFile makes an executable copy: a link if possible, which a later build does not touch, as it
// replaces the file.
func copyFile(to, from string) error {
	if err := os.Link(from, to); err == nil {
		return nil
	} else if errors.Is(err, fs.ErrExist) {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock() // see WriteProgram
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, content, 0o755)
}
