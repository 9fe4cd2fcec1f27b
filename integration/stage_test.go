package integration

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

// player is the executable of integration/player. It is built once, without the race detector: what plays is not under test.
var player = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "player")
	if out, err := exec.Command("go", "build", "-o", path, "./player").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// install puts the player at a path, in place of what is there: another file, as a package manager does it. mark, a
// version and perhaps a vice, is appended to it.
func install(t testing.TB, path, mark string) {
	t.Helper()
	built, err := player()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(built)
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

// stage is a daemon with a handler, steady, that is told of every change of widgets, which change all the time; beside
// it, what a test has play there.
type stage struct {
	*daemon
	informd    string // the executable
	stub       *apistub.Server
	kubeconfig string
	first      int64  // resourceVersion, of widget 0
	dir        string // has the executable of all players, and what they write
	where      string // what steady's spec says of where it is
	run        string // has the handlers' sockets
	temp       string // and their temporary files
	state      string
	change     chan struct{} // ended when it is closed
	played     sync.WaitGroup

	sent []sending // complete when played is done
}

// sending is some updates at once.
type sending struct {
	version int64
	n       int
	at      time.Time
}

// steadySpec is the spec of the handler steady. Its events are late after so long, and then come again.
const steadySpec = "concurrency: 32, timeout: 5s, retry: {backoff: 1s}"

// setStage runs a daemon with more manifests beside steady's, in which DIR stands for the stage's dir.
func setStage(t *testing.T, manifests string, environment ...string) *stage {
	t.Helper()
	s := newStage(t, manifests)
	s.open(t, nil, environment...)
	return s
}

// newStage is all but the daemon.
func newStage(t *testing.T, manifests string) *stage {
	t.Helper()
	s := &stage{informd: binary, where: "command: [./player, steady, ./ledger]", dir: shortDir(t), run: shortDir(t), temp: shortDir(t), state: shortDir(t)}
	for _, dir := range []string{s.dir, s.run, s.temp} {
		if err := os.Chmod(dir, 0o755); err != nil { // for handlers of another user
			t.Fatal(err)
		}
	}
	s.stub, s.kubeconfig = newStub(t)
	s.first = s.stub.Synthesize(stubWidgets, "Widget", true, widgets{})
	install(t, filepath.Join(s.dir, "player"), "v0")
	s.write(t, steadySpec, manifests)
	return s
}

// open runs the daemon, with attributes if they are not nil.
func (s *stage) open(t *testing.T, attributes *syscall.SysProcAttr, environment ...string) {
	t.Helper()
	cmd := exec.Command(s.informd, "run", "-f", s.rules(), "--kubeconfig", s.kubeconfig, "--state-dir", s.state)
	cmd.SysProcAttr = attributes
	s.daemon = startDaemon(t, cmd, append(environment, "XDG_RUNTIME_DIR="+s.run, "TMPDIR="+s.temp)...)
	s.awaitReady()
}

func (s *stage) rules() string { return filepath.Join(s.dir, "rules.yaml") }

// write writes the manifests, with steady's spec beside its command.
func (s *stage) write(t *testing.T, steady, manifests string) {
	t.Helper()
	text := source("widgets", "resource: informd.test/v1/widgets") +
		toldBy("steady", s.where+", "+steady) +
		ruleFor("steady", "source: widgets, handler: steady, delivery: every") + manifests
	if err := os.WriteFile(s.rules(), []byte(strings.ReplaceAll(text, "DIR", s.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// victims are manifests of handlers with a vice each, which they give in to while there is a file tempting, and of a rule
// each that tells them of widgets.
func victims(vices ...string) string {
	var b strings.Builder
	for _, vice := range vices {
		b.WriteString(toldBy(vice, "command: [./player, victim, "+vice+", ./tempting], concurrency: 2, timeout: 1m, retry: {backoff: 10ms, maxBackoff: 100ms}") +
			ruleFor(vice, "source: widgets, handler: "+vice))
	}
	return b.String()
}

// tempt has victims give in to their vices, or not any more.
func (s *stage) tempt(on bool) {
	s.t.Helper()
	path := filepath.Join(s.dir, "tempting")
	if on {
		touch(s.t, s.dir, "tempting")
	} else if err := os.Remove(path); err != nil {
		s.t.Fatal(err)
	}
}

// play has widgets change at a rate per second, in twenty bursts a second, until rest.
func (s *stage) play(rate int) {
	s.change = make(chan struct{})
	s.played.Go(func() {
		const bursts = 20
		tick := time.NewTicker(time.Second / bursts)
		defer tick.Stop()
		for {
			at := time.Now()
			s.sent = append(s.sent, sending{s.stub.Update(stubWidgets, rate/bursts), rate / bursts, at})
			select {
			case <-tick.C:
			case <-s.change:
				return
			}
		}
	})
}

// rest ends the changes, and waits until steady has been told of all.
func (s *stage) rest() {
	s.t.Helper()
	close(s.change)
	s.played.Wait()
	s.poll("steady to be told of everything", func() bool {
		return s.waiting("steady") == 0 && s.metric(`informd_source_pending{source="widgets"}`) == "0" &&
			s.metric(`informd_handler_in_flight{handler="steady"}`) == "0"
	})
}

// entry is a line of steady's ledger.
type entry struct {
	name    string
	version int64
	attempt int
	player  string // its version
	pid     int
	at      time.Time
}

func (s *stage) ledger() []entry {
	s.t.Helper()
	var entries []entry
	for _, line := range linesOf(s.t, s.dir, "ledger") {
		f := strings.Fields(line)
		if len(f) != 6 {
			s.t.Fatalf("no line of a ledger: %q", line)
		}
		e := entry{name: f[0], player: f[3]}
		var nanos int64
		for _, number := range []struct {
			text string
			to   func(int64)
		}{
			{f[1], func(n int64) { e.version = n }}, {f[2], func(n int64) { e.attempt = int(n) }},
			{f[4], func(n int64) { e.pid = int(n) }}, {f[5], func(n int64) { nanos = n }},
		} {
			n, err := strconv.ParseInt(number.text, 10, 64)
			if err != nil {
				s.t.Fatalf("no line of a ledger: %q: %v", line, err)
			}
			number.to(n)
		}
		e.at = time.Unix(0, nanos)
		entries = append(entries, e)
	}
	return entries
}

// changes are the versions of each widget, in order.
func (s *stage) changes() map[string][]int64 {
	want := make(map[string][]int64, backlogObjects)
	for i := range backlogObjects {
		want[widgetName(i)] = []int64{s.first + int64(i)}
	}
	k := 0
	for _, sent := range s.sent {
		for n := range sent.n {
			i, _ := apistub.Turn(backlogObjects, k)
			want[widgetName(i)] = append(want[widgetName(i)], sent.version+int64(n))
			k++
		}
	}
	return want
}

// wantSteady checks that steady was told of every change of every widget, once, at the first attempt, in order.
func (s *stage) wantSteady() []entry {
	s.t.Helper()
	want := s.changes()
	got := make(map[string][]int64, len(want))
	again := 0
	entries := s.ledger()
	for _, e := range entries {
		got[e.name] = append(got[e.name], e.version)
		if e.attempt != 1 {
			if again++; again <= 5 {
				s.t.Errorf("%s %d came at attempt %d", e.name, e.version, e.attempt)
			}
		}
	}
	wrong := 0
	for name, versions := range want {
		if !slices.Equal(got[name], versions) {
			if wrong++; wrong <= 5 {
				n := same(got[name], versions)
				s.t.Errorf("steady: %s came %d times, want %d; they are the same up to number %d: then %d, want %d", name, len(got[name]), len(versions), n,
					got[name][n:min(n+3, len(got[name]))], versions[n:min(n+3, len(versions))])
			}
		}
	}
	if wrong > 5 || again > 5 {
		s.t.Errorf("%d widgets are wrong, %d events came more than once", wrong, again)
	}
	return entries
}

// took is how long the updates of a time took from being made to being told, sorted.
func (s *stage) took(entries []entry, from, to time.Time) []time.Duration {
	var all []time.Duration
	for _, e := range entries {
		i, found := slices.BinarySearchFunc(s.sent, e.version, func(s sending, version int64) int {
			switch {
			case s.version > version:
				return 1
			case s.version+int64(s.n) <= version:
				return -1
			}
			return 0
		})
		if found && s.sent[i].at.After(from) && s.sent[i].at.Before(to) {
			all = append(all, e.at.Sub(s.sent[i].at))
		}
	}
	slices.Sort(all)
	return all
}

// summary of durations that are sorted.
func summary(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("of %d: median %v, p99 %v, most %v", len(all), at(0.5), at(0.99), at(1))
}

// restarts of a handler.
func (s *stage) restarts(handler string) int {
	n, _ := strconv.Atoi(s.metric(fmt.Sprintf("informd_handler_restarts_total{handler=%q}", handler))) // none: not started yet
	return n
}

// awaitRunning waits until these handlers take events.
func (s *stage) awaitRunning(handlers ...string) {
	s.t.Helper()
	for _, handler := range handlers {
		s.poll(handler+" to run", func() bool { return s.metric(fmt.Sprintf("informd_handler_ready{handler=%q}", handler)) == "1" })
	}
}

// playing are the processes that play this part, with these arguments.
func (s *stage) playing(part ...string) []int {
	return processes(func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		return err == nil && len(args) > len(part) && strings.HasPrefix(args[0], s.dir+"/") && slices.Equal(args[1:1+len(part)], part)
	})
}

// holdings are what a daemon holds at one moment.
type holdings struct {
	goroutines, descriptors, processes, sockets, temporary int
	resident                                               int64
}

func (s *stage) holdings() holdings {
	s.t.Helper()
	pid := s.cmd.Process.Pid
	list := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		return len(entries)
	}
	goroutines, _ := strconv.Atoi(s.metric("go_goroutines"))
	sockets, err := filepath.Glob(filepath.Join(s.run, "*", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	resident, _ := memory(s.t, pid)
	return holdings{
		goroutines: goroutines, descriptors: list(fmt.Sprintf("/proc/%d/fd", pid)), processes: len(descendants(pid)),
		sockets: len(sockets), temporary: list(s.temp), resident: resident,
	}
}

// holdingsMore is how much more may be resident than before: what Go keeps of a heap that was larger for a while.
var holdingsMore = map[bool]int64{false: 64 << 20, true: 256 << 20}[raceEnabled]

// wantHoldings waits until the daemon holds no more than at a time before. A few goroutines and descriptors are those of
// whoever asks.
func (s *stage) wantHoldings(before holdings, what string) {
	s.t.Helper()
	const few = 8
	var now holdings
	s.pollOr(30*time.Second, func() {
		s.t.Errorf("%s: the daemon holds %+v, before it held %+v", what, now, before)
	}, func() bool {
		now = s.holdings()
		return now.goroutines <= before.goroutines+few && now.descriptors <= before.descriptors+few &&
			now.processes == before.processes && now.sockets == before.sockets && now.temporary == before.temporary &&
			now.resident <= before.resident+holdingsMore
	})
	s.t.Logf("%s: before %+v, after %+v", what, before, now)
}

// pollOr does what pollFor does, and goes on otherwise if it was in vain.
func (s *stage) pollOr(patience time.Duration, otherwise func(), met func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			otherwise()
			return
		}
	}
}
