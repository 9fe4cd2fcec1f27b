package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// The examples in other languages keep the contract, and keep large numbers exact.
func TestOtherLanguagesConform(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		config := harness.WriteFile(t, "config.yaml", "{related: pods.byNode, tell: true, file: "+filepath.Join(dir, "diary")+"}")
		cache := harness.WriteFile(t, "cache.yaml", `pods: {indexes: {byNode: object.node}, objects: [{metadata: {name: web-0}, node: web-1}, {metadata: {name: db-0}, node: web-1}]}`)
		event := harness.WriteFile(t, "event.json", `{"id":"numbers","rule":"r","event":"updated","resource":{"version":"v1","resource":"pods"},`+
			`"namespace":"shop","name":"web","uid":"u","resourceVersion":"1",`+
			`"payload":{"largest":9223372036854775807,"odd":9007199254740993,"small":-3,"half":0.5,"text":"\"9007199254740993\" ü"}}`)
		cmd := exec.Command(harness.Binary, append([]string{"handler", "check", "--config", config, "--cache", cache, "--event", event}, command...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		if unchecked := strings.Count(string(out), "not checked: "); unchecked != 1 || !strings.Contains(string(out), "-     keeps integers\n") {
			t.Errorf("%d clauses were not checked, want that about integers only", unchecked)
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
			if want := []string{"db-0", "web-0"}; !slices.Equal(entry.Related, want) {
				t.Errorf("line %d: related are %q, want %q", i, entry.Related, want)
			}
			return
		}
		t.Error("the event was not written")
	})
}

// An author in another language needs these most: a retry after a time, a rejection, and levels in
// the log.
func TestOtherLanguagesAnswer(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, _ string, command []string) {
		full, log := runDiary(t, command, "/dev/full", confine.Spec{}) // writing to it fails as on a full disk
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

// A group of changes comes as one event. They see each change.
func TestOtherLanguagesItems(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		h, _ := runDiary(t, command, filepath.Join(dir, "diary"), confine.Spec{})
		change := func(n int) handler.Event {
			return handler.Event{
				ID: fmt.Sprint(n), Rule: "r", Event: handler.Added, Attempt: 2, Name: fmt.Sprint("web-", n),
				Payload: json.RawMessage(fmt.Sprint(9007199254740993 + n)),
			}
		}
		const items = 1000 // as many as an event can have
		ev := change(items - 1)
		for n := range items {
			ev.Items = append(ev.Items, change(n))
		}
		if _, err := h.Handle(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
		entries := readDiary(t, dir)
		if len(entries) != items {
			t.Fatalf("%d changes were written, want %d", len(entries), items)
		}
		for n, e := range entries {
			want := change(n)
			if e.ID != want.ID || e.Name != want.Name || e.Attempt != 2 || string(e.Data) != string(want.Payload) {
				t.Errorf("change %d: got %+v", n, e)
			}
		}
	})
}

// They report all mistakes in their config at once, each with its place.
func TestOtherLanguagesRefuse(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, _ string, command []string) {
		for config, want := range map[string]string{
			`{"file":3,"tell":"yes","fiel":"x"}`:    "fiel: unknown; known are file, related, tell / file: want a str / tell: want a bool",
			`{}`:                                    "file: required",
			`{"related":"pods"}`:                    "related: want SOURCE.INDEX / file: required",
			`{"related":".byNode","file":"/x"}`:     "related: want SOURCE.INDEX",
			`{"file":"/x","related":"pods.byNode"}`: "related: want SOURCE.INDEX, and a manifest whose access.read has the source",
			`{"file":"/no/such/folder/diary"}`:      "file: ",
			`[]`:                                    "want fields",
		} {
			_, err := host.Try(t.Context(), host.Spec{Name: "diary", Path: command[0], Args: command[1:], Config: json.RawMessage(config)}, host.Options{RunDir: harness.ShortDir(t)})
			refused, ok := errors.AsType[*host.RefusedError](err)
			if !ok {
				t.Errorf("%s: got %v", config, err)
				continue
			}
			for _, part := range strings.Split(want, " / ") {
				if !strings.Contains(refused.Error(), part) {
					t.Errorf("%s: %v does not say %q", config, refused, part)
				}
			}
		}
	})
}

// They report what is wrong with them by gRPC's health service.
func TestOtherLanguagesHealth(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		path := filepath.Join(dir, "diary")
		h, _ := runDiary(t, command, path, confine.Spec{})
		within(t, "it to be well", func() bool { return h.Status().State == host.Running && h.Status().Problem == "" })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		within(t, "it to report a problem", func() bool { return h.Status().Problem == "the file was removed" })
	})
}

// In a sandbox they find their interpreter and its libraries. They listen, log and write.
func TestOtherLanguagesInASandbox(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		modules, err := filepath.Abs("../../examples/handlers/node/node_modules")
		if err != nil {
			t.Fatal(err)
		}
		prefix := filepath.Dir(filepath.Dir(command[0])) // of the interpreter
		h, _ := runDiary(t, command, filepath.Join(dir, "diary"), confine.Spec{
			Sandbox: true, Read: []string{dir, prefix, modules}, Write: []string{dir},
		})
		within(t, "it to run", func() bool {
			st := h.Status()
			if st.State == host.Refused && !strings.Contains(st.Reason, "config") {
				t.Skipf("this kernel has no sandbox: %s", st.Reason)
			}
			return st.State == host.Running
		})
		if _, err := h.Handle(t.Context(), handler.Event{ID: "1", Rule: "r", Event: handler.Added, Attempt: 1, Name: "a", Object: json.RawMessage(`{}`)}); err != nil {
			t.Error(err)
		}
		if entries, confined := readDiary(t, dir), h.Status().Confined; len(entries) != 1 || confined == "" {
			t.Errorf("got %v, confined to %q", entries, confined)
		}
	})
}

// The test kills them again and again at their work. They miss nothing, and each object's changes
// stay in order.
func TestOtherLanguagesThroughCrashes(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		const kills = 5
		list, err := json.Marshal(command) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		s := harness.SetStage(t, harness.Handler("diary", fmt.Sprintf("command: %s, config: {file: %q}, retry: {backoff: 10ms, maxBackoff: 100ms}", list, filepath.Join(dir, "diary")))+
			harness.Rule("diary", "source: widgets, handler: diary, delivery: every, events: [updated]"))
		s.AwaitRunning("diary", "steady")
		s.AwaitDelivered()
		s.Play(100)
		last := 0
		for range kills {
			var pid int
			s.Poll("the diary to run", func() bool {
				pid = pidOf(s, "diary")
				return pid > 0 && pid != last
			})
			awaitNoSuspects(s)
			last = pid
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // wherever it is
				t.Error(err)
			}
			s.Poll("the diary to have work", func() bool { return s.Metric(`informd_handler_in_flight{handler="diary"}`) != "0" })
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		s.Rest()
		s.Poll("everything to be written", func() bool {
			return s.Waiting("diary") == 0 && s.Metric(`informd_handler_in_flight{handler="diary"}`) == "0" && s.Restarts("diary") >= kills
		})
		if got := s.Restarts("diary"); got != kills {
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
		for _, e := range s.WantSteady() {
			if e.Version >= s.Sent[0].Version {
				want[e.Name] = append(want[e.Name], e.Version)
				n++
			}
		}
		for name, v := range want {
			if !slices.Equal(versions[name], v) {
				t.Errorf("%s: got %v, want %v", name, versions[name], v)
			}
		}
		t.Logf("%d changes, %d written twice", n, repeats)
		s.Stop()
	})
}

// awaitNoSuspects waits until the diary has answered what it was killed with before. An event that
// it is killed with three times becomes a dead letter.
func awaitNoSuspects(s *harness.Stage) {
	s.T.Helper()
	s.Poll("the diary to have nothing left", func() bool {
		return s.Waiting("diary") == 0 && s.Metric(`informd_handler_in_flight{handler="diary"}`) == "0"
	})
}

// pidOf returns the process of a handler, or 0 if none is running.
func pidOf(s *harness.Stage, handler string) int {
	s.T.Helper()
	code, stdout, stderr := harness.RunCommand(s.T, harness.Binary, "status", "-o", "json", "--state-dir", s.State)
	var status struct {
		Handlers []struct {
			Name, State string
			PID         int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil {
		s.T.Fatalf("informd status: exit code %d, %v\n%s", code, err, stderr)
	}
	for _, h := range status.Handlers {
		if h.Name == handler && h.State == "running" {
			return h.PID
		}
	}
	return 0
}

// On a cluster, the diary has the related objects from the cache, and the cluster has the diary's
// actions, once for each change, however often the test kills the handler.
func TestOtherLanguagesInACluster(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		const objects, kills = 100, 5
		list, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		c, state := cluster.Shared(t), harness.ShortDir(t)
		k := harness.NewKube(t, c)
		d := harness.RunInformd(t, c.Kubeconfig(), k.Text(
			harness.Source("configmaps", harness.ConfigMaps+", indexes: {byTeam: object.data.team}")+
				harness.Handler("diary", fmt.Sprintf(`command: %s, retry: {backoff: 10ms, maxBackoff: 100ms},
					access: {read: [configmaps], write: [{resource: v1/configmaps, verbs: [event], namespaces: [NS]}]},
					config: {file: %q, related: configmaps.byTeam, tell: true}`, list, filepath.Join(dir, "diary")))+
				harness.Rule("diary", "source: configmaps, handler: diary, delivery: every, where: object.data.team != nil")), "--state-dir", state)
		d.AwaitReady()
		s := &harness.Stage{Daemon: d, Informd: harness.Raced, State: state}
		pid, last := 0, 0
		for i := range objects {
			kill := i%(objects/kills) == objects/kills/2
			if i%(objects/kills) == 0 {
				awaitNoSuspects(s)
			}
			if kill {
				d.Poll("the diary at work", func() bool { pid = pidOf(s, "diary"); return pid > 0 && pid != last })
				last = pid
			}
			k.Create(harness.ConfigMap(fmt.Sprintf("o-%03d", i), "{team: red}"))
			if kill { // while it has this one, or just before or after
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		}
		k.Create(harness.ConfigMap("red", "{team: blue}")) // to which all others are related
		noted := func() map[string]int {
			events, err := k.Typed.CoreV1().Events(k.Ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			about := make(map[string]int)
			for _, e := range events.Items {
				if e.Reason == "Noted" && e.Message == "It was written to the diary." && e.InvolvedObject.Kind == "ConfigMap" {
					about[e.InvolvedObject.Name]++
				}
			}
			return about
		}
		d.Poll("all of it to be told", func() bool {
			return len(noted()) == objects+1 && d.Metric(`informd_handler_in_flight{handler="diary"}`) == "0"
		})
		for name, n := range noted() {
			if n != 1 {
				t.Errorf("%s: told %d times", name, n)
			}
		}
		entries := readDiary(t, dir)
		i := slices.IndexFunc(entries, func(e diaryEntry) bool { return e.Name == "red" })
		if related := entries[i].Related; len(related) != objects || !slices.IsSorted(related) || related[0] != "o-000" {
			t.Errorf("%d objects are related: %q", len(related), related)
		}
		t.Logf("%d changes, written %d times, of a handler that was started %d times", objects+1, len(entries), s.Restarts("diary")+1)
		if letters := d.Metric("informd_dead_letters"); letters != "0" {
			t.Errorf("%s dead letters", letters)
		}
		d.Stop()
	})
}
