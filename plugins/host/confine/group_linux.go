package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// group is a cgroup for one handler process and everything that it starts.
type group struct {
	dir  string
	file *os.File // locked: it shows the sweeps of other daemons that this one still lives
}

const (
	// groupPrefix starts the name of every cgroup. The daemon's process id follows it, for people.
	groupPrefix = "informd-"

	// createTries is how often create tries to make a cgroup that another daemon's sweep removes
	// before it is locked.
	createTries = 3

	// removeTimeout is how long close waits for processes that are being killed.
	removeTimeout = 2 * time.Second
)

var groups atomic.Uint64 // created so far; makes their names unique

// create creates a cgroup with these settings.
func (t *tree) create(name string, settings []setting) (g *group, err error) {
	treeMu.Lock()
	defer treeMu.Unlock()
	t.sweep()
	for range createTries {
		g, err = t.make(name, settings)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
	}
	return g, err
}

// make creates a cgroup, locks it and applies the settings. treeMu is held.
func (t *tree) make(name string, settings []setting) (*group, error) {
	base := fmt.Sprintf("%s%d-%s-%d", groupPrefix, os.Getpid(), safe(name), groups.Add(1))
	dir := filepath.Join(t.dir, base)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := lock(dir)
	for _, s := range settings {
		if err == nil {
			err = s.apply(dir)
		}
	}
	if err != nil {
		if file != nil {
			_ = file.Close()
		}
		_ = os.Remove(dir)
		return nil, err
	}
	return &group{dir: dir, file: file}, nil
}

// lock opens and locks a cgroup. The error is EWOULDBLOCK if another process, or another open file
// of this one, has locked it. Closing the file unlocks it, and so does the end of the process.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock cgroup %s: %w", dir, err)
	}
	return file, nil
}

// safe turns any text into a part of a file name.
func safe(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 63)]
}

// apply writes the setting and reads it back, because the kernel rounds some values and clips
// others.
func (s setting) apply(dir string) error {
	path := filepath.Join(dir, s.file)
	err := write(path, s.value)
	if s.optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(b)); got != s.value {
		return fmt.Errorf("%s is %q, not %q, after it was written", path, got, s.value)
	}
	return nil
}

// kill kills all processes in the group and below. A group that is gone is no error.
func (g *group) kill() error {
	err := write(filepath.Join(g.dir, "cgroup.kill"), "1")
	// Processes need CPU time to end. Under a low limit that would take seconds.
	_ = write(filepath.Join(g.dir, "cpu.max"), "max")
	if errors.Is(err, fs.ErrNotExist) { // Linux before 5.14
		return g.killEach()
	}
	if gone(err) {
		return nil
	}
	return err
}

// killEach kills process by process until it finds none. Processes may fork faster than it kills.
func (g *group) killEach() error {
	for range 100 {
		found := false
		err := filepath.WalkDir(g.dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				var pids []int
				pids, err = processes(path)
				for _, pid := range pids {
					found = true
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			if gone(err) {
				return nil
			}
			return err
		})
		if err != nil || !found {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("processes keep appearing in %s", g.dir)
}

// gone reports whether err means that the cgroup was removed.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

func (g *group) close() error {
	_ = g.file.Close()
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(5 * time.Millisecond) {
		err := remove(g.dir)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// outOfMemory reads memory.events, which has lines such as "oom_kill 2".
func (g *group) outOfMemory() bool {
	events, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(events)) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" && n != "0" {
			return true
		}
	}
	return false
}

// remove removes a cgroup and those below. The error is EBUSY if one holds a process. A cgroup that
// is gone is no error.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}
