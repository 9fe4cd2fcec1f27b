package e2e

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// informdImage makes and unpacks the image of informd.
func informdImage(t *testing.T) *image {
	t.Helper()
	runMake(t, "image-informd")
	return unpack(t, filepath.Join(bin(t), "image", "informd"), testVersion)
}

// The image has informd, certificates and a user, and nothing to take hold of.
func TestImage(t *testing.T) {
	t.Parallel()
	i := informdImage(t)
	want := []string{
		"bin", "etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt",
		"state/", "tmp/", "usr/", "usr/bin/", "usr/bin/informd", "usr/share/", "usr/share/licenses/",
		"usr/share/licenses/informd/", "usr/share/licenses/informd/THIRD_PARTY_NOTICES",
	}
	if got := slices.Sorted(maps.Keys(i.files)); !slices.Equal(got, want) {
		t.Errorf("the image has %q, want %q", got, want)
	}
	for name, header := range i.files {
		mode := header.FileInfo().Mode()
		switch {
		case mode&(os.ModeSetuid|os.ModeSetgid) != 0:
			t.Errorf("%s has mode %v: nobody gets rights by it", name, mode)
		case name == "state/":
			if header.Uid != nonroot || header.Gid != nonroot || mode.Perm() != 0o700 {
				t.Errorf("/state belongs to %d:%d and has mode %v", header.Uid, header.Gid, mode)
			}
		case header.Uid != 0 || header.Gid != 0:
			t.Errorf("%s belongs to %d:%d, want root", name, header.Uid, header.Gid)
		case mode.Perm()&0o022 != 0 && name != "tmp/" && header.Typeflag != tar.TypeSymlink:
			t.Errorf("%s has mode %v: others may write", name, mode)
		}
		if header.ModTime.Unix() != 1700000000 {
			t.Errorf("%s is of %v, not of the commit's time", name, header.ModTime)
		}
	}
	if i.Config.User != "65532:65532" || !slices.Equal(i.Config.Entrypoint, []string{"/usr/bin/informd"}) {
		t.Errorf("the image runs %q as %q", i.Config.Entrypoint, i.Config.User)
	}
	if v := i.Config.Labels["org.opencontainers.image.version"]; v != testVersion {
		t.Errorf("the image's version is %q", v)
	}
	if l := i.Config.Labels["org.opencontainers.image.licenses"]; l != "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND ISC AND MIT AND MPL-2.0" {
		t.Errorf("the image says that it is under %q", l)
	}
	hasNotices(t, filepath.Join(i.root, "usr/share/licenses/informd/THIRD_PARTY_NOTICES"))
	authorities, err := os.ReadFile(filepath.Join(i.root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(authorities) || strings.Count(string(authorities), "BEGIN") < 100 {
		t.Errorf("the image has %d certificates of authorities", strings.Count(string(authorities), "BEGIN"))
	}
}

// hasNotices checks a file of third parties' notices: it has the licenses of two modules under
// MPL-2.0, whose text must come along.
func hasNotices(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	for _, want := range []string{
		"\ngithub.com/hashicorp/go-plugin@", "\ngithub.com/hashicorp/yamux@", ": MPL-2.0\n", "Mozilla Public License, version 2.0",
		"\nGo's standard library, go", "Apache License", "go mod download",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q", path, want)
		}
	}
}

// The same commit makes the same image.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	i := informdImage(t)
	again := filepath.Join(t.TempDir(), "again")
	arch := filepath.Join(bin(t), "linux-"+runtime.GOARCH)
	out, err := exec.Command(filepath.Join(bin(t), "tools", "image"), "-o", again, "-version", testVersion,
		"-revision", "0123456789", "-time", "1700000000", runtime.GOARCH+"="+arch).CombinedOutput()
	if err != nil || !strings.Contains(string(out), i.digest) {
		t.Errorf("the same once more: %v\n%s\nwant %s", err, out, i.digest)
	}
}

// A command of the image works with a read-only root.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	i := informdImage(t)
	eachWay(t, func(t *testing.T, own bool) {
		rules := t.TempDir()
		if err := os.Chmod(rules, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rules, "r.yaml"), []byte(printPods), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"version"}, "informd " + testVersion + "\n"},
			{[]string{"check", "-f", "/rules"}, "ok: 1 source, 1 handler, 1 rule\n"},
			{[]string{"status"}, "no cluster to connect to"},
		} {
			c := container{Root: i.root, Own: own, Args: i.Config.Entrypoint, Env: i.Config.Env, Mounts: []mount{
				{rules, "/rules", true}, {volume(t, own), "/tmp", false},
			}}
			cmd := c.command(t)
			cmd.Args = append(cmd.Args, test.args...)
			out, _ := cmd.CombinedOutput()
			if !strings.Contains(string(out), test.want) {
				t.Errorf("%q: %s\nwant %s", test.args, out, test.want)
			}
		}
	})
}

// execLayout returns the layout of informd-exec that `make image` has made. It skips the test if
// there is none: the programs take minutes to build, and one of them is Debian's.
func execLayout(t *testing.T) string {
	t.Helper()
	layout, err := filepath.Abs(filepath.Join(harness.Root, "bin", "image", "informd-exec"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(layout); err != nil {
		harness.Lacks(t, "run make image first, which downloads and builds busybox, jq and kubectl")
	}
	return layout
}

// The second image has a shell, what scripts use, jq and kubectl.
func TestImageForExec(t *testing.T) {
	t.Parallel()
	i := unpack(t, execLayout(t), "")
	eachWay(t, func(t *testing.T, own bool) {
		c := container{Root: i.root, Own: own, Args: []string{"/bin/sh", "-euc"}, Env: i.Config.Env,
			Mounts: []mount{{volume(t, own), "/tmp", false}}}
		cmd := c.command(t)
		cmd.Args = append(cmd.Args, `
			echo '{"a": {"b": [1, 2]}}' | jq -c .a.b
			kubectl version --client
			informd version
			id -u
			grep -c BEGIN /etc/ssl/certs/ca-certificates.crt
			f=$(mktemp); date >$f; sed s/x/y/ $f | wc -l; rm $f
			if touch /x; then exit 1; fi`)
		out, err := cmd.CombinedOutput()
		want := []string{"[1,2]\n", "Client Version: v1.", "informd ", "65532\n", "touch: /x: Read-only file system"}
		for _, text := range want {
			if err != nil || !strings.Contains(string(out), text) {
				t.Fatalf("%v: %s\nwant %q", err, out, want)
			}
		}
	})
}

// A release has everything that a user needs, and the same bytes each time.
func TestRelease(t *testing.T) {
	t.Parallel()
	sums := runMake(t, "release")
	dir := filepath.Join(bin(t), "release")
	name := "informd_" + testVersion + "_linux_" + runtime.GOARCH
	to := t.TempDir()
	for _, cmd := range []*exec.Cmd{
		exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS"),
		exec.Command("tar", "-C", to, "-xzf", name+".tar.gz"),
	} {
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	for _, file := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES",
		"completions/informd.bash", "completions/informd.zsh", "completions/informd.fish",
		"deploy/1-namespace.yaml", "deploy/2-permissions.yaml", "deploy/3-rules.yaml", "deploy/4-informd.yaml", "deploy/informd.service",
		"deploy/replicas/4-informd.yaml", "deploy/replicas/certificates.yaml",
		"examples/rules/images.yaml", "examples/handlers/python/diary.py", "docs/README.md",
	} {
		if info, err := os.Stat(filepath.Join(to, name, file)); err != nil || info.Size() == 0 || info.ModTime().Unix() != 1700000000 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(to, name))
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, entry := range entries {
		has = append(has, entry.Name())
	}
	if want := "CHANGELOG.md LICENSE README.md THIRD_PARTY_NOTICES completions deploy docs examples informd"; strings.Join(has, " ") != want {
		t.Errorf("the archive has %v, want %s", has, want)
	}
	for _, file := range []string{"deploy/image", "examples/handlers/node/node_modules"} {
		if _, err := os.Stat(filepath.Join(to, name, file)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the archive has %s: %v", file, err)
		}
	}
	hasNotices(t, filepath.Join(to, name, "THIRD_PARTY_NOTICES"))
	code, out, _ := harness.RunCommand(t, filepath.Join(to, name, "informd"), "version")
	if code != 0 || out != "informd "+testVersion+"\n" {
		t.Errorf("informd version: exit code %d, %q", code, out)
	}
	complete := exec.Command("bash", "-c", `. "$0" && COMP_WORDS=(informd ha) COMP_CWORD=1 && type __start_informd`,
		filepath.Join(to, name, "completions", "informd.bash"))
	if out, err := complete.CombinedOutput(); err != nil {
		t.Errorf("completions for bash: %v\n%s", err, out)
	}
	made.Lock()
	delete(made.out, "release")
	made.Unlock()
	if again := runMake(t, "release"); lastLine(again) != lastLine(sums) {
		t.Errorf("the same once more has another sum:\n%s%s", sums, again)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Programs that cannot run in the image are refused, and no layout is left.
func TestImageRefuses(t *testing.T) {
	t.Parallel()
	informdImage(t)
	tool := filepath.Join(bin(t), "tools", "image")
	good := filepath.Join(bin(t), "linux-"+runtime.GOARCH)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	script, dynamic, empty := t.TempDir(), t.TempDir(), t.TempDir()
	harness.WriteProgram(t, filepath.Join(script, "informd"), "#!/bin/sh\n", 0o755)
	self, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	harness.WriteProgram(t, filepath.Join(dynamic, "informd"), string(self), 0o755)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another architecture": {[]string{"-version", "v1", other + "=" + good}, "informd is a program for EM_"},
		"unknown architecture": {[]string{"-version", "v1", "x86=" + good}, `unknown architecture "x86": use amd64 or arm64`},
		"a script":             {[]string{"-version", "v1", runtime.GOARCH + "=" + script}, "is not a Linux program"},
		"libraries":            {[]string{"-version", "v1", runtime.GOARCH + "=" + dynamic}, "build it with CGO_ENABLED=0"},
		"no informd":           {[]string{"-version", "v1", runtime.GOARCH + "=" + empty}, "has no informd"},
		"no folder":            {[]string{"-version", "v1", runtime.GOARCH + "=/nowhere"}, "no such file"},
		"no programs":          {[]string{"-version", "v1"}, "give ARCH=FOLDER"},
		"no version":           {[]string{runtime.GOARCH + "=" + good}, "-version is missing"},
		"not both":             {[]string{"-version", "v1", good}, "is not ARCH=FOLDER"},
	} {
		out := filepath.Join(t.TempDir(), "image")
		code, _, stderr := harness.RunCommand(t, tool, append([]string{"-o", out}, test.args...)...)
		if code == 0 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %s\nwant %s", name, code, stderr, test.want)
		}
		if left := harness.InFolder(t, filepath.Dir(out)); len(left) > 0 {
			t.Errorf("%s: it leaves %q", name, left)
		}
	}
	full := t.TempDir()
	if code, _, stderr := harness.RunCommand(t, tool, "-o", full, "-version", "v1", runtime.GOARCH+"="+good); code == 0 || !strings.Contains(stderr, "remove it first") {
		t.Errorf("a folder that exists: exit code %d, %s", code, stderr)
	}
}

const printPods = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: print}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {source: pods, handler: print}
`

// systemd takes the unit without a word: a field that it does not know would be left out. It is not
// installed for the sake of this test, because it would be the system's own.
func TestUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	text, err := os.ReadFile(filepath.Join(harness.Root, "deploy", "informd.service"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "informd.service")
	installed := strings.ReplaceAll(string(text), "/usr/local/bin/informd", "/bin/true")
	if err := os.WriteFile(path, []byte(installed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	for line := range strings.Lines(string(out)) { // others may be about the system's own units
		if strings.Contains(line, "informd") {
			t.Error(line)
		}
	}
}
