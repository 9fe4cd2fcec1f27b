package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A full disk costs durability and nothing else. Deliveries go on, the daemon reports the problem,
// and once there is room it writes everything, without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needMounts(t)
	disk := harness.ShortDir(t)
	mountMemory(t, disk)
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), filepath.Join(disk, "state"))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("rule", "source: configmaps, handler: log, delivery: every, "+sizes))
	k.Create(harness.ConfigMap("gone", "{size: '1'}"))
	d := state.Settled(rules)
	k.Sees(d, "rule NS/gone synced")
	d.AwaitDurability(true)

	fill(t, disk)
	// informd notices when it has something to write and there is no room.
	web := k.Create(harness.ConfigMap("web", "{size: '1'}"))
	k.Sees(d, "rule NS/web added")
	k.Eventually("it to notice that nothing can be written", func() bool {
		k.Patch(web, "data: {pad: '"+noise(20_000)+"'}")
		_, durable := d.Durability()
		return !durable
	})
	d.AwaitDurability(false)
	d.Until("the log to say so", func() bool {
		return harness.Count(d.Log.String(), "level=ERROR", state.Dir)+harness.Count(d.Log.String(), "level=WARN", state.Dir) > 0
	})
	k.Patch(web, "data: {size: '2', pad: ''}")
	k.Create(harness.ConfigMap("meanwhile", "{size: '1'}"))
	k.Sees(d, "rule NS/meanwhile added")

	if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	d.AwaitDurability(true)
	d.AwaitWritten()
	d.Kill()
	// informd remembers what happened while it was not durable.
	k.Create(harness.ConfigMap("last", "{size: '1'}"))
	d = state.Settled(rules)
	k.Saw(d, `rule NS/last added {"size":"1","was":null}`)
}

// fill fills a disk to the last byte.
func fill(t *testing.T, disk string) {
	t.Helper()
	file, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 64 << 10; size > 0; {
		if _, err := file.WriteString(noise(size)[:size]); err != nil {
			size /= 2
		}
	}
}

// informd starts on a read-only or full disk, with or without state on it.
func TestStartOnSickDisk(t *testing.T) {
	t.Parallel()
	needMounts(t)
	for _, test := range []struct {
		name       string
		sick, well func(t *testing.T, disk string)
	}{
		{"read-only",
			func(t *testing.T, disk string) { remount(t, disk, syscall.MS_RDONLY) },
			func(t *testing.T, disk string) { remount(t, disk, 0) }},
		{"full", fill, func(t *testing.T, disk string) {
			if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, before := range []bool{false, true} {
			if !harness.Soak() && before != (test.name == "full") {
				continue // make soak has all four
			}
			t.Run(fmt.Sprintf("%s, state %v", test.name, before), func(t *testing.T) {
				t.Parallel()
				disk := harness.ShortDir(t)
				mountMemory(t, disk)
				k := harness.NewKube(t, cluster.Shared(t))
				k.Create(harness.ConfigMap("web", "{size: '1'}"))
				state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), filepath.Join(disk, "state"))
				rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
					harness.Rule("rule", "source: configmaps, handler: log, "+sizes))
				if before {
					d := state.Settled(rules)
					k.Sees(d, "rule NS/web synced")
					d.AwaitWritten()
					d.Kill()
				}
				test.sick(t, disk)
				d := state.Run(rules)
				d.AwaitReady()
				k.Create(harness.ConfigMap("more", "{size: '1'}"))
				k.Sees(d, "rule NS/more added")
				d.AwaitDurability(false)
				test.well(t, disk)
				d.AwaitDurability(true)
				d.AwaitWritten()
				d.Kill()
				k.Create(harness.ConfigMap("last", "{size: '1'}"))
				d = state.Settled(rules)
				k.Saw(d, `rule NS/last added {"size":"1","was":null}`)
			})
		}
	}
}

// informd starts with a state directory that it may not write, and reports that.
func TestStateNotWritable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run informd as somebody else to whom the folder does not belong")
	}
	const nobody = 65534
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("web", "{size: '1'}"))
	dir := harness.ShortDir(t)
	home, locked := filepath.Join(dir, "home"), filepath.Join(dir, "locked")
	for path, owner := range map[string]int{dir: nobody, home: nobody, locked: 0} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	give := func(name, from string) string {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(home, name)
		harness.WriteProgram(t, path, string(content), 0o700)
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := give("rules.yaml", harness.WriteFile(t, "rules.yaml", k.Text(harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("log", "builtin: log")+
		harness.Rule("rule", "source: configmaps, handler: log, "+sizes))))
	cmd := exec.Command(give("informd", harness.Raced), "run", "-f", rules, "--kubeconfig",
		give("kubeconfig", cluster.Shared(t).Kubeconfig()), "--state-dir", filepath.Join(locked, "state"))
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	d := harness.StartDaemon(t, cmd, "HOME="+home, "TMPDIR="+home, "XDG_RUNTIME_DIR=")
	d.AwaitReady()
	k.Sees(d, "rule NS/web synced")
	d.AwaitDurability(false)
	k.Create(harness.ConfigMap("more", "{size: '1'}"))
	k.Sees(d, "rule NS/more added")
	if log := d.Logged(); !strings.Contains(log, "permission denied") {
		t.Errorf("the log does not say why: %s", log)
	}
	if err := os.Chown(locked, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	d.AwaitDurability(true)
	d.AwaitWritten()
	d.Stop()
}

// noise returns text that hardly compresses.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(strings.ToLower(rand.Text()))
	}
	return b.String()
}

func needMounts(t *testing.T) {
	t.Helper()
	probe := harness.ShortDir(t)
	if err := syscall.Mount("tmpfs", probe, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root, to mount a small file system: %v", err)
	}
	if err := syscall.Unmount(probe, 0); err != nil {
		t.Fatal(err)
	}
}

// mountMemory mounts a small file system in memory until the end of the test.
func mountMemory(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// remount changes the flags of a mount.
func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
		t.Fatal(err)
	}
}
