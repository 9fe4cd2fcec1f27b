package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
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
	below, err := processes()
	if err != nil {
		return u, err
	}
	var top []process
	for _, siblings := range below {
		for _, p := range siblings {
			if p.pid == root {
				top = append(top, p)
			}
		}
	}
	if len(top) == 0 {
		return u, fmt.Errorf("no process %d in /proc: it has ended, or this is no Linux", root)
	}
	for len(top) > 0 {
		p := top[0]
		top = append(top[1:], below[p.pid]...)
		u.pids = append(u.pids, p.pid)
		u.cpu += p.cpu
		u.rss += p.rss
		u.anon += numberIn(p.pid, "status", "RssAnon")
		u.peak += max(numberIn(p.pid, "status", "VmHWM"), p.rss) // the kernel updates VmHWM late
		u.disk += numberIn(p.pid, "io", "write_bytes")
	}
	slices.Sort(u.pids)
	return u, nil
}

// ownCPU returns the processor time that one process has used, without its descendants', and 0 if
// it has ended.
func ownCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	p, err := parseStat(string(text))
	if err != nil {
		return 0
	}
	return p.cpu
}

// processes returns all processes, by their parents.
func processes() (map[int][]process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(map[int][]process)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		p, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !p.ended {
			all[p.parent] = append(all[p.parent], p)
		}
	}
	return all, nil
}

type process struct {
	ended       bool // a zombie: nobody has waited for it yet
	pid, parent int
	cpu         time.Duration
	rss         int // KiB
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

// parseStat parses /proc/PID/stat. It uses the fields that proc(5) calls pid (1), state (3), ppid
// (4), utime (14), stime (15), cutime (16), cstime (17) and rss (24).
func parseStat(text string) (process, error) {
	pid, _, _ := strings.Cut(text, " ")
	// The name before the last parenthesis may hold anything.
	rest := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(rest) < 22 {
		return process{}, fmt.Errorf("not as proc(5) has it: %.100q", text)
	}
	var n [7]int
	for i, field := range []string{pid, rest[1], rest[11], rest[12], rest[13], rest[14], rest[21]} {
		var err error
		if n[i], err = strconv.Atoi(field); err != nil {
			return process{}, fmt.Errorf("not as proc(5) has it: %w", err)
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ, 100 on every architecture that Go runs on
	used := time.Duration(n[2]+n[3]+n[4]+n[5]) * tick
	return process{rest[0] == "Z", n[0], n[1], used, n[6] * os.Getpagesize() / 1024}, nil
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
