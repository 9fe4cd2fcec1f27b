package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// able is a machine with all that a confinement can need but cgroup v2.
func able() machine {
	return machine{
		uid:      0,
		may:      ^uint64(0),
		landlock: func() (int, error) { return 7, nil },
		seccomp:  func() error { return nil },
		tree:     func() (*tree, error) { return nil, errors.New("no cgroup v2 for tests") },
	}
}

func TestPrepareNothing(t *testing.T) {
	c, err := Prepare(Spec{Read: []string{"/x"}, Network: Network{All: true}}, "h", Own{Read: []string{"/x"}})
	if c != nil || err != nil {
		t.Fatalf("%v, %v; want nil twice", c, err)
	}
	_, _, owned := c.Owner()
	if c.Order() != nil || owned || c.Home() != "" || c.Cgroup() != nil || c.Kill() != nil || c.Close() != nil || c.String() != "" {
		t.Error("a nil confinement does something")
	}
	if err := c.Order().Enter(); err != nil {
		t.Errorf("entering nothing: %v", err)
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	c, err := able().prepare(Spec{
		User:    "4:5",
		Limits:  Limits{Memory: 1 << 30, Files: 64},
		Sandbox: true, Read: []string{"/etc"}, Write: []string{dir}, Network: Network{Ports: []uint16{443}},
	}, "h", Own{Read: []string{"/bin/sh"}, Write: []string{"/tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Order{
		User:    &identity{4, 5},
		Rlimits: []rlimit{{unix.RLIMIT_NOFILE, 64}, {unix.RLIMIT_DATA, 1 << 30}},
		Sandbox: &sandboxPlan{ABI: 7, Read: []string{"/etc", "/bin/sh"}, Write: []string{dir, "/tmp"}, Network: Network{Ports: []uint16{443}}},
	}
	b, err := json.Marshal(c.Order())
	if err != nil {
		t.Fatal(err)
	}
	got := new(Order)
	if err := json.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order after its travel (-want +got):\n%s", diff)
	}
	if got, want := c.String(), "user 4:5; files, memory (of each process, shared memory not counted) by rlimit; "+
		"sandbox by landlock 7 and seccomp, but for unix sockets that its user may connect to"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if uid, gid, ok := c.Owner(); uid != 4 || gid != 5 || !ok {
		t.Errorf("owner %d:%d, %v", uid, gid, ok)
	}
}

func TestUserByName(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	want := nobody.Uid + ":" + nobody.Gid
	for _, name := range []string{"nobody", nobody.Uid} {
		if id, home, err := able().user(name); fmt.Sprintf("%d:%d", id.UID, id.GID) != want || home != nobody.HomeDir || err != nil {
			t.Errorf("%s: %v, %q, %v; want %s and %s", name, id, home, err, want, nobody.HomeDir)
		}
	}
	if id, home, err := able().user(nobody.Uid + ":7"); fmt.Sprintf("%d:%d", id.UID, id.GID) != nobody.Uid+":7" || home != nobody.HomeDir || err != nil {
		t.Errorf("nobody in another group: %v, %q, %v", id, home, err)
	}
	if id, _, err := able().user("3999999999:0"); id != (identity{3999999999, 0}) || err != nil {
		t.Errorf("root's group: %v, %v", id, err)
	}
	if id, home, err := able().user("3999999999:8"); id != (identity{3999999999, 8}) || home != "" || err != nil {
		t.Errorf("a user that the system does not know: %v, %q, %v", id, home, err)
	}
}

// A demand that cannot be enforced is an error that names the field and says what to do.
func TestPrepareRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	abi := func(n int, err error) func(*machine) {
		return func(m *machine) { m.landlock = func() (int, error) { return n, err } }
	}
	sandbox := Spec{Sandbox: true}
	for _, test := range []struct {
		spec    Spec
		own     Own
		machine func(*machine)
		want    []string
	}{
		{Spec{User: "nobody"}, Own{}, func(m *machine) { m.uid = 5 }, []string{"user: ", "only a daemon that is root", "leave user out"}},
		{Spec{User: "1:1"}, Own{}, func(m *machine) { m.may &^= 1<<unix.CAP_KILL | 1<<unix.CAP_SETUID }, []string{"user: ", "KILL, SETUID: add them"}},
		{Spec{User: "root"}, Own{}, nil, []string{"user: ", "is root", "leave user out"}},
		{Spec{User: "0:5"}, Own{}, nil, []string{"user: ", "is root"}},
		{Spec{User: "no-such-user"}, Own{}, nil, []string{"user: ", `"no-such-user"`, "UID:GID"}},
		{Spec{User: "3999999999"}, Own{}, nil, []string{"user: ", "3999999999", "UID:GID"}},
		{Spec{User: "nobody:nogroup"}, Own{}, nil, []string{"user: ", `"nobody"`}},
		{Spec{User: "1:"}, Own{}, nil, []string{"user: ", `""`}},
		{Spec{User: "4294967295:1"}, Own{}, nil, []string{"user: ", "4294967295"}},
		{Spec{User: "1:-1"}, Own{}, nil, []string{"user: ", `"-1"`}},

		{Spec{Limits: Limits{Memory: 1 << 20}}, Own{}, nil, []string{"limits.memory: ", "1048576", "at least 8388608"}},
		{Spec{Limits: Limits{Memory: -1}}, Own{}, nil, []string{"limits.memory: "}},
		{Spec{Limits: Limits{Files: 3}}, Own{}, nil, []string{"limits.files: ", "at least 16"}},
		{Spec{Limits: Limits{CPU: -1}}, Own{}, nil, []string{"limits.cpu: "}},
		{Spec{Limits: Limits{Processes: -1}}, Own{}, nil, []string{"limits.processes: "}},
		{Spec{Limits: Limits{CPU: 500}}, Own{}, nil, []string{"limits.cpu: ", "no cgroup v2 for tests", "leave limits.cpu out"}},
		{Spec{Limits: Limits{Processes: 5}}, Own{}, nil, []string{"limits.processes: ", "no cgroup v2 for tests", "a user of its own"}},

		{sandbox, Own{}, func(m *machine) { m.seccomp = func() error { return errors.New("no seccomp here") } }, []string{"sandbox: ", "no seccomp here"}},
		{sandbox, Own{}, abi(0, unix.ENOSYS), []string{"sandbox: ", "no landlock", "6.2"}},
		{sandbox, Own{}, abi(0, unix.EOPNOTSUPP), []string{"sandbox: ", "lsm="}},
		{sandbox, Own{}, abi(0, unix.EPERM), []string{"sandbox: ", "not permitted"}},
		{sandbox, Own{}, abi(2, nil), []string{"sandbox: ", "landlock 2", "6.2"}},
		{sandbox, Own{}, abi(5, nil), []string{"sandbox: ", "landlock 5", "stop or kill informd", "6.12", "give the handler a user"}},
		{sandbox, Own{}, func(m *machine) { m.uid = 5; abi(3, nil)(m) }, []string{"sandbox: ", "landlock 3", "6.12", "run informd as root and give the handler a user"}},
		{Spec{User: "1:1", Sandbox: true, Network: Network{Ports: []uint16{1}}}, Own{}, abi(3, nil), []string{"network: ", "landlock 3", "6.7"}},
		{Spec{Sandbox: true, Network: Network{All: true}}, Own{}, nil, []string{"network: ", "give the handler a user"}},
		{Spec{Sandbox: true, Network: Network{Ports: []uint16{1}}}, Own{}, nil, []string{"network: ", "give the handler a user"}},
		{sandbox, Own{Connect: true}, nil, []string{"access.read: ", "leave out access.read"}},
		{Spec{Sandbox: true, Read: []string{missing}}, Own{}, nil, []string{"files.read: ", missing, "does not exist"}},
		{Spec{Sandbox: true, Write: []string{missing}}, Own{}, nil, []string{"files.write: ", missing, "does not exist"}},
		{Spec{Sandbox: true, Read: []string{missing + "1", "/", missing + "2"}, Write: []string{missing + "3"}}, Own{}, nil,
			[]string{"files.read: " + missing + "1 does", "; files.read: " + missing + "2 does", "; files.write: " + missing + "3 does"}},
		{Spec{Sandbox: true, Read: slices.Repeat([]string{missing}, 100)}, Own{}, nil, []string{"; and 92 more"}},
		{Spec{Limits: Limits{CPU: 500, Processes: 5}}, Own{}, nil, []string{"limits.cpu: ", "; limits.processes: "}},
		{Spec{Sandbox: true, Read: []string{"relative"}}, Own{}, nil, []string{"files.read: ", `"relative"`}},
		{sandbox, Own{Read: []string{"/"}}, nil, []string{"sandbox: ", "working directory"}},
		{sandbox, Own{Read: []string{"/tmp/.."}}, nil, []string{"sandbox: ", "working directory"}},
		{sandbox, Own{Write: []string{"/"}}, nil, []string{"sandbox: ", "temporary files"}},
	} {
		m := able()
		if test.machine != nil {
			test.machine(&m)
		}
		_, err := m.prepare(test.spec, "h", test.own)
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Errorf("%+v: %v, want an *Error", test.spec, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %v: want it to say %q", test.spec, err, part)
			}
		}
	}
}

// With an older landlock, a sandbox does not keep signals in. Another user than the daemon's keeps
// them from the daemon and the shims.
func TestPrepareWithoutScopes(t *testing.T) {
	m := able()
	m.landlock = func() (int, error) { return abiTruncate, nil }
	c, err := m.prepare(Spec{User: "1:1", Sandbox: true}, "h", Own{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "sandbox by landlock 3 and seccomp, but for signals to other processes of its user"; !strings.HasSuffix(c.String(), want) {
		t.Errorf("it says %q, want %q at its end", c.String(), want)
	}
	m.landlock = func() (int, error) { return abiScopes, nil }
	if c, err = m.prepare(Spec{Sandbox: true}, "h", Own{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(c.String(), "signals") {
		t.Errorf("it says %q", c.String())
	}
}

// With an older landlock, Prepare leaves out only the rights that it does not know.
func TestHandled(t *testing.T) {
	const tcp, scopes = 3, 3
	for _, test := range []struct {
		abi        int
		network    Network
		fs         uint64
		net, scope uint64
	}{
		{3, Network{}, 1<<15 - 1, 0, 0},
		{4, Network{}, 1<<15 - 1, tcp, 0},
		{5, Network{Ports: []uint16{1}}, 1<<16 - 1, tcp, 0},
		{6, Network{}, 1<<16 - 1, tcp, scopes},
		{6, Network{All: true}, 1<<16 - 1, 0, scopes},
		{99, Network{}, 1<<16 - 1, tcp, scopes},
	} {
		got := handled(test.abi, test.network)
		if want := (unix.LandlockRulesetAttr{Handled_access_fs: test.fs, Handled_access_net: test.net, Scoped: test.scope}); got != want {
			t.Errorf("landlock %d, %+v: %+v, want %+v", test.abi, test.network, got, want)
		}
	}
}

func TestGroupSettings(t *testing.T) {
	got := groupSettings(Limits{Memory: 10_000_001, CPU: 1500, Files: 5, Processes: 7})
	want := map[string][]setting{
		"memory": {{"memory.max", "9998336", false}, {"memory.swap.max", "0", true}, {"memory.oom.group", "1", false}}, // whole pages
		"cpu":    {{"cpu.max", "150000 100000", false}},
		"pids":   {{"pids.max", "7", false}},
	}
	if unix.Getpagesize() == 4096 {
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(setting{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := groupSettings(Limits{CPU: 1})["cpu"][0].value; got != "1000 1000000" {
		t.Errorf("a thousandth of a core: %q; the kernel takes no quota below 1000", got)
	}
}

// A fake cgroup tree: how the daemon reacts to each content.
func TestGroupFallsBack(t *testing.T) {
	dir := t.TempDir()
	m := able()
	m.tree = func() (*tree, error) { return &tree{dir: dir}, nil }
	if _, err := m.limits(Limits{CPU: 1}, 0, "h"); err == nil || !strings.Contains(err.Error(), "cgroup.controllers") {
		t.Errorf("no cgroup: %v", err)
	}
	file := func(name, contents string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("cgroup.controllers", "memory cpu\n")
	file("cgroup.subtree_control", "memory cpu\n")
	// The group cannot be made, because its files are missing. Limits that have an rlimit fall back
	// to it.
	e, err := m.limits(Limits{Memory: 1 << 30}, 0, "h")
	if err != nil || e.group != nil || len(e.rlimits) != 1 || strings.Join(e.says(), "") != "memory (of each process, shared memory not counted) by rlimit" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := m.limits(Limits{CPU: 1}, 0, "h"); err == nil || !strings.Contains(err.Error(), "cpu.max") {
		t.Errorf("%v, want the file that is missing", err)
	}
	file("cgroup.controllers", "memory\n")
	if _, err := m.limits(Limits{CPU: 1}, 0, "h"); err == nil || !strings.Contains(err.Error(), "no cpu controller") {
		t.Errorf("%v, want the controller that is missing", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, groupPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
