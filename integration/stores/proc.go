package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what this process has used, as Linux tells.
type usage struct {
	cpu            time.Duration // user and system
	written        int           // bytes that it caused to be sent to the disk
	rss, anonymous int           // KiB
}

func used() (u usage, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return u, err
	}
	u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	if u.written, err = field("/proc/self/io", "write_bytes"); err != nil {
		return u, err
	}
	if u.rss, err = field("/proc/self/status", "VmRSS"); err != nil {
		return u, err
	}
	u.anonymous, err = field("/proc/self/status", "RssAnon")
	return u, err
}

// field is a number in a file of the system's.
func field(path, name string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// onDisk is the blocks that the files in a folder take.
func onDisk(dir string) (bytes int, err error) {
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var s syscall.Stat_t
		if err == nil {
			err = syscall.Stat(path, &s)
		}
		bytes += int(s.Blocks) * 512
		return err
	})
	return bytes, err
}
