package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// languages are those of examples/handlers. Each has the same handler, diary. install prepares it
// in a folder and returns its command, or says what this machine lacks.
var languages = []struct {
	name    string
	install func(t *testing.T, dir string) (command []string, missing string)
}{
	{"python", installPython},
	{"node", installNode},
}

// installPython follows the example's README.
func installPython(t *testing.T, dir string) ([]string, string) {
	copyExample(t, "python/diary.py", dir)
	var python string
	for _, candidate := range []string{"python3", "/usr/bin/python3"} { // another Python may come first in the PATH, without Debian's packages
		out, err := exec.Command(candidate, "-c", "import grpc, google.protobuf, sys; print(sys.executable)").Output()
		if err == nil {
			python = strings.TrimSpace(string(out))
			break
		}
	}
	if python == "" {
		return nil, "no python3 with grpcio and protobuf here: apt-get install python3-grpcio python3-protobuf"
	}
	compile := []string{python, "-m", "grpc_tools.protoc"}
	if exec.Command(python, "-c", "import grpc_tools.protoc, google.protobuf.internal.builder").Run() != nil || exec.Command(compile[0], compile[1], compile[2], "--version").Run() != nil {
		protoc, err := exec.LookPath("protoc")
		if err != nil {
			return nil, "nothing here that compiles .proto files for Python: apt-get install protobuf-compiler libprotobuf-dev"
		}
		compile = []string{protoc}
	}
	mustRun(t, dir, compile[0], append(compile[1:], "-I.", "--python_out=.", "handler.proto", "cache.proto")...)
	return []string{python, filepath.Join(dir, "diary.py")}, ""
}

func installNode(t *testing.T, dir string) ([]string, string) {
	copyExample(t, "node/diary.js", dir)
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, "no node here: apt-get install nodejs npm"
	}
	modules, err := filepath.Abs("../../examples/handlers/node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "@grpc/grpc-js")); err != nil {
		return nil, "Node's gRPC library is not installed: npm ci --prefix examples/handlers/node"
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return []string{node, filepath.Join(dir, "diary.js")}, ""
}

// copyExample copies a handler and puts the protocol beside it.
func copyExample(t *testing.T, name, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/handlers", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, harness.Binary, "handler", "proto")
}

func mustRun(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// inEachLanguage runs a test for each language, and skips those that this machine lacks.
func inEachLanguage(t *testing.T, test func(t *testing.T, dir string, command []string)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			dir := harness.ShortDir(t)
			command, missing := l.install(t, dir)
			if missing != "" {
				harness.Lacks(t, missing)
			}
			test(t, dir, command)
		})
	}
}

// runDiary runs a diary until the test ends.
func runDiary(t *testing.T, command []string, path string, confined confine.Spec) (*host.Host, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	h := host.New(host.Spec{
		Name: "diary", Path: command[0], Args: command[1:], Config: json.RawMessage(fmt.Sprintf(`{"file":%q}`, path)),
		Confine: confined,
	}, host.Options{
		RunDir: harness.ShortDir(t), Logger: slog.New(slog.NewTextHandler(log, nil)), HealthInterval: 50 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return h, log
}

func within(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(harness.Patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", harness.Patience, what)
		}
	}
}

// diaryEntry is a line of diary's file.
type diaryEntry struct {
	ID      string
	Attempt int
	Event   string
	Name    string
	Data    json.RawMessage
	Related []string
}

func (e diaryEntry) version(t *testing.T) string {
	t.Helper()
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(e.Data, &object); err != nil {
		t.Fatal(err)
	}
	return object.Metadata.ResourceVersion
}

func readDiary(t *testing.T, dir string) (entries []diaryEntry) {
	t.Helper()
	for _, line := range harness.LinesOf(t, dir, "diary") {
		var e diaryEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	return entries
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
