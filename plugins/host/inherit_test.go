//go:build linux

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// Errors about a process's end, or its failure to start, read the same whether it is confined or
// not. They may add what it is confined to.
func TestEndings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(name, content string) host.Spec {
		path := filepath.Join(dir, name)
		if err := writeProgram(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		return host.Spec{Name: name, Path: path}
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	noDir := spec("echo")
	noDir.Dir = filepath.Join(dir, "nowhere")
	long := spec("echo")
	long.Env = append(long.Env, "LONG="+strings.Repeat("x", 1<<20))
	for _, c := range []struct {
		name string
		spec host.Spec
		want string
	}{
		{"status", script("status", "#!/bin/sh\nexit 42\n"), "it exited with status 42"},
		{"no error", script("none", "#!/bin/sh\n"), "it exited with status 0"},
		{"signal", script("signal", "#!/bin/sh\nkill -USR1 $$\n"), "it was ended by a signal: user defined signal 1"},
		{"SIGKILL", script("kill", "#!/bin/sh\nkill -KILL $$\n"), "it was killed (SIGKILL"},
		{"no program", script("text", "no program"), "another platform, or is a script without #!"},
		{"no interpreter", script("nosh", "#!/no/such/shell\n"), "the interpreter or loader that it names"},
		{"interpreter not executable", script("plainsh", "#!"+plain+"\n"), "permission denied"},
		{"no working directory", noDir, "no such file or directory|working directory, does not exist"},
		{"too much", long, "argument list too long"},
	} {
		for name, confinement := range map[string]confine.Spec{
			"":           {},
			", confined": {Limits: confine.Limits{Files: 100}},
		} {
			t.Run(c.name+name, func(t *testing.T) {
				t.Parallel()
				s := c.spec
				s.Confine = confinement
				err := try(t, s, host.Options{})
				for range 5 { // on a busy machine, to execute it may take too long
					if err == nil || !strings.Contains(err.Error(), "could not be executed within") {
						break
					}
					err = try(t, s, host.Options{})
				}
				if err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(want string) bool { return strings.Contains(err.Error(), want) }) {
					t.Errorf("got %v, want …%s…", err, c.want)
				}
			})
		}
	}
}

// The process gets its own variables and open files, and none of the daemon's.
func TestInheritance(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	home := filepath.Join(t.TempDir(), "home\xffless") // the system's strings are any bytes
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	leak, err := syscall.Dup(int(null.Fd())) // such as a careless library opens
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(leak) }()

	run := func(t *testing.T, s host.Spec, o host.Options) string {
		out := filepath.Join(t.TempDir(), "out")
		s.Name, s.Args, s.DisableTLS = "h", append(s.Args, out), true
		if err := try(t, s, o); err == nil || !strings.Contains(err.Error(), "status 0") {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := writeProgram(script, []byte("#!/bin/sh\nexec ls /proc/self/fd >\"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, confinement := range map[string]confine.Spec{"": {}, ", confined": {Limits: confine.Limits{Files: 100}}} {
		t.Run("environment"+name, func(t *testing.T) {
			temp := t.TempDir()
			got := run(t, host.Spec{Path: "cp", Args: []string{"/proc/self/environ"}, Confine: confinement, Env: []string{
				"B=1", "PATH=/bin", "B=2", "INFORMD_LOG_LEVEL=x", "EMPTY=", "PLUGIN_CLIENT_CERT=mine",
			}}, host.Options{TempDir: temp})
			var vars []string
			for _, v := range strings.Split(strings.TrimSuffix(got, "\x00"), "\x00") {
				name, value, _ := strings.Cut(v, "=")
				if rest, ok := strings.CutPrefix(value, temp+"/informd-tmp-"); ok && !strings.Contains(rest, "/") {
					value = "…"
				}
				if strings.HasPrefix(name, "PLUGIN_") && value != "mine" || name == "INFORMD_HANDLER_COOKIE" {
					value = "…"
				}
				vars = append(vars, name+"="+value)
			}
			want := []string{
				"PATH=/bin", "HOME=" + home, "TMPDIR=…", "B=2", "INFORMD_LOG_LEVEL=error", "EMPTY=", "PLUGIN_CLIENT_CERT=mine",
				"INFORMD_HANDLER_COOKIE=…", "PLUGIN_MIN_PORT=…", "PLUGIN_MAX_PORT=…", "PLUGIN_PROTOCOL_VERSIONS=…", "PLUGIN_UNIX_SOCKET_DIR=…",
			}
			if diff := cmp.Diff(want, vars); diff != "" {
				t.Error(diff)
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
		// Besides the inherited descriptors, ls has one for the directory.
		t.Run("descriptors"+name, func(t *testing.T) {
			if got := run(t, host.Spec{Path: script, Confine: confinement}, host.Options{}); got != "0\n1\n2\n3\n" {
				t.Errorf("got %q", got)
			}
		})
		t.Run("descriptors of standard output and of what was digested"+name, func(t *testing.T) {
			s := host.Spec{Path: script, Confine: confinement, Stdout: null, SHA256: digestOf(t, script)}
			if got := run(t, s, host.Options{}); got != "0\n1\n2\n3\n4\n5\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A home directory that does not exist is not used.
func TestNoHome(t *testing.T) {
	t.Setenv("HOME", filepath.Join(t.TempDir(), "nowhere"))
	script := filepath.Join(t.TempDir(), "script")
	if err := writeProgram(script, []byte("#!/bin/sh\n[ \"$HOME\" = \"$TMPDIR\" ] && exit 42\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := try(t, host.Spec{Name: "h", Path: script}, host.Options{}); err == nil || !strings.Contains(err.Error(), "status 42") {
		t.Errorf("got %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	// On most systems the home of user nobody is /nonexistent, which does not exist.
	if nobody, err := user.Lookup("nobody"); err != nil || dirExists(nobody.HomeDir) {
		t.Logf("nobody has a home: %+v, %v", nobody, err)
		return
	}
	dir := shortDir(t)
	temp := filepath.Join(dir, "temp")
	path := filepath.Join(dir, "script")
	content, err := os.ReadFile(script)
	if err := errors.Join(err, os.Chmod(dir, 0o711), os.Mkdir(temp, 0o711), writeProgram(path, content, 0o755)); err != nil {
		t.Fatal(err)
	}
	s := host.Spec{Name: "h", Path: path, Confine: confine.Spec{User: "nobody"}}
	if _, err := host.Try(t.Context(), s, patient(host.Options{RunDir: dir, TempDir: temp})); err == nil || !strings.Contains(err.Error(), "status 42") {
		t.Errorf("nobody: %v", err)
	}
}

// If the daemon's user may execute a program and the handler's user may not, the error says so.
func TestProgramOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run a handler as another user")
	}
	dir := shortDir(t)
	temp := filepath.Join(dir, "temp")
	path := filepath.Join(dir, "script")
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(temp, 0o711), writeProgram(path, []byte("#!/bin/sh\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s := host.Spec{Name: "h", Path: path, Confine: confine.Spec{User: "65534:65534", Limits: confine.Limits{Files: 100}}}
	_, err := host.Try(t.Context(), s, patient(host.Options{RunDir: dir, TempDir: temp}))
	want := "script cannot be executed: permission denied; its confinement may keep it from starting: user"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want …%s", err, want)
	}
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// The temporary directory is private to the process and is removed with it, whatever is in it.
// Nothing outside is removed.
func TestTempDir(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(filepath.Join(outside, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	content := `#!/bin/sh
[ "$(stat -c %a "$TMPDIR")" = 700 ] || exit 1
cd "$TMPDIR" && mkdir -p a/b/c && touch a/b/c/file "odd
name" && ln -s "$OUTSIDE" a/b/link && ln -s "$OUTSIDE" link && chmod 0 a/b/c a/b && chmod 500 a && chmod 0 . && exit 42
`
	if err := writeProgram(script, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	s := host.Spec{Name: "h", Path: script, Env: []string{"OUTSIDE=" + outside}}
	if err := try(t, s, host.Options{TempDir: temp}); err == nil || !strings.Contains(err.Error(), "status 42") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "dir")); err != nil {
		t.Error(err)
	}
	if err := try(t, s, host.Options{TempDir: temp + "/nowhere"}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "directory for its temporary files") {
		t.Errorf("got %v", err)
	}
}

// Another user owns the directories and has a home. If he cannot reach a directory, the error says
// so.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	content := `#!/bin/sh
echo $(id -u) $(stat -c %u:%g:%a "$TMPDIR" "$PLUGIN_UNIX_SOCKET_DIR") $(touch "$TMPDIR/x" && echo wrote) $([ "$HOME" = "$TMPDIR" ] && echo home) >&2
`
	if err := writeProgram(script, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o711); err != nil {
		t.Fatal(err)
	}
	s := host.Spec{Name: "h", Path: script, Confine: confine.Spec{User: "65533:65532"}}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o711); err != nil {
		t.Fatal(err)
	}
	_, err := host.Try(t.Context(), s, patient(host.Options{RunDir: run, TempDir: temp}))
	if want := `"65533 65533:65532:700 65533:65532:700 wrote home"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	for _, d := range []string{temp, run} {
		if left, _ := os.ReadDir(d); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if err := os.Chmod(run, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = host.Try(t.Context(), s, patient(host.Options{RunDir: run, TempDir: temp}))
	if want := "65533:65532, cannot enter " + run; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// A system that forbids to execute files in memory starts no handler with a digest, and the error
// says why. The test sets that up in a process id namespace.
func TestNoExecutableMemory(t *testing.T) {
	t.Parallel()
	const sysctl = "/proc/sys/vm/memfd_noexec"
	if _, err := os.Stat(sysctl); err != nil || os.Getuid() != 0 {
		t.Skip("only root can forbid it, with Linux 6.3")
	}
	c := exec.Command(os.Args[0])
	c.Env = []string{"MODE=no-executable-memory", "SHA256=" + digestOf(t, os.Args[0]), race}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "set the sysctl vm.memfd_noexec to 1 or 0, or leave out sha256") {
		t.Errorf("got %s, %v", out, err)
	}
}

func init() {
	modes["no-executable-memory"] = func() {
		if os.Getpid() != 1 { // it would be the whole system's
			panic("not in a namespace")
		}
		if err := os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0); err != nil {
			panic(err)
		}
		s := spec("echo")
		s.SHA256 = os.Getenv("SHA256")
		_, err := host.Try(context.Background(), s, patient(host.Options{}))
		fmt.Println(err)
	}
}
