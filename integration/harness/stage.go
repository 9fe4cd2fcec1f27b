package harness

import (
	"fmt"
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

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/internal/procfs"
)

// Install puts the player at a path and replaces the file there with another one, as a package
// manager does. It appends mark to the executable: a version, and perhaps a vice.
func Install(t testing.TB, path, mark string) {
	t.Helper()
	content, err := os.ReadFile(player(t))
	if err != nil {
		t.Fatal(err)
	}
	if mark != "" {
		content = append(content, "\nplayer "+mark...)
	}
	WriteProgram(t, path+".new", string(content), 0o700)
	// Another user must be able to execute it, whatever the umask.
	if err := os.Chmod(path+".new", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Stage is a daemon with a handler, steady, that gets every change of widgets from a stub of an API
// server. A test adds handlers of its own, which the player plays. Each of its fields is something
// that some test has to know or replace, hence their number.
type Stage struct {
	*Daemon
	Informd    string // path of the executable
	Stub       *apistub.Server
	Kubeconfig string
	first      int64  // resourceVersion of widget 0
	Dir        string // holds the players' executable and what they write
	Where      string // the part of steady's spec that says where it runs
	Run        string // holds the handlers' sockets
	Temp       string // holds the handlers' temporary files
	State      string
	change     chan struct{} // closed to end the changes
	played     sync.WaitGroup

	Sent []sending // complete once played is done
}

// sending is a burst of updates.
type sending struct {
	Version int64
	n       int
	at      time.Time
}

// SteadySpec is the spec of the handler steady.
const SteadySpec = "concurrency: 32, timeout: 30s, retry: {backoff: 1s}"

// SetStage makes a stage and runs its daemon. It adds manifests to steady's; DIR in them stands for
// the stage's Dir.
func SetStage(t *testing.T, manifests string, environment ...string) *Stage {
	t.Helper()
	s := NewStage(t, manifests)
	s.Open(t, nil, environment...)
	return s
}

// NewStage makes a stage without running its daemon.
func NewStage(t *testing.T, manifests string) *Stage {
	t.Helper()
	s := &Stage{
		Informd: Raced, Where: "command: [./player, steady, ./ledger]",
		Dir: ShortDir(t), Run: ShortDir(t), Temp: ShortDir(t), State: ShortDir(t),
	}
	for _, dir := range []string{s.Dir, s.Run, s.Temp} {
		if err := os.Chmod(dir, 0o755); err != nil { // so that handlers of another user can read it
			t.Fatal(err)
		}
	}
	s.Stub, s.Kubeconfig = NewStub(t)
	s.first = s.Stub.Synthesize(WidgetResource, "Widget", true, Widgets{})
	Install(t, filepath.Join(s.Dir, "player"), "v0")
	s.Write(t, SteadySpec, manifests)
	return s
}

// Open runs the daemon and waits until it is ready. attributes may be nil.
func (s *Stage) Open(t *testing.T, attributes *syscall.SysProcAttr, environment ...string) {
	t.Helper()
	cmd := exec.Command(s.Informd, "run", "-f", s.Rules(),
		"--kubeconfig", s.Kubeconfig, "--state-dir", s.State)
	cmd.SysProcAttr = attributes
	environment = append(environment, "XDG_RUNTIME_DIR="+s.Run, "TMPDIR="+s.Temp)
	s.Daemon = StartDaemon(t, cmd, environment...)
	s.AwaitReady()
}

func (s *Stage) Rules() string { return filepath.Join(s.Dir, "rules.yaml") }

// Write writes the manifests. steady is the rest of steady's spec, beside where it runs.
func (s *Stage) Write(t *testing.T, steady, manifests string) {
	t.Helper()
	text := Source("widgets", "resource: informd.test/v1/widgets") +
		Handler("steady", s.Where+", "+steady) +
		Rule("steady", "source: widgets, handler: steady, delivery: every") + manifests
	text = strings.ReplaceAll(text, "DIR", s.Dir)
	if err := os.WriteFile(s.Rules(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Victims returns manifests of handlers that each have a vice, and of a rule for each of them. A
// victim gives in to its vice as long as Tempt is on.
func Victims(vices ...string) string {
	var b strings.Builder
	for _, vice := range vices {
		b.WriteString(Handler(vice, "command: [./player, victim, "+vice+", ./tempting], "+
			"concurrency: 2, timeout: 1m, retry: {backoff: 10ms, maxBackoff: 100ms}"))
		b.WriteString(Rule(vice, "source: widgets, handler: "+vice))
	}
	return b.String()
}

// Tempt makes victims give in to their vices, or stops that.
func (s *Stage) Tempt(on bool) {
	s.T.Helper()
	path := filepath.Join(s.Dir, "tempting")
	if on {
		Touch(s.T, s.Dir, "tempting")
	} else if err := os.Remove(path); err != nil {
		s.T.Fatal(err)
	}
}

// Play makes changes of widgets, so many per second, in twenty bursts a second, until Rest.
func (s *Stage) Play(rate int) {
	s.change = make(chan struct{})
	s.played.Go(func() {
		const bursts = 20
		tick := time.NewTicker(time.Second / bursts)
		defer tick.Stop()
		for {
			at := time.Now()
			version := s.Stub.Update(WidgetResource, rate/bursts)
			s.Sent = append(s.Sent, sending{version, rate / bursts, at})
			select {
			case <-tick.C:
			case <-s.change:
				return
			}
		}
	})
}

// Rest ends the changes and waits until steady has acknowledged all of them.
func (s *Stage) Rest() {
	s.T.Helper()
	close(s.change)
	s.played.Wait()
	s.Poll("steady to be told of everything", func() bool {
		return s.Waiting("steady") == 0 &&
			s.Metric(`informd_source_pending{source="widgets"}`) == "0" &&
			s.Metric(`informd_handler_in_flight{handler="steady"}`) == "0"
	})
}

// entry is a line of steady's ledger.
type entry struct {
	Name    string
	Version int64
	attempt int
	Player  string // version of the player
	Pid     int
	at      time.Time
}

func (s *Stage) Ledger() []entry {
	s.T.Helper()
	var entries []entry
	for _, line := range LinesOf(s.T, s.Dir, "ledger") {
		f := strings.Fields(line)
		if len(f) != 6 {
			s.T.Fatalf("no line of a ledger: %q", line)
		}
		e := entry{Name: f[0], Player: f[3]}
		var nanos int64
		for _, number := range []struct {
			text string
			to   func(int64)
		}{
			{f[1], func(n int64) { e.Version = n }}, {f[2], func(n int64) { e.attempt = int(n) }},
			{f[4], func(n int64) { e.Pid = int(n) }}, {f[5], func(n int64) { nanos = n }},
		} {
			n, err := strconv.ParseInt(number.text, 10, 64)
			if err != nil {
				s.T.Fatalf("no line of a ledger: %q: %v", line, err)
			}
			number.to(n)
		}
		e.at = time.Unix(0, nanos)
		entries = append(entries, e)
	}
	return entries
}

// Changes returns the resourceVersions of each widget, in order. Play must have ended.
func (s *Stage) Changes() map[string][]int64 {
	want := make(map[string][]int64, WidgetCount)
	for i := range WidgetCount {
		want[WidgetName(i)] = []int64{s.first + int64(i)}
	}
	k := 0
	for _, sent := range s.Sent {
		for n := range sent.n {
			i, _ := apistub.Turn(WidgetCount, k)
			want[WidgetName(i)] = append(want[WidgetName(i)], sent.Version+int64(n))
			k++
		}
	}
	return want
}

// WantSteady checks that steady got every change of every widget once, at the first attempt and in
// order, and returns its ledger.
func (s *Stage) WantSteady() []entry {
	s.T.Helper()
	want := s.Changes()
	got := make(map[string][]int64, len(want))
	again := 0
	entries := s.Ledger()
	for _, e := range entries {
		got[e.Name] = append(got[e.Name], e.Version)
		if e.attempt != 1 {
			if again++; again <= 5 {
				s.T.Errorf("%s %d came at attempt %d", e.Name, e.Version, e.attempt)
			}
		}
	}
	wrong := 0
	for name, versions := range want {
		if !slices.Equal(got[name], versions) {
			if wrong++; wrong <= 5 {
				n := Same(got[name], versions)
				s.T.Errorf("steady: %s came %d times, want %d; "+
					"they are the same up to number %d: then %d, want %d",
					name, len(got[name]), len(versions), n,
					got[name][n:min(n+3, len(got[name]))], versions[n:min(n+3, len(versions))])
			}
		}
	}
	if wrong > 5 || again > 5 {
		s.T.Errorf("%d widgets are wrong, %d events came more than once", wrong, again)
	}
	return entries
}

// Took returns, sorted, how long the updates between two times took until steady got them.
func (s *Stage) Took(entries []entry, from, to time.Time) []time.Duration {
	var all []time.Duration
	for _, e := range entries {
		i, found := slices.BinarySearchFunc(s.Sent, e.Version, func(s sending, version int64) int {
			switch {
			case s.Version > version:
				return 1
			case s.Version+int64(s.n) <= version:
				return -1
			}
			return 0
		})
		if found && s.Sent[i].at.After(from) && s.Sent[i].at.Before(to) {
			all = append(all, e.at.Sub(s.Sent[i].at))
		}
	}
	slices.Sort(all)
	return all
}

// Summary describes durations that are sorted.
func Summary(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration {
		return all[int(q*float64(len(all)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("of %d: median %v, p99 %v, most %v", len(all), at(0.5), at(0.99), at(1))
}

// Restarts returns how often informd has restarted handlers, all together.
func (s *Stage) Restarts(handlers ...string) (sum int) {
	_, metrics := s.Get("/metrics")
	for _, handler := range handlers {
		series := fmt.Sprintf("informd_handler_restarts_total{handler=%q}", handler)
		n, _ := strconv.Atoi(valueIn(metrics, series)) // without the series, it has not started yet
		sum += n
	}
	return sum
}

// AwaitRunning waits until these handlers are ready for events.
func (s *Stage) AwaitRunning(handlers ...string) {
	s.T.Helper()
	for _, handler := range handlers {
		ready := fmt.Sprintf("informd_handler_ready{handler=%q}", handler)
		s.Poll(handler+" to run", func() bool { return s.Metric(ready) == "1" })
	}
}

// Playing returns the processes that play a part, given as the beginning of their arguments.
func (s *Stage) Playing(part ...string) []int {
	return alive(procfs.All(), func(p procfs.Process) bool {
		args := strings.Split(strings.TrimSuffix(string(arguments(p.PID)), "\x00"), "\x00")
		return len(args) > len(part) && strings.HasPrefix(args[0], s.Dir+"/") &&
			slices.Equal(args[1:1+len(part)], part)
	})
}

// holdings is what a daemon holds at one moment.
type holdings struct {
	goroutines, descriptors, processes, sockets, temporary int
	resident                                               int64
}

func (s *Stage) Holdings() holdings {
	s.T.Helper()
	pid := s.Cmd.Process.Pid
	list := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.T.Fatal(err)
		}
		return len(entries)
	}
	goroutines, _ := strconv.Atoi(s.Metric("go_goroutines"))
	sockets, err := filepath.Glob(filepath.Join(s.Run, "*", "*"))
	if err != nil {
		s.T.Fatal(err)
	}
	resident, _ := Memory(s.T, pid)
	return holdings{
		goroutines: goroutines, descriptors: list(fmt.Sprintf("/proc/%d/fd", pid)),
		processes: len(Descendants(pid)), sockets: len(sockets),
		temporary: list(s.Temp), resident: resident,
	}
}

// holdingsMore is by how much resident memory may grow: Go keeps some of a heap that was larger for
// a while.
var holdingsMore = map[bool]int64{false: 64 << 20, true: 256 << 20}[HasRace]

// WantHoldings waits until the daemon holds no more than before. It allows for a few goroutines and
// descriptors, which serve the questions of this test.
func (s *Stage) WantHoldings(before holdings, what string) {
	s.T.Helper()
	const few = 8
	var now holdings
	s.pollOr(30*time.Second, func() {
		s.T.Errorf("%s: the daemon holds %+v, before it held %+v", what, now, before)
	}, func() bool {
		now = s.Holdings()
		return now.goroutines <= before.goroutines+few &&
			now.descriptors <= before.descriptors+few &&
			now.processes == before.processes && now.sockets == before.sockets &&
			now.temporary == before.temporary &&
			now.resident <= before.resident+holdingsMore
	})
	s.T.Logf("%s: before %+v, after %+v", what, before, now)
}

// pollOr waits like PollFor, but calls otherwise after the patience and lets the test go on.
func (s *Stage) pollOr(patience time.Duration, otherwise func(), met func() bool) {
	s.T.Helper()
	for began := time.Now(); !met(); time.Sleep(pollPause(time.Since(began))) {
		if time.Since(began) > patience {
			otherwise()
			return
		}
	}
}

func (s *Stage) Reload(handler string) (code int, stdout, stderr string) {
	s.T.Helper()
	return RunCommand(s.T, Binary, "handler", "reload", handler, "--state-dir", s.State)
}
