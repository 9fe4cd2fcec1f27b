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

// usage is what a process and its children have used, as Linux's /proc has it.
type usage struct {
	pids          []int         // all of them
	cpu, children time.Duration // of all, and of the children alone
	rss           int           // KiB, of all
}

func used(root int) (usage, error) {
	var u usage
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return u, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		p, err := parseStat(string(text))
		if err != nil {
			return u, fmt.Errorf("%s: %w", path, err)
		}
		if p.ended || p.pid != root && p.parent != root {
			continue
		}
		u.pids = append(u.pids, p.pid)
		u.cpu += p.cpu
		u.rss += p.rss
		if p.pid != root {
			u.children += p.cpu
		}
	}
	if !slices.Contains(u.pids, root) {
		return u, fmt.Errorf("no process %d in /proc: it has ended, or this is no Linux", root)
	}
	return u, nil
}

type process struct {
	ended       bool // and not waited for yet
	pid, parent int
	cpu         time.Duration
	rss         int // KiB
}

// parseStat reads /proc/PID/stat: what proc(5) calls pid (1), state (3), ppid (4), utime (14), stime (15) and rss (24).
func parseStat(text string) (process, error) {
	pid, _, _ := strings.Cut(text, " ")
	rest := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name before it may hold anything
	if len(rest) < 22 {
		return process{}, fmt.Errorf("not as proc(5) has it: %.100q", text)
	}
	var n [5]int
	for i, field := range []string{pid, rest[1], rest[11], rest[12], rest[21]} {
		var err error
		if n[i], err = strconv.Atoi(field); err != nil {
			return process{}, fmt.Errorf("not as proc(5) has it: %w", err)
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ, which is 100 on every architecture that Go runs on
	return process{rest[0] == "Z", n[0], n[1], time.Duration(n[2]+n[3]) * tick, n[4] * os.Getpagesize() / 1024}, nil
}

// settled waits until memory stops changing, two seconds within 1% but ten at most, and returns what is used then.
func settled(ctx context.Context, pid int) (u usage, err error) {
	const step, calm, limit = 500 * time.Millisecond, 4, 20
	reference, quiet := 0, 0
	for range limit {
		if err := pause(ctx, step); err != nil {
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
