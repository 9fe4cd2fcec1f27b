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
)

// tree is the cgroup v2 in which the daemon makes cgroups: its own, or the one above if it moved itself out of the way.
type tree struct {
	dir string
}

// treeMu serializes what is done to the tree: enabling controllers and moving processes is not atomic.
var treeMu sync.Mutex

// leaf is the cgroup that the daemon moves itself and its children into: in cgroup v2, one that bounds others holds no
// process itself.
const leaf = "informd.daemon"

// ownTree finds the tree of this process.
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

// treeDir finds the tree's directory from /proc/self/mountinfo and /proc/self/cgroup. Beside it there may be hierarchies
// of cgroup v1, which are no use here.
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

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	for _, c := range []string{" ", "\t", "\n", `\`} {
		s = strings.ReplaceAll(s, fmt.Sprintf(`\%03o`, c[0]), c)
	}
	return s
}

// enable has the tree's children bounded by a controller.
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
	// The root, which has no type, may hold processes beside cgroups that are bounded.
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

// evacuate moves the daemon and what it started into the leaf. Other processes are not its to move. The kernel would let
// the controllers cpu and pids be enabled beside processes, but then no process into the cgroups below.
func (t *tree) evacuate() error {
	for range 10 { // what is forked meanwhile is born in here, too
		pids, err := processes(t.dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if !descends(pid, os.Getpid()) {
				return fmt.Errorf("the daemon's cgroup %s holds other processes, as %d: give the daemon one of its own", t.dir, pid)
			}
		}
		dir := filepath.Join(t.dir, leaf)
		// One that an earlier daemon was killed in, by cgroup.kill, would kill what is cloned from it into another.
		_ = unix.Rmdir(dir)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, pid := range pids {
			if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("processes keep appearing in %s", t.dir)
}

// sweep removes empty cgroups of daemons that are gone. treeMu is held.
func (t *tree) sweep() {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), groupPrefix)
		owner, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(owner)
		if ok && err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = remove(filepath.Join(t.dir, e.Name())) // the kernel refuses one that holds a process
		}
	}
}

// descends tells whether pid is ancestor, or was started by it or by what it started. A process that is gone does.
func descends(pid, ancestor int) bool {
	for range 100 {
		if pid == ancestor {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
		}
		// PID (name) state parent…; the name may hold anything
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid <= 1 {
			return pid == ancestor
		}
	}
	return false
}

// processes are the numbers of those in the cgroup itself.
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

// write writes to a file that the kernel made.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
