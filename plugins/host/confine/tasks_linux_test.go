package confine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Only the thread that a parent has started has its parent-death signal.
func init() {
	if os.Getenv(stageVar) != "" || os.Getenv(taskVar) == "pdeathsig" {
		runtime.LockOSThread()
	}
}

// tasks holds the programs that the test binary can be when confined. A panic fails the test.
var tasks = map[string]func(){
	"identity": func() {
		ruid, euid, suid := unix.Getresuid()
		rgid, egid, sgid := unix.Getresgid()
		groups, err := os.Getgroups()
		fmt.Print([]int{ruid, euid, suid}, []int{rgid, egid, sgid}, groups, err)
	},
	"pdeathsig": func() {
		var signal int32
		if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
			panic(err)
		}
		fmt.Print(signal)
	},
	"capabilities": func() { fmt.Print(capabilities()) },
	"files": func() {
		var soft, hard syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &soft)
		hard = soft
		hard.Max++
		var open []*os.File
		for len(open) < 100_000 {
			f, err := os.Open("/dev/null")
			if err != nil {
				break
			}
			open = append(open, f)
		}
		fmt.Print(soft, len(open) > 0 && int(open[len(open)-1].Fd()) == 99, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &hard))
	},
	"forks": func() {
		started := 0
		for ; started < 200; started++ {
			cmd := exec.Command("/bin/sleep", "600")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				break
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		}
		fmt.Print(started)
	},
	"tree": treeTask,
}

// treeTask builds in the cgroup that it was started in.
func treeTask() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	t, err := ownTree()
	must(err)
	base := t.dir
	controllers, err := words(filepath.Join(base, "cgroup.controllers"))
	must(err)
	child := exec.Command("/bin/sleep", "600") // as a handler's, which moves along
	must(child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	must(t.enable(controllers[0]))
	must(t.enable(controllers[0])) // again
	if pids, err := processes(base); err != nil || len(pids) > 0 {
		panic(fmt.Sprint("still there: ", pids, err))
	}
	moved, err := processes(filepath.Join(base, leaf))
	must(err)
	if !slices.Contains(moved, os.Getpid()) || !slices.Contains(moved, child.Process.Pid) {
		panic(fmt.Sprint("moved: ", moved))
	}
	if t, err = ownTree(); err != nil || t.dir != base {
		panic(fmt.Sprint("after the move: ", t, err))
	}

	killGroup(t, (*group).kill)
	killGroup(t, (*group).killEach)

	// The cgroups of a daemon that is gone, and of one that still runs.
	gone, there := filepath.Join(base, "informd-4194305-x-1"), filepath.Join(base, "informd-1-x-1") // no number is that high
	must(os.Mkdir(gone, 0o755))
	must(os.Mkdir(there, 0o755))
	held, err := lock(there)
	must(err)
	t.sweep()
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		panic("left: " + gone)
	}
	must(held.Close())
	must(os.Remove(there))
}

// killGroup kills a process in a group, and one in a group within.
func killGroup(t *tree, kill func(*group) error) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	g, err := t.create("some/../name", []setting{{file: "cgroup.max.depth", value: "1"}}) // what every cgroup has
	must(err)
	if filepath.Dir(g.dir) != t.dir || !strings.Contains(g.dir, "some____name") {
		panic(g.dir)
	}
	inner := filepath.Join(g.dir, "inner")
	must(os.Mkdir(inner, 0o755))
	dir, err := os.Open(inner)
	must(err)
	defer dir.Close()
	var running []*exec.Cmd
	for _, f := range []*os.File{g.file, dir} {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
		must(cmd.Start())
		running = append(running, cmd)
	}
	if err := remove(g.dir); err == nil {
		panic("removed with processes in it")
	}
	done := make(chan error, 1)
	go func() { done <- kill(g) }()
	for _, cmd := range running {
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			panic(err)
		}
	}
	must(<-done)
	must(g.close())
	if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
		panic(err)
	}
}
