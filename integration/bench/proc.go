package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/internal/procfs"
)

// usage is what a process and its descendants have used, according to Linux's /proc.
type usage struct {
	pids []int         // all of them
	cpu  time.Duration // includes children that have ended
	rss  int           // KiB
	anon int           // KiB of rss that belong to no file: without programs' code, which processes share
	peak int           // KiB, the sum of each process's peak
	disk int           // bytes written to disk
}

func used(root int) (usage, error) {
	var u usage
	top, err := procfs.Read(root)
	if err != nil || top.HasEnded() {
		return u, fmt.Errorf("no process %d in /proc: it has ended, or this is no Linux", root)
	}
	for _, p := range append(procfs.Below(root), top) {
		if p.HasEnded() {
			continue
		}
		rss := p.Resident >> 10
		u.pids = append(u.pids, p.PID)
		u.cpu += p.CPU + p.ChildrenCPU
		u.rss += rss
		u.anon += numberIn(p.PID, "status", "RssAnon")
		u.peak += max(numberIn(p.PID, "status", "VmHWM"), rss) // the kernel updates VmHWM late
		u.disk += numberIn(p.PID, "io", "write_bytes")
	}
	slices.Sort(u.pids)
	return u, nil
}

// ownCPU returns the processor time that one process has used, without its descendants that run,
// and 0 if it has ended.
func ownCPU(pid int) time.Duration {
	p, _ := procfs.Read(pid)
	return p.CPU + p.ChildrenCPU
}

// numberIn returns the number of a field in a file of /proc/PID, or 0 if the process has ended.
// VmHWM in status is its peak resident memory in KiB, RssAnon what of it belongs to no file.
func numberIn(pid int, file, field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			n, _ := strconv.Atoi(number) // the kernel writes numbers
			return n
		}
	}
	return 0
}

// settled waits until memory has changed by at most 1% during rest, but at most five times as long.
// It returns the usage then.
func settled(ctx context.Context, pid int, rest time.Duration) (u usage, err error) {
	const calm, limit = 4, 20
	reference, quiet := 0, 0
	for range limit {
		if err := pause(ctx, rest/calm); err != nil {
			return u, err
		}
		if u, err = used(pid); err != nil {
			return u, err
		}
		if max(u.rss-reference, reference-u.rss)*100 > reference {
			reference, quiet = u.rss, 0
		} else if quiet++; quiet == calm {
			break
		}
	}
	return u, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
