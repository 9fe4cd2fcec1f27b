package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// languages are those that examples/handlers has a handler in: diary, the same in each. install makes one ready in a
// folder and returns its command, or says what is missing on this machine.
var languages = []struct {
	name    string
	install func(t *testing.T, dir string) (command []string, missing string)
}{
	{"python", installPython},
	{"node", installNode},
}

// installPython does what the example's README tells an author to do.
func installPython(t *testing.T, dir string) ([]string, string) {
	copyExample(t, "python/diary.py", dir)
	var python string
	for _, candidate := range []string{"python3", "/usr/bin/python3"} { // the first one may be without Debian's packages
		path, err := exec.LookPath(candidate)
		if err == nil && exec.Command(path, "-c", "import grpc, google.protobuf").Run() == nil {
			python = path
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
	mustRun(t, dir, compile[0], append(compile[1:], "-I.", "--python_out=.", "handler.proto")...)
	return []string{python, filepath.Join(dir, "diary.py")}, ""
}

func installNode(t *testing.T, dir string) ([]string, string) {
	copyExample(t, "node/diary.js", dir)
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, "no node here: apt-get install nodejs npm"
	}
	modules, err := filepath.Abs("../examples/handlers/node/node_modules")
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

// copyExample copies a handler, and puts the protocol beside it.
func copyExample(t *testing.T, name, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../examples/handlers", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, binary, "handler", "proto")
}

func mustRun(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// inEachLanguage runs a test for each that this machine has.
func inEachLanguage(t *testing.T, test func(t *testing.T, dir string, command []string)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			dir := shortDir(t)
			command, missing := l.install(t, dir)
			if missing != "" {
				t.Skip(missing)
			}
			test(t, dir, command)
		})
	}
}

// The examples in other languages keep the contract, and what large numbers there are.
func TestOtherLanguagesConform(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		config := writeFile(t, "config.yaml", "file: "+filepath.Join(dir, "diary"))
		event := writeFile(t, "event.json", `{"id":"numbers","rule":"r","event":"updated","resource":{"version":"v1","resource":"pods"},`+
			`"namespace":"shop","name":"web","uid":"u","resourceVersion":"1",`+
			`"payload":{"largest":9223372036854775807,"odd":9007199254740993,"small":-3,"half":0.5,"text":"\"9007199254740993\" ü"}}`)
		cmd := exec.Command(binary, append([]string{"handler", "check", "--config", config, "--event", event}, command...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		for i, entry := range readDiary(t, dir) {
			if entry.ID != "numbers-1" {
				continue
			}
			if got, want := string(entry.Data), `"largest":9223372036854775807,"odd":9007199254740993,"small":-3,"half":0.5`; !strings.Contains(strings.ReplaceAll(got, " ", ""), want) {
				t.Errorf("line %d: got %s", i, got)
			}
			var data struct{ Text string }
			if err := json.Unmarshal(entry.Data, &data); err != nil || data.Text != `"9007199254740993" ü` {
				t.Errorf("line %d: got %s, %v", i, entry.Data, err)
			}
			return
		}
		t.Error("the event was not written")
	})
}

// What an author in another language needs most: a retry after a time, a reject, and levels in the log.
func TestOtherLanguagesAnswer(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, _ string, command []string) {
		full, log := runDiary(t, command, "/dev/full") // writing there fails as writing to a full disk does
		ev := handler.Event{ID: "1", Rule: "r", Event: handler.Added, Attempt: 1, Name: "a", Object: json.RawMessage(`{}`)}
		_, err := full.Handle(t.Context(), ev)
		if after, ok := handler.RetryDelay(err); !ok || after != 10*time.Second || errors.Is(err, handler.ErrReject) ||
			!strings.Contains(strings.ToLower(err.Error()), "no space left") {
			t.Errorf("a full disk: got %v", err)
		}
		ev.ID, ev.Event = "2", "exploded"
		if _, err := full.Handle(t.Context(), ev); !errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "exploded") {
			t.Errorf("a kind of change that is to come: got %v", err)
		}
		ev.ID, ev.Event, ev.Object = "3", handler.Added, json.RawMessage(`{`)
		if _, err := full.Handle(t.Context(), ev); err == nil || errors.Is(err, handler.ErrReject) {
			t.Errorf("an error that nobody thought of: got %v", err)
		}
		within(t, "an error in the log", func() bool {
			return strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), `msg="handle failed"`)
		})
	})
}

// They say what is wrong with them.
func TestOtherLanguagesHealth(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		path := filepath.Join(dir, "diary")
		h, _ := runDiary(t, command, path)
		within(t, "it to be well", func() bool { return h.Status().State == host.Running && h.Status().Problem == "" })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		within(t, "it to report a problem", func() bool { return h.Status().Problem == "the file was removed" })
	})
}

// runDiary runs a diary until the test ends.
func runDiary(t *testing.T, command []string, path string) (*host.Host, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	h := host.New(host.Spec{
		Name: "diary", Path: command[0], Args: command[1:], Config: json.RawMessage(fmt.Sprintf(`{"file":%q}`, path)),
	}, host.Options{
		RunDir: shortDir(t), Logger: slog.New(slog.NewTextHandler(log, nil)), HealthInterval: 50 * time.Millisecond,
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
	for deadline := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Killed again and again in the middle of their work, they miss nothing, and keep the order of each object's changes.
func TestOtherLanguagesThroughCrashes(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		const kills = 5
		list, err := json.Marshal(command) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		s := setStage(t, toldBy("diary", fmt.Sprintf("command: %s, config: {file: %q}, retry: {backoff: 10ms, maxBackoff: 100ms}", list, filepath.Join(dir, "diary")))+
			ruleFor("diary", "source: widgets, handler: diary, delivery: every, events: [updated]"))
		s.awaitRunning("diary", "steady")
		s.awaitDelivered()
		s.play(100)
		last := 0
		for range kills {
			var pid int
			s.poll("the diary at work", func() bool {
				pid = s.pidOf("diary")
				return pid > 0 && pid != last && s.metric(`informd_handler_in_flight{handler="diary"}`) != "0"
			})
			last = pid
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		s.rest()
		s.poll("everything to be written", func() bool {
			return s.waiting("diary") == 0 && s.metric(`informd_handler_in_flight{handler="diary"}`) == "0" && s.restarts("diary") >= kills
		})
		if got := s.restarts("diary"); got != kills {
			t.Errorf("it was started again %d times, want %d", got, kills)
		}

		versions := map[string][]int64{} // in the diary, without repeats
		repeats := 0
		for _, entry := range readDiary(t, dir) {
			version, err := strconv.ParseInt(entry.version(t), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Attempt > 1 && slices.Contains(versions[entry.Name], version) {
				repeats++
				continue
			}
			versions[entry.Name] = append(versions[entry.Name], version)
		}
		want, n := map[string][]int64{}, 0
		for _, e := range s.wantSteady() {
			if e.version >= s.sent[0].version {
				want[e.name] = append(want[e.name], e.version)
				n++
			}
		}
		for name, v := range want {
			if !slices.Equal(versions[name], v) {
				t.Errorf("%s: got %v, want %v", name, versions[name], v)
			}
		}
		t.Logf("%d changes, %d written twice", n, repeats)
		s.stop()
	})
}

// pidOf is the process of a handler; 0 if none is running.
func (s *stage) pidOf(handler string) int {
	s.t.Helper()
	code, stdout, stderr := runCommand(s.t, s.informd, "status", "-o", "json", "--state-dir", s.state)
	var status struct {
		Handlers []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil {
		s.t.Fatalf("informd status: exit code %d, %v\n%s", code, err, stderr)
	}
	for _, h := range status.Handlers {
		if h.Name == handler {
			return h.PID
		}
	}
	return 0
}

// diaryEntry is a line of diary's file.
type diaryEntry struct {
	ID      string
	Attempt int
	Name    string
	Data    json.RawMessage
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
	for _, line := range linesOf(t, dir, "diary") {
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
