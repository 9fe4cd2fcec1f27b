package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/records"
)

// life is a store whose content the test knows.
type life struct {
	*running
	i    *Objects
	lane *Lane
	n    int
	want map[string]string
}

func live(t testing.TB, s *Store) *life {
	l := &life{running: run(t, s), i: s.Objects("i", ObjectsOptions{}), lane: s.Lane("r", LaneOptions{}), want: make(map[string]string)}
	snapshot, err := l.i.Load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.lane.Keys(); err != nil {
		t.Fatal(err)
	}
	for name, version := range versions(snapshot) {
		l.want[name] = version
	}
	return l
}

// record records the given number of changes.
func (l *life) record(changes int) {
	for range changes {
		l.n++
		name := fmt.Sprint("o", l.n%50)
		l.recorded(func() {
			o := obj(l.t, name, l.n, strings.Repeat("text", 200))
			l.i.Put(o, nil)
			l.i.Version(o.ResourceVersion())
			l.lane.Put(uint64(l.n), key(name), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: o}}})
			l.lane.Delete(uint64(l.n), key(name))
			l.want[name] = o.ResourceVersion()
		})
	}
}

func (l *life) found(t testing.TB, s *Store) {
	t.Helper()
	if diff := cmp.Diff(l.want, versions(s.mustLoad(t, "i"))); diff != "" {
		t.Error(diff)
	}
}

// A disk that fails, in any way, delays writes and nothing else.
func TestSickDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6)) // used with the disk's lock held
	lying := func() func(op, name string) error {
		return func(op, name string) error {
			if random.IntN(3) == 0 {
				return syscall.EIO
			}
			return nil
		}
	}
	for _, c := range []struct {
		name    string
		fall    func(*sickFS)
		reason  string
		durable bool // the changes become durable despite the trouble
	}{
		{"full", func(f *sickFS) { f.fall(failing(syscall.ENOSPC)) }, "no space left", false},
		{"over quota", func(f *sickFS) { f.fall(failing(syscall.EDQUOT)) }, "quota", false},
		{"read-only", func(f *sickFS) { f.fall(failing(syscall.EROFS)) }, "read-only", false},
		{"failing", func(f *sickFS) { f.fall(failing(syscall.EIO)) }, "input/output", false},
		{"forbidden", func(f *sickFS) { f.fall(failing(syscall.EACCES)) }, "permission denied", false},
		{"hanging", func(f *sickFS) { f.hang() }, "hangs", false},
		{"unable to sync", func(f *sickFS) {
			f.fall(func(op, name string) error {
				if op == "sync" {
					return syscall.EIO
				}
				return nil
			})
		}, "sync", false},
		{"failing now and then", func(f *sickFS) { f.fall(lying()) }, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			memory := vfs.NewMem()
			files := newSickFS(memory)
			var log journal
			o := onMemory(files)
			o.limits.patience = time.Second // a busy machine must not pass for a disk that hangs
			o.Logger = log.logger()
			l := live(t, open(t, "/state", o))
			l.record(100)
			l.written()
			c.fall(files)
			if c.durable {
				for range 20 {
					l.record(20)
					l.written()
				}
			} else {
				l.record(1)
				eventually(t, "the status shows the trouble", func() bool { return strings.Contains(l.Status().Trouble, c.reason) })
				for range 20 {
					l.record(100) // does not block
				}
				if status := l.Status(); status.Unwritten == 0 || status.Unwritten > 400 || status.TroubleSince.IsZero() || l.lane.Room(1) {
					t.Errorf("%+v, room %v", status, l.lane.Room(1))
				}
				eventually(t, "the trouble is logged", func() bool { return log.count("NOT durable") > 0 })
				if log.count("NOT durable") != 1 || log.count("durable again") != 0 {
					t.Errorf("logged %s", log.text())
				}
				files.heal()
				l.written()
				eventually(t, "its end is logged", func() bool { return log.count("durable again") > 0 })
				if log.count("durable again") != 1 || !l.lane.Room(1) {
					t.Errorf("logged %s", log.text())
				}
			}
			files.heal()
			l.record(10)
			l.stop()
			again := open(t, "/state", onMemory(memory))
			defer closed(t, again)
			l.found(t, again)
		})
	}
}

// A state that can be neither written nor read at the start is set aside.
func TestStartOnASickDisk(t *testing.T) {
	for name, fall := range map[string]func(*sickFS){
		"full":      func(f *sickFS) { f.fall(failing(syscall.ENOSPC)); f.goBlind(syscall.EIO) },
		"forbidden": func(f *sickFS) { f.fall(failing(syscall.EACCES)); f.goBlind(syscall.EACCES) },
		"hanging":   func(f *sickFS) { f.hang() },
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " with a state: ", before), func(t *testing.T) {
				memory := vfs.NewMem()
				files := newSickFS(memory)
				if before {
					s := open(t, "/state", onMemory(memory))
					s.recorded(func() { s.Objects("i", ObjectsOptions{}).Put(obj(t, "old", 1, ""), nil) })
					closed(t, s)
				}
				fall(files)
				o := onMemory(files)
				if name == "hanging" {
					o.limits.opening = 200 * time.Millisecond
				}
				s := open(t, "/state", o)
				if s.Status().Trouble == "" {
					t.Error("the status shows no trouble")
				}
				if err := s.Bind(Cluster{Server: "a"}); err != nil {
					t.Error(err)
				}
				l := live(t, s)
				l.record(100)
				l.recorded(func() {
					l.i.Put(obj(t, "short", 1, ""), nil)
					l.i.Delete(key("short"))
				})
				if status := s.Status(); status.Unwritten != 52 || l.lane.Room(1) {
					t.Errorf("%+v", status)
				}
				files.heal()
				l.written()
				// An attempt that hung may still have made a store.
				if aside := l.Status().SetAside; (len(aside) == 1) != before && name != "hanging" {
					t.Errorf("set aside: %v", aside)
				}
				l.stop()
				again := open(t, "/state", onMemory(memory))
				defer closed(t, again)
				l.found(t, again)
			})
		}
	}
}

// What is only to be moved from the log is not lost, and is not said to be.
func TestShutdownWithASickDisk(t *testing.T) {
	const lost, late = "the last records of the state could not be written", "the next start does that"
	const full = "no space left on device"
	fills := func(files *sickFS) { files.fall(failing(syscall.ENOSPC)) }
	for _, c := range []struct {
		sicken  func(*sickFS)
		records int    // recorded once the disk is sick
		says    string // and nothing else of these two
		reason  string // if it is known
	}{
		{(*sickFS).hang, 10, lost, "a write to the disk hangs"}, {(*sickFS).hang, 0, late, ""},
		{fills, 10, lost, full}, {fills, 0, late, full},
	} {
		memory := vfs.NewMem()
		files := newSickFS(memory)
		var log journal
		o := onMemory(files)
		o.Logger, o.limits.grace = log.logger(), 300*time.Millisecond
		l := live(t, open(t, "/state", o))
		l.record(10)
		l.written()
		eventually(t, "everything is on disk", func() bool { return l.Status().Unwritten == 0 })
		c.sicken(files)
		if c.records > 0 {
			l.record(c.records)
		}
		l.stop() // must return
		if log.count(c.says) != 1 || log.count(lost)+log.count(late) != 1 || log.count(c.reason) == 0 {
			t.Errorf("%d records: logged %s", c.records, log.text())
		}
		if is := l.IsWritten(); is != (c.records == 0) {
			t.Errorf("%d records: written: %v", c.records, is)
		}
		files.heal() // goroutines that wait for the disk end now, or goleak reports them
		eventually(t, "the database is closed", func() bool { d := l.db.Load(); d.mu.RLock(); defer d.mu.RUnlock(); return d.closed })
		again := open(t, "/state", onMemory(memory))
		l.found(t, again)
		closed(t, again)
	}
}

// Whoever finds the damage, the status shows it from then on.
func TestABrokenStoreStaysInTrouble(t *testing.T) {
	s := run(t, open(t, "/state", onMemory(vfs.NewMem())))
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
	s.written()
	s.breakDown(s.db.Load(), errDamaged)
	s.examine(time.Now())
	if trouble := s.Status().Trouble; !strings.Contains(trouble, "damaged") {
		t.Errorf("the trouble is %q", trouble)
	}
}

// A store that breaks while the disk hangs cannot mark itself, but says why, and delays the stop no
// longer.
func TestShutdownOfABrokenStoreOnADiskThatHangs(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	var log journal
	o := onMemory(files)
	o.Logger, o.limits.grace = log.logger(), 300*time.Millisecond
	l := live(t, open(t, "/state", o))
	l.record(10)
	l.written()
	files.hang()
	l.db.Load().fail.report(errors.New("a block is damaged"))
	eventually(t, "it says why", func() bool { return log.count("a block is damaged") > 0 })
	l.stop() // must return
	files.heal()
	eventually(t, "the database is closed", func() bool { d := l.db.Load(); d.mu.RLock(); defer d.mu.RUnlock(); return d.closed })
}

func TestShutdownBeforeTheDiskEverWorked(t *testing.T) {
	files := newSickFS(vfs.NewMem())
	files.fall(failing(syscall.EROFS))
	var log journal
	o := onMemory(files)
	o.Logger = log.logger()
	l := live(t, open(t, "/state", o))
	l.record(1)
	l.stop()
	if log.count("the disk never became writable") != 1 || l.IsWritten() {
		t.Errorf("written: %v; logged %s", l.IsWritten(), log.text())
	}
	if trouble := l.Status().Trouble; !strings.HasPrefix(trouble, "it cannot be opened: cannot make the state directory /state: ") {
		t.Errorf("the trouble is %q", trouble) // it must not read like an order
	}
}

func TestReadsAreBoundedInTime(t *testing.T) {
	release := make(chan struct{})
	s := run(t, open(t, "/state", onMemory(vfs.NewMem())))
	lane := s.Lane("r", LaneOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	s.recorded(func() {
		lane.Put(1, key("a"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}})
	})
	s.written()
	d := s.db.Load()
	if err := d.read(time.Millisecond, func(pebble.Reader) error { <-release; return nil }); err != disk.ErrHangs {
		t.Errorf("error %v", err)
	}
	for range maxReads - 1 {
		_ = d.read(time.Millisecond, func(pebble.Reader) error { <-release; return nil })
	}
	if _, err := lane.Load(key("a"), 0, 1, 1); err == nil {
		t.Error("reads beyond the bound go on")
	}
	close(release)
	eventually(t, "reads go on", func() bool { got, err := lane.Load(key("a"), 0, 1, 1); return err == nil && len(got) == 1 })
}

func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the same process: %v", err)
	}
	other := func() (string, int) {
		cmd := exec.CommandContext(context.Background(), os.Args[0])
		cmd.Env = append(os.Environ(), "STATE_TEST_OPEN="+dir)
		out, _ := cmd.Output()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := other(); code != 3 || !strings.HasPrefix(out, fmt.Sprint(os.Getpid(), " ")) || !strings.Contains(out, dir) {
		t.Errorf("another process: %q, %d", out, code)
	}
	closed(t, s)
	if out, code := other(); code != 0 {
		t.Errorf("another process, later: %q, %d", out, code)
	}
}

func TestErrorsForTheUserToMend(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), filepath.Join(t.TempDir(), strings.Repeat("long", 100))} {
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
