package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTree starts a process in a cgroup of its own and lets it build there.
func TestTree(t *testing.T) {
	tree, err := ownTree()
	if err != nil {
		t.Skip("no cgroup v2: ", err)
	}
	controllers, err := words(filepath.Join(tree.dir, "cgroup.controllers"))
	if err != nil || len(controllers) == 0 {
		t.Skipf("%s has no controllers: %v", tree.dir, err)
	}
	control := filepath.Join(tree.dir, "cgroup.subtree_control")
	before, err := words(control)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 {
		if err := write(control, "+"+controllers[0]); err != nil {
			t.Skipf("cannot hand on controllers in %s: %v", tree.dir, err)
		}
		t.Cleanup(func() { _ = write(control, "-"+controllers[0]) })
	}
	g, err := tree.create("test", nil)
	if err != nil {
		t.Skipf("cannot make cgroups in %s: %v", tree.dir, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.kill(), g.close()); err != nil {
			t.Error(err)
		}
	})
	run(t, &Confinement{group: g}, "tree")
}

// Settings are written to files that are there already, and read back.
func TestSetting(t *testing.T) {
	dir := t.TempDir()
	file := func(name, contents string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("good", "")
	file("clipped", "more than is written")
	for _, test := range []struct {
		setting setting
		ok      bool
		why     string
	}{
		{setting{"good", "5", false}, true, ""},
		{setting{"missing", "5", false}, false, "a bound that the kernel does not have"},
		{setting{"missing", "5", true}, true, "one that does not matter then"},
		{setting{"clipped", "5", false}, false, "what is read is not what was written"},
	} {
		if err := test.setting.apply(dir); (err == nil) != test.ok {
			t.Errorf("%s: %v; %s", test.setting.file, err, test.why)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); !errors.Is(err, unix.ENOENT) {
		t.Error("a file was made where the kernel has none")
	}
}

func TestTreeDir(t *testing.T) {
	const (
		v1      = "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu\n"
		unified = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		spaced  = "31 23 0:28 / /sys/fs/c\\040g rw - cgroup2 cgroup2 rw\n"
		part    = "31 23 0:28 /kubepods/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, test := range []struct{ why, mounts, own, want string }{
		{"a service", unified, "0::/system.slice/informd.service\n", "/sys/fs/cgroup/system.slice/informd.service"},
		{"the root", unified, "0::/\n", "/sys/fs/cgroup"},
		{"beside v1", hybrid, "4:memory:/x\n1:cpu:/\n0::/y\n", "/sys/fs/cgroup/unified/y"},
		{"escaped", spaced, "0::/y\n", "/sys/fs/c g/y"},
		{"a container that sees the host's names", part, "0::/kubepods/a/b\n", "/sys/fs/cgroup/b"},
		{"moved out of the way before", unified, "0::/a/informd.daemon\n", "/sys/fs/cgroup/a"},
		{"moved there by another process, and hidden", "31 23 0:28 /informd.daemon /c rw - cgroup2 cgroup2 rw\n", "0::/informd.daemon\n", "/c"},
		{"not in what is mounted", part, "0::/kubepods/b\n", ""},
		{"above what is mounted", unified, "0::/../b\n", ""},
		{"v1 only", v1, "1:cpu:/\n", ""},
		{"v2 not mounted", v1, "1:cpu:/\n0::/\n", ""},
		{"nothing", "", "", ""},
		{"cut short", "31 23 - cgroup2", "0::/\n", ""},
	} {
		got, err := treeDir(test.mounts, test.own)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v; want %q", test.why, got, err, test.want)
		}
	}
}
