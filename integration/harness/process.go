package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file reads what Linux says of processes in /proc.

// clockTick is the unit of CPU time in /proc: USER_HZ, which is 100 wherever Linux runs Go.
const clockTick = 10 * time.Millisecond

// ProcessStat returns the fields of /proc/PID/stat from the third on, which is the state.
func ProcessStat(pid int) ([]string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// A name in parentheses may hold anything.
	_, rest, _ := strings.Cut(string(content[bytes.LastIndexByte(content, ')'):]), " ")
	return strings.Fields(rest), nil
}

// CPUTime returns the processor time that a process has used, in user and system mode.
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	fields, err := ProcessStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, field := range fields[11:13] { // utime and stime, 14 and 15 in proc(5)
		ticks, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ticks) * clockTick
	}
	return sum
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

// children returns the children of a process that are alive.
func children(pid int) []int {
	return processes(func(candidate int) bool {
		fields, err := ProcessStat(candidate)
		return err == nil && fields[0] != "Z" && fields[1] == strconv.Itoa(pid)
	})
}

// Marked returns the processes that were started with a variable, NAME=value, in their environment.
func Marked(variable string) []int {
	return processes(func(candidate int) bool {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", candidate))
		return err == nil && slices.Contains(strings.Split(string(environment), "\x00"), variable)
	})
}

func processes(match func(pid int) bool) []int {
	var found []int
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(filepath.Base(entry)); err == nil && match(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// Descendants returns the processes below one that are alive, at any depth.
func Descendants(pid int) []int {
	var all []int
	for _, child := range children(pid) {
		all = append(append(all, child), Descendants(child)...)
	}
	return all
}

func isShim(pid int) bool { return bytes.HasPrefix(arguments(pid), []byte("informd-shim")) }

// arguments returns the command line of a process: nothing if the process is gone or about to be.
func arguments(pid int) []byte {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return line
}

// ShimOf returns the shim above a handler's process, or 0 if there is none.
func ShimOf(handler int) int {
	fields, err := ProcessStat(handler)
	if err != nil {
		return 0
	}
	if parent, err := strconv.Atoi(fields[1]); err == nil && isShim(parent) {
		return parent
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
