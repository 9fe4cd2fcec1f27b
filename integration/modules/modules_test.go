// Package modules tests a release as its users fetch it: authors of handlers, whose modules may be
// older than informd's own, and people who install the daemon.
package modules

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	daemon = "github.com/informd/informd"
	// commit is a version of the daemon that has no tag.
	commit = "v0.0.0-20260101000000-0123456789ab"
)

// author is a module like the tutorial's, of an author who has not upgraded for some time.
var author = map[string]string{
	"go.mod": `module example.com/oncall

go 1.25

require k8s.io/apimachinery v0.31.0
`,
	"main.go": `package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

func handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	var object struct{ metav1.ObjectMeta }
	if len(ev.Object) > 0 {
		if err := ev.Decode(&object); err != nil {
			return handler.Answer{}, err
		}
	}
	return handler.Answer{}, nil
}

func main() { serve.Main(handler.Func(handle)) }
`,
	"main_test.go": `package main

import (
	"os"
	"testing"

	"github.com/informd/informd/plugins/handler/handlertest"
)

func TestMain(m *testing.M) {
	if os.Getenv("HANDLER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	handlertest.Run(t, handlertest.Options{Command: []string{os.Args[0]}, Env: []string{"HANDLER=1"}})
}
`,
}

// A handler's author on Go 1.25, with an apimachinery that is older still, keeps both.
func TestAuthorsModule(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	dir := t.TempDir()
	for name, text := range author {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, module := range []string{"handler", "serve"} {
		path := daemon + "/plugins/" + module
		p.run(dir, "mod", "edit", "-require", path+"@"+p.versions[path])
	}
	p.run(dir, "mod", "tidy")
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^go 1\.25(\.0)?$`).Match(text) || strings.Contains(string(text), "toolchain") {
		t.Errorf("the author's Go has to be another one:\n%s", text)
	}
	if !strings.Contains(string(text), "k8s.io/apimachinery v0.31.0") {
		t.Errorf("the author's apimachinery has to be another one:\n%s", text)
	}
	if strings.Contains(string(text), daemon+" ") {
		t.Errorf("a handler requires the daemon:\n%s", text)
	}
	p.run(dir, "vet", "./...")
	p.run(dir, "test", "./...")
}

// go install takes no replacements, and no workspace.
func TestInstall(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	p.run(t.TempDir(), "install", daemon+"/cmd/informd@"+commit)
	out, err := exec.Command(filepath.Join(p.bin, "informd"), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "informd") {
		t.Errorf("%v: %s", err, out)
	}
}

// What authors import requires a gRPC without known holes: by version 1.83.2 the ones were mended by
// which a peer can exhaust a server or end it (GO-2026-6061, GO-2026-6348, GO-2026-6443).
func TestMendedGRPC(t *testing.T) {
	t.Parallel()
	want := [3]int{1, 83, 2}
	for _, module := range []string{"handler", "handlerpb", "serve"} {
		text, err := os.ReadFile(filepath.Join("../../plugins", module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`google\.golang\.org/grpc v(\d+)\.(\d+)\.(\d+)`).FindSubmatch(text)
		if found == nil {
			t.Errorf("%s requires no release of gRPC", module)
			continue
		}
		var got [3]int
		for i := range got {
			got[i], _ = strconv.Atoi(string(found[i+1])) // digits
		}
		if slices.Compare(got[:], want[:]) < 0 {
			t.Errorf("%s requires gRPC %v, want %v or later", module, got, want)
		}
	}
}

// All modules of one release require each other's same version.
func TestOneVersion(t *testing.T) {
	for path, version := range newProxy(t).versions {
		if path != daemon && version != "v0.1.0" {
			t.Errorf("go.mod requires %s %s, and the others v0.1.0", path, version)
		}
	}
}

// proxy is a module proxy with the modules of this tree, in front of the ordinary ones.
type proxy struct {
	t        *testing.T
	dir      string // what it serves
	bin      string // where go install puts programs
	cache    string // of modules: the versions here are made up
	versions map[string]string
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, dir: t.TempDir(), bin: t.TempDir(), cache: t.TempDir(), versions: map[string]string{daemon: commit}}
	p.add(root, daemon, commit)
	for _, line := range strings.Split(goCommand(t, root, nil, "list", "-m", "-f", "{{.Path}} {{.Dir}}"), "\n") {
		path, dir, _ := strings.Cut(line, " ")
		if path != daemon && path != "" {
			p.versions[path] = required(t, root, path)
			p.add(dir, path, p.versions[path])
		}
	}
	return p
}

// required returns the version of a module that the daemon's go.mod has.
func required(t *testing.T, root, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(regexp.QuoteMeta(path) + ` (v\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("go.mod does not require %s", path)
	}
	return string(found[1])
}

// add writes one version of a module in the layout of a module proxy.
func (p *proxy) add(dir, path, version string) {
	p.t.Helper()
	at := filepath.Join(p.dir, path, "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		p.t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		p.t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		p.t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		version + ".mod": mod, version + ".info": info, "list": nil, "../@latest": info,
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		p.t.Fatal(err)
	}
	z := zip.NewWriter(file)
	err = addFiles(z, dir, path+"@"+version)
	for _, end := range []func() error{z.Close, file.Close} {
		if endErr := end(); err == nil {
			err = endErr
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// addFiles adds a module's files to a zip, except for nested modules and files outside the
// repository.
func addFiles(z *zip.Writer, dir, prefix string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if path != dir && (nested == nil || entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := z.Create(prefix + "/" + filepath.ToSlash(relative))
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
}

// run runs a go command with nothing but the proxies.
func (p *proxy) run(dir string, args ...string) {
	p.t.Helper()
	known := strings.TrimSpace(goCommand(p.t, "", nil, "env", "GOMODCACHE"))
	goCommand(p.t, dir, []string{
		"GOWORK=off", "GOTOOLCHAIN=local", "GOBIN=" + p.bin, "GOMODCACHE=" + p.cache, "CGO_ENABLED=0",
		// With trimmed paths the build cache serves modules wherever they lie. Without symbols for a
		// debugger, the linker needs half the time.
		"GOFLAGS=-modcacherw -trimpath -buildvcs=false -ldflags=-s",
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s",
			p.dir, known, strings.TrimSpace(goCommand(p.t, "", nil, "env", "GOPROXY"))),
		"GOSUMDB=off", // it knows nothing of versions that are made up
	}, args...)
}

func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}
