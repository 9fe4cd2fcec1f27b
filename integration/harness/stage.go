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
)

// Install puts the player at a path, in place of what is there: another file, as a package manager
// does it. mark, a version and perhaps a vice, is appended to it.
func Install(t testing.TB, path, mark string) {
	t.Helper()
	content, err := os.ReadFile(player(t))
	if err != nil {
		t.Fatal(err)
	}
	if mark != "" {
		content = append(content, "\nplayer "+mark...)
	}
	if err := os.WriteFile(path+".new", content, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path+".new", 0o755); err != nil { // whatever the umask: others are to execute it, too
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Stage is a daemon with a handler, steady, that is told of every change of widgets, which change
// all the time; beside it, what a test has play there.
type Stage struct {
	*Daemon
	Informd    string // the executable
	Stub       *apistub.Server
	Kubeconfig string
	first      int64  // resourceVersion, of widget 0
	Dir        string // has the executable of all players, and what they write
	Where      string // what steady's spec says of where it is
	Run        string // has the handlers' sockets
	Temp       string // and their temporary files
	State      string
	change     chan struct{} // ended when it is closed
	played     sync.WaitGroup

	Sent []sending // complete when played is done
}

// sending is some updates at once.
type sending struct {
	Version int64
	n       int
	at      time.Time
}

// SteadySpec is the spec of the handler steady. Its events are late after so long, and then come
// again.
const SteadySpec = "concurrency: 32, timeout: 30s, retry: {backoff: 1s}"

// SetStage runs a daemon with more manifests beside steady's, in which DIR stands for the stage's
// dir.
func SetStage(t *testing.T, manifests string, environment ...string) *Stage {
	t.Helper()
	s := NewStage(t, manifests)
	s.Open(t, nil, environment...)
	return s
}

// NewStage is all but the daemon.
func NewStage(t *testing.T, manifests string) *Stage {
	t.Helper()
	s := &Stage{Informd: Binary, Where: "command: [./player, steady, ./ledger]", Dir: ShortDir(t), Run: ShortDir(t), Temp: ShortDir(t), State: ShortDir(t)}
	for _, dir := range []string{s.Dir, s.Run, s.Temp} {
		if err := os.Chmod(dir, 0o755); err != nil { // for handlers of another user
			t.Fatal(err)
		}
	}
	s.Stub, s.Kubeconfig = NewStub(t)
	s.first = s.Stub.Synthesize(WidgetResource, "Widget", true, Widgets{})
	Install(t, filepath.Join(s.Dir, "player"), "v0")
	s.Write(t, SteadySpec, manifests)
	return s
}

// Open runs the daemon, with attributes if they are not nil.
func (s *Stage) Open(t *testing.T, attributes *syscall.SysProcAttr, environment ...string) {
	t.Helper()
	cmd := exec.Command(s.Informd, "run", "-f", s.Rules(), "--kubeconfig", s.Kubeconfig, "--state-dir", s.State)
	cmd.SysProcAttr = attributes
	s.Daemon = StartDaemon(t, cmd, append(environment, "XDG_RUNTIME_DIR="+s.Run, "TMPDIR="+s.Temp)...)
	s.AwaitReady()
}

func (s *Stage) Rules() string { return filepath.Join(s.Dir, "rules.yaml") }

// Write writes the manifests, with steady's spec beside its command.
func (s *Stage) Write(t *testing.T, steady, manifests string) {
	t.Helper()
	text := Source("widgets", "resource: informd.test/v1/widgets") +
		Handler("steady", s.Where+", "+steady) +
		Rule("steady", "source: widgets, handler: steady, delivery: every") + manifests
	if err := os.WriteFile(s.Rules(), []byte(strings.ReplaceAll(text, "DIR", s.Dir)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Victims are manifests of handlers with a vice each, which they give in to while there is a file
// tempting, and of a rule each that tells them of widgets.
func Victims(vices ...string) string {
	var b strings.Builder
	for _, vice := range vices {
		b.WriteString(Handler(vice, "command: [./player, victim, "+vice+", ./tempting], concurrency: 2, timeout: 1m, retry: {backoff: 10ms, maxBackoff: 100ms}") +
			Rule(vice, "source: widgets, handler: "+vice))
	}
	return b.String()
}

// Tempt has victims give in to their vices, or not any more.
func (s *Stage) Tempt(on bool) {
	s.T.Helper()
	path := filepath.Join(s.Dir, "tempting")
	if on {
		Touch(s.T, s.Dir, "tempting")
	} else if err := os.Remove(path); err != nil {
		s.T.Fatal(err)
	}
}

// Play has widgets change at a rate per second, in twenty bursts a second, until rest.
func (s *Stage) Play(rate int) {
	s.change = make(chan struct{})
	s.played.Go(func() {
		const bursts = 20
		tick := time.NewTicker(time.Second / bursts)
		defer tick.Stop()
		for {
			at := time.Now()
			s.Sent = append(s.Sent, sending{s.Stub.Update(WidgetResource, rate/bursts), rate / bursts, at})
			select {
			case <-tick.C:
			case <-s.change:
				return
			}
		}
	})
}

// Rest ends the changes, and waits until steady has been told of all.
func (s *Stage) Rest() {
	s.T.Helper()
	close(s.change)
	s.played.Wait()
	s.Poll("steady to be told of everything", func() bool {
		return s.Waiting("steady") == 0 && s.Metric(`informd_source_pending{source="widgets"}`) == "0" &&
			s.Metric(`informd_handler_in_flight{handler="steady"}`) == "0"
	})
}

// entry is a line of steady's ledger.
type entry struct {
	Name    string
	Version int64
	attempt int
	Player  string // its version
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

// Changes are the versions of each widget, in order.
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

// WantSteady checks that steady was told of every change of every widget, once, at the first
// attempt, in order.
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
				s.T.Errorf("steady: %s came %d times, want %d; they are the same up to number %d: then %d, want %d", name, len(got[name]), len(versions), n,
					got[name][n:min(n+3, len(got[name]))], versions[n:min(n+3, len(versions))])
			}
		}
	}
	if wrong > 5 || again > 5 {
		s.T.Errorf("%d widgets are wrong, %d events came more than once", wrong, again)
	}
	return entries
}

// Took is how long the updates of a time took from being made to being told, sorted.
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

// Summary of durations that are sorted.
func Summary(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("of %d: median %v, p99 %v, most %v", len(all), at(0.5), at(0.99), at(1))
}

// Restarts of a handler.
func (s *Stage) Restarts(handler string) int {
	n, _ := strconv.Atoi(s.Metric(fmt.Sprintf("informd_handler_restarts_total{handler=%q}", handler))) // none: not started yet
	return n
}

// AwaitRunning waits until these handlers take events.
func (s *Stage) AwaitRunning(handlers ...string) {
	s.T.Helper()
	for _, handler := range handlers {
		s.Poll(handler+" to run", func() bool { return s.Metric(fmt.Sprintf("informd_handler_ready{handler=%q}", handler)) == "1" })
	}
}

// Playing are the processes that play this part, with these arguments.
func (s *Stage) Playing(part ...string) []int {
	return processes(func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		return err == nil && len(args) > len(part) && strings.HasPrefix(args[0], s.Dir+"/") && slices.Equal(args[1:1+len(part)], part)
	})
}

// holdings are what a daemon holds at one moment.
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
		goroutines: goroutines, descriptors: list(fmt.Sprintf("/proc/%d/fd", pid)), processes: len(Descendants(pid)),
		sockets: len(sockets), temporary: list(s.Temp), resident: resident,
	}
}

// holdingsMore is how much more may be resident than before: what Go keeps of a heap that was
// larger for a while.
var holdingsMore = map[bool]int64{false: 64 << 20, true: 256 << 20}[RaceEnabled]

// WantHoldings waits until the daemon holds no more than at a time before. A few goroutines and
// descriptors are those of whoever asks.
func (s *Stage) WantHoldings(before holdings, what string) {
	s.T.Helper()
	const few = 8
	var now holdings
	s.pollOr(30*time.Second, func() {
		s.T.Errorf("%s: the daemon holds %+v, before it held %+v", what, now, before)
	}, func() bool {
		now = s.Holdings()
		return now.goroutines <= before.goroutines+few && now.descriptors <= before.descriptors+few &&
			now.processes == before.processes && now.sockets == before.sockets && now.temporary == before.temporary &&
			now.resident <= before.resident+holdingsMore
	})
	s.T.Logf("%s: before %+v, after %+v", what, before, now)
}

// pollOr does what pollFor does, and goes on otherwise if it was in vain.
func (s *Stage) pollOr(patience time.Duration, otherwise func(), met func() bool) {
	s.T.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			otherwise()
			return
		}
	}
}

func (s *Stage) Reload(handler string) (code int, stdout, stderr string) {
	s.T.Helper()
	return RunCommand(s.T, s.Informd, "handler", "reload", handler, "--state-dir", s.State)
}
