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

// usage is what a process and all below it have used, as Linux's /proc has it.
type usage struct {
	pids []int         // all of them
	cpu  time.Duration // of all, and of those of their children that have ended
	rss  int           // KiB, of all
	peak int           // KiB, the most that each ever had, added up
	disk int           // bytes that they have caused to be sent to a disk
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
		u.peak += max(numberIn(p.pid, "status", "VmHWM"), p.rss) // the kernel keeps it by and by
		u.disk += numberIn(p.pid, "io", "write_bytes")
	}
	slices.Sort(u.pids)
	return u, nil
}

// processes are all that have not ended, by their parents.
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
	ended       bool // and not waited for yet
	pid, parent int
	cpu         time.Duration
	rss         int // KiB
}

// numberIn is that of a field in one of a process's files; 0 of a process that has ended. VmHWM of
// status is the most that was ever resident, in KiB.
func numberIn(pid int, file, field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			n, _ := strconv.Atoi(number) // what is there is a number
			return n
		}
	}
	return 0
}

// parseStat reads /proc/PID/stat: what proc(5) calls pid (1), state (3), ppid (4), utime (14),
// stime (15), cutime (16), cstime (17) and rss (24).
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
	return process{rest[0] == "Z", n[0], n[1], time.Duration(n[2]+n[3]+n[4]+n[5]) * tick, n[6] * os.Getpagesize() / 1024}, nil
}

// settled waits until memory has changed by no more than 1% for a while, but five times as long at
// most, and returns what is used then.
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
