package harness

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/procfs"
)

// This file reads what Linux says of processes in /proc.

// CPUTime returns the processor time that a process has used, in user and system mode.
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	p, err := procfs.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.CPU
}

// Memory returns a process's resident memory and its peak, in bytes.
func Memory(t testing.TB, pid int) (resident, peak int64) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			resident = kib << 10
		case "VmHWM":
			peak = kib << 10
		}
	}
	return resident, peak
}

func Mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// HasEnded reports whether a process has ended, also if nobody has waited for it.
func HasEnded(pid int) bool {
	p, err := procfs.Read(pid)
	return err != nil || p.HasEnded()
}

// IsStopped reports whether a process is stopped by a signal.
func IsStopped(pid int) bool {
	p, err := procfs.Read(pid)
	return err == nil && p.State == 'T'
}

// children returns the children of a process that are alive.
func children(pid int) []int {
	return alive(procfs.All(), func(p procfs.Process) bool { return p.Parent == pid })
}

// Marked returns the processes that were started with a variable, NAME=value, in their environment.
func Marked(variable string) []int {
	return alive(procfs.All(), func(p procfs.Process) bool {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		return err == nil && slices.Contains(strings.Split(string(environment), "\x00"), variable)
	})
}

// Descendants returns the processes below one that are alive, at any depth.
func Descendants(pid int) []int {
	return alive(procfs.Below(pid), func(procfs.Process) bool { return true })
}

// alive returns the processes that match and have not ended.
func alive(all []procfs.Process, match func(procfs.Process) bool) (pids []int) {
	for _, p := range all {
		if !p.HasEnded() && match(p) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func isShim(pid int) bool { return bytes.HasPrefix(arguments(pid), []byte("informd-shim")) }

// arguments returns the command line of a process: nothing if the process is gone or about to be.
func arguments(pid int) []byte {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return line
}

// ShimOf returns the shim above a handler's process, or 0 if there is none.
func ShimOf(handler int) int {
	if p, err := procfs.Read(handler); err == nil && isShim(p.Parent) {
		return p.Parent
	}
	return 0
}

// HandlersOf returns the handler processes of a daemon, which are the children of its shims, or of
// itself. It leaves out a shim that ends, which has let go of its arguments, and one that begins,
// which still has the daemon's.
func HandlersOf(daemon int) []int {
	var all []int
	own := arguments(daemon)
	for _, child := range children(daemon) {
		switch line := arguments(child); {
		case isShim(child):
			all = append(all, children(child)...)
		case len(line) > 0 && !bytes.Equal(line, own):
			all = append(all, child)
		}
	}
	return all
}
