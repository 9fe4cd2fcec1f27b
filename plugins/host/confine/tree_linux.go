package confine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// tree is the cgroup v2 in which the daemon creates cgroups: its own, or the one above it once the
// daemon has moved itself into the leaf.
type tree struct {
	dir string
}

// treeMu serializes changes of the tree: the kernel does not enable controllers and move processes
// atomically. No other lock is taken under it.
var treeMu sync.Mutex

// leaf is the cgroup into which the daemon moves itself and its children. In cgroup v2, a cgroup
// that limits others holds no process itself.
const leaf = "informd.daemon"

// ownTree returns the tree of this process.
func ownTree() (*tree, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir, err := treeDir(string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	return &tree{dir: dir}, nil
}

// treeDir finds the tree's directory from /proc/self/mountinfo and /proc/self/cgroup. It ignores
// hierarchies of cgroup v1.
func treeDir(mounts, own string) (string, error) {
	path := ""
	for line := range strings.Lines(own) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return "", errors.New("this process is in no cgroup v2")
	}
	if strings.HasPrefix(path, "/..") {
		return "", fmt.Errorf("this process's cgroup %s is outside its cgroup namespace", path)
	}
	for line := range strings.Lines(mounts) {
		// ID parent device root mountpoint options [tag]… - type source options; see proc(5)
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		below, err := filepath.Rel(unescape(fields[3]), path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue // the mount does not show where this process is
		}
		dir := filepath.Join(unescape(fields[4]), below)
		if filepath.Base(path) == leaf && below != "." {
			dir = filepath.Dir(dir)
		}
		return dir, nil
	}
	return "", fmt.Errorf("no mounted cgroup v2 hierarchy shows this process's cgroup %s", path)
}

// unescape decodes the octal escapes of mountinfo.
func unescape(s string) string {
	for _, c := range []string{" ", "\t", "\n", `\`} {
		s = strings.ReplaceAll(s, fmt.Sprintf(`\%03o`, c[0]), c)
	}
	return s
}

// enable enables a controller for the children of the tree.
func (t *tree) enable(controller string) error {
	treeMu.Lock()
	defer treeMu.Unlock()
	there, err := words(filepath.Join(t.dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(there, controller) {
		return fmt.Errorf("cgroup v2 has no %s controller in %s", controller, t.dir)
	}
	// Only the root, which has no type, may hold processes beside limited cgroups.
	if _, err := os.Stat(filepath.Join(t.dir, "cgroup.type")); err == nil {
		if err := t.evacuate(); err != nil {
			return err
		}
	}
	control := filepath.Join(t.dir, "cgroup.subtree_control")
	enabled, err := words(control)
	if err != nil || slices.Contains(enabled, controller) {
		return err
	}
	return write(control, "+"+controller)
}

// evacuate moves the daemon and its descendants into the leaf. It is an error if other processes
// are in the tree: the daemon must not move those. The kernel would enable the controllers cpu and
// pids beside processes, but then it would admit no process to the cgroups below.
func (t *tree) evacuate() error {
	for range 10 { // processes forked meanwhile start in here, too
		pids, err := processes(t.dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if !descends(pid, os.Getpid()) {
				return fmt.Errorf("the daemon's cgroup %s holds other processes, such as %d: "+
					"give the daemon one of its own", t.dir, pid)
			}
		}
		dir := filepath.Join(t.dir, leaf)
		// Remove a leaf in which cgroup.kill killed an earlier daemon: it would kill processes that
		// are cloned from it into another cgroup.
		_ = unix.Rmdir(dir)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, pid := range pids {
			err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("processes keep appearing in %s", t.dir)
}

// sweep removes empty cgroups of daemons that are gone: those that nobody has locked. A process id
// would not do, because a daemon in another pid namespace has an id that is not known here. treeMu
// is held.
func (t *tree) sweep() {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), groupPrefix) {
			continue
		}
		dir := filepath.Join(t.dir, e.Name())
		if file, err := lock(dir); err == nil {
			// The kernel refuses to remove a group that holds a process.
			_ = remove(dir)
			_ = file.Close()
		}
	}
}

// descends reports whether pid is ancestor or a descendant of it. It returns true for a process
// that is gone.
func descends(pid, ancestor int) bool {
	for range 100 {
		if pid == ancestor {
			return true
		}
		p, err := procfs.Read(pid)
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
		}
		if pid = p.Parent; pid <= 1 {
			return pid == ancestor
		}
	}
	return false
}

// processes returns the ids of the processes in the cgroup itself, not below.
func processes(dir string) ([]int, error) {
	f, err := os.Open(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var pids []int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if pid, err := strconv.Atoi(lines.Text()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, lines.Err()
}

func words(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}

// write writes to an existing file of the kernel.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
