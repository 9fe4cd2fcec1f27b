package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// conditions describes what figures depend on: the machine, the versions, the time and the load
// average.
func conditions(ctx context.Context, at site, command string) (string, error) {
	version, err := exec.CommandContext(ctx, at.informd, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", at.informd, err)
	}
	built, err := buildinfo.ReadFile(at.informd)
	if err != nil {
		return "", err
	}
	own, err := buildinfo.ReadFile(at.self)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`%s: %s
%d cores, %s, %s GiB of memory; %s, Linux %s, %s; load average before: %s
%s (client-go %s, %s); stock client-go %s, %s`,
		command, time.Now().UTC().Format("2006-01-02 15:04 MST"),
		runtime.NumCPU(), field("/proc/cpuinfo", "model name", ":"), memory(),
		strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
		line("/proc/sys/kernel/osrelease"), runtime.GOARCH, loadAverage(),
		strings.TrimSpace(string(version)), clientGoIn(built), built.GoVersion,
		clientGoIn(own), own.GoVersion), nil
}

// field returns the first field of that name in a file of the system.
func field(path, name, separator string) string {
	text, _ := os.ReadFile(path)
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(l, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory() string {
	kib, _ := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"))
	return fmt.Sprintf("%.0f", float64(kib)/(1<<20))
}

func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// loadAverage returns the load average of the last 1, 5 and 15 minutes.
func loadAverage() string {
	fields := strings.Fields(line("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func clientGoIn(build *buildinfo.BuildInfo) string {
	for _, m := range build.Deps {
		if m.Path == "k8s.io/client-go" {
			return m.Version
		}
	}
	return "unknown"
}
