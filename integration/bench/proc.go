package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage is what a process and its descendants have used.
type usage struct {
	pids     []int         // sorted
	cpu      time.Duration // of the process itself
	children time.Duration // CPU of its descendants
	rss      int           // KiB, of all
}

// used reads Linux's /proc; elsewhere it fails.
func used(root int) (usage, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	all := make(map[int]stat)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, s, err := parseStat(string(text))
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", path, err)
		}
		all[pid] = s
	}
	top, ok := all[root]
	if !ok {
		return usage{}, fmt.Errorf("no process %d in /proc: it has ended, or this is no Linux", root)
	}
	u := usage{pids: []int{root}, cpu: top.cpu, rss: top.rss}
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		if s := all[pid]; pid != root && descends(all, pid, root) {
			u.pids = append(u.pids, pid)
			u.children += s.cpu
			u.rss += s.rss
		}
	}
	return u, nil
}

func descends(all map[int]stat, pid, root int) bool {
	for range 100 { // a torn reading may have a cycle
		if pid = all[pid].parent; pid == root || pid == 0 {
			break
		}
	}
	return pid == root
}

// stat is what we read of /proc/PID/stat.
type stat struct {
	parent int
	cpu    time.Duration
	rss    int // KiB
}

// parseStat reads the fields that proc(5) calls ppid (4), utime (14), stime (15) and rss (24).
func parseStat(text string) (pid int, s stat, err error) {
	end := strings.LastIndexByte(text, ')') // the name before it may hold anything
	fields := strings.Fields(text[end+1:])
	begin, _, _ := strings.Cut(text, " ")
	pid, err = strconv.Atoi(begin)
	if end < 0 || len(fields) < 22 || err != nil {
		return 0, stat{}, fmt.Errorf("not as proc(5) has it: %.100q", text)
	}
	var n [4]int
	for i, field := range []int{4, 14, 15, 24} {
		if n[i], err = strconv.Atoi(fields[field-3]); err != nil {
			return 0, stat{}, fmt.Errorf("field %d: %w", field, err)
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ, which is 100 on every architecture that Go runs on
	return pid, stat{n[0], time.Duration(n[1]+n[2]) * tick, n[3] * os.Getpagesize() / 1024}, nil
}

// settled waits until memory stops changing: three seconds within 1%, for at most ten.
func settled(ctx context.Context, pid int) (usage, error) {
	const step, calm, most = 500 * time.Millisecond, 6, 20
	var u usage
	reference, quiet := 0, 0
	for range most {
		if err := pause(ctx, step); err != nil {
			return u, err
		}
		var err error
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
