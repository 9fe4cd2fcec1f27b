// Package integration tests the built informd from outside: its command line, its handlers, its signals, against a real
// API server.
package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// patience is how long a test waits for what must come. Nothing is measured by it.
const patience = 90 * time.Second

// binary is the informd under test, built with the race detector if the tests are.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case badHandlerCommand:
			serveBadHandler(os.Args[2])
			return
		case recorderCommand:
			serveRecorder(os.Args[2])
			return
		case librarianCommand:
			serveLibrarian(os.Args[2])
			return
		case puppetCommand:
			servePuppet(os.Args[2])
			return
		case gossipCommand:
			serve.Main(gossip{os.Args[2]})
			return
		}
	}
	dir, err := os.MkdirTemp("", "informd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "informd")
	if out, err := build(binary, "../cmd/informd"); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	code := cluster.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// plainInformd is informd without the race detector, which takes several times the memory and the time.
func plainInformd(t testing.TB) string {
	t.Helper()
	path, err := buildPlain()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildPlain = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "plain-informd")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/informd").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func build(to, pkg string) ([]byte, error) {
	args := []string{"build", "-o", to}
	if raceEnabled {
		args = append(args, "-race")
	}
	return exec.Command("go", append(args, pkg)...).CombinedOutput()
}

// daemon is a running `informd run`. Events are what its log handlers wrote to its standard output.
type daemon struct {
	t       testing.TB
	cmd     *exec.Cmd
	address string // of --listen
	ended   chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an event or a log line came
	events  []handler.Event
	lines   []string // as they came
	log     bytes.Buffer
}

// runInformd starts the daemon on manifests, a file or folder or YAML text, and stops it at the end of the test at the
// latest.
func runInformd(t testing.TB, kubeconfig, manifests string, args ...string) *daemon {
	t.Helper()
	return runInformdIn(t, nil, kubeconfig, manifests, args...)
}

// runInformdIn adds to the daemon's environment. Each daemon has state of its own, unless args or environment say
// otherwise: by default all of one user would share one per cluster, and it is locked.
func runInformdIn(t testing.TB, environment []string, kubeconfig, manifests string, args ...string) *daemon {
	t.Helper()
	if strings.Contains(manifests, "\n") {
		manifests = writeFile(t, "rules.yaml", manifests)
	}
	return startDaemon(t, exec.Command(binary, append([]string{"run", "-f", manifests, "--kubeconfig", kubeconfig, "--log-level", "debug"},
		args...)...), environment...)
}

// startDaemon runs cmd, which is `informd run …`, with more in its environment and an address to listen on.
func startDaemon(t testing.TB, cmd *exec.Cmd, environment ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: cmd, address: freeAddress(t), ended: make(chan struct{}), changed: make(chan struct{})}
	cmd.Args = append(cmd.Args, "--listen", d.address)
	cmd.Env = append(append(os.Environ(), "GORACE=halt_on_error=1", "XDG_STATE_HOME="+shortDir(t)), environment...)
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { d.readEvents(stdout) })
	readers.Go(func() { d.readLog(stderr) })
	go func() {
		readers.Wait()
		_ = d.cmd.Wait() // the tests look at the exit code
		close(d.ended)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.ended
		if t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			log := d.log.Bytes()
			t.Logf("informd's log, the last of it:\n%s", log[max(0, len(log)-20_000):])
		}
	})
	return d
}

func (d *daemon) readEvents(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var ev handler.Event
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				d.t.Errorf("standard output has a line that is no event: %.200q: %v", line, err)
			}
			d.note(func() {
				d.lines = append(d.lines, strings.TrimSuffix(line, "\n"))
				d.events = append(d.events, ev)
			})
		}
		if err != nil {
			return
		}
	}
}

func (d *daemon) readLog(r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		d.note(func() { d.log.Write(buf[:n]) })
		if err != nil {
			return
		}
	}
}

func (d *daemon) note(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// await waits until enough says so of the events up to now, and returns them.
func (d *daemon) await(what string, enough func([]handler.Event) bool) []handler.Event {
	d.t.Helper()
	var events []handler.Event
	d.until(what, func() bool {
		events = d.events[:len(d.events):len(d.events)]
		return enough(events)
	})
	return events
}

// awaitLog waits for a text in the daemon's log.
func (d *daemon) awaitLog(text string) {
	d.t.Helper()
	d.until("in the log: "+text, func() bool { return bytes.Contains(d.log.Bytes(), []byte(text)) })
}

func (d *daemon) until(what string, met func() bool) {
	d.t.Helper()
	deadline := time.After(patience)
	for {
		d.mu.Lock()
		done, changed, count := met(), d.changed, len(d.events)
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-d.ended:
			d.t.Fatalf("informd has ended, waiting for %s; %d events came", what, count)
		case <-deadline:
			d.t.Fatalf("not within %v: %s; %d events came", patience, what, count)
		}
	}
}

// logged is the log up to now.
func (d *daemon) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// awaitReady waits for /readyz.
func (d *daemon) awaitReady() {
	d.t.Helper()
	d.poll("/readyz to be ok", func() bool {
		code, _ := d.get("/readyz")
		return code == http.StatusOK
	})
}

// poll is for what can only be asked for, again and again.
func (d *daemon) poll(what string, met func() bool) {
	d.t.Helper()
	d.pollFor(patience, what, met)
}

// pollFor is for what takes longer, since there is so much of it.
func (d *daemon) pollFor(patience time.Duration, what string, met func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !met() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-d.ended:
			d.t.Fatalf("informd has ended, waiting for %s", what)
		case <-ctx.Done():
			d.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (d *daemon) get(path string) (code int, body string) {
	resp, err := http.Get("http://" + d.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// metric is the value of one series, as it is written: `informd_rule_matches_total{rule="pods"}`.
func (d *daemon) metric(series string) string {
	_, body := d.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

// stop ends the daemon as an operator does, and checks that it ends cleanly.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	if code := d.exitCode(); code != 0 {
		d.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatalf("the daemon has ended by itself: %v", err)
	}
	<-d.ended
}

// awaitDelivered waits until nothing waits any more.
func (d *daemon) awaitDelivered() {
	d.t.Helper()
	waits := regexp.MustCompile(`(?m)^informd_(source_pending|handler_in_flight|rule_queue_depth|rule_queue_away)\{.*\} [^0]`)
	d.poll("all to be delivered", func() bool {
		code, body := d.get("/metrics")
		return code == http.StatusOK && !waits.MatchString(body)
	})
}

// awaitWritten waits until everything is evaluated and answered that is with rules and handlers, and on disk.
func (d *daemon) awaitWritten() {
	d.t.Helper()
	busy := regexp.MustCompile(`(?m)^informd_(source_pending|handler_in_flight)\{.*\} [^0]`)
	d.poll("everything to be on disk", func() bool {
		_, body := d.get("/metrics")
		return !busy.MatchString(body) && strings.Contains(body, "\ninformd_state_unwritten_records 0\n")
	})
}

func (d *daemon) exitCode() int {
	d.t.Helper()
	select {
	case <-d.ended:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		d.t.Fatalf("informd does not end")
		return -1
	}
}
