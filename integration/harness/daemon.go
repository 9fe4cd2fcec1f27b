// Package harness runs the built informd for tests, which look at it from outside: its command
// line, its handlers, its signals. It gives them an API server: a real one, or a stub.
package harness

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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Daemon is a running `informd run`. Events are what its log handlers wrote to its standard output.
type Daemon struct {
	T       testing.TB
	Cmd     *exec.Cmd
	address string // of --listen
	Ended   chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an event or a log line came
	Events  []handler.Event
	Lines   []string // as they came
	Log     bytes.Buffer
}

// RunInformd starts the daemon on manifests, a file or folder or YAML text, and stops it at the end
// of the test at the latest.
func RunInformd(t testing.TB, kubeconfig, manifests string, args ...string) *Daemon {
	t.Helper()
	return RunInformdIn(t, nil, kubeconfig, manifests, args...)
}

// RunInformdIn adds to the daemon's environment. Each daemon has state of its own, unless args or
// environment say otherwise: by default all of one user would share one per cluster, and it is
// locked.
func RunInformdIn(t testing.TB, environment []string, kubeconfig, manifests string, args ...string) *Daemon {
	t.Helper()
	if strings.Contains(manifests, "\n") {
		manifests = WriteFile(t, "rules.yaml", manifests)
	}
	return StartDaemon(t, exec.Command(Binary, append([]string{"run", "-f", manifests, "--kubeconfig", kubeconfig, "--log-level", "debug"},
		args...)...), environment...)
}

// StartDaemon runs cmd, which is `informd run …`, with more in its environment and an address to
// listen on.
func StartDaemon(t testing.TB, cmd *exec.Cmd, environment ...string) *Daemon {
	t.Helper()
	d := &Daemon{T: t, Cmd: cmd, address: FreeAddress(t), Ended: make(chan struct{}), changed: make(chan struct{})}
	cmd.Args = append(cmd.Args, "--listen", d.address)
	cmd.Env = append(append(os.Environ(), "GORACE=halt_on_error=1", "XDG_STATE_HOME="+ShortDir(t)), environment...)
	stdout, err := d.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := d.Cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { d.readEvents(stdout) })
	readers.Go(func() { d.readLog(stderr) })
	go func() {
		readers.Wait()
		_ = d.Cmd.Wait() // the tests look at the exit code
		close(d.Ended)
	}()
	t.Cleanup(func() {
		_ = d.Cmd.Process.Kill()
		<-d.Ended
		if t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			log := d.Log.Bytes()
			t.Logf("informd's log, the last of it:\n%s", log[max(0, len(log)-20_000):])
		}
	})
	return d
}

func (d *Daemon) readEvents(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var ev handler.Event
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				d.T.Errorf("standard output has a line that is no event: %.200q: %v", line, err)
			}
			d.note(func() {
				d.Lines = append(d.Lines, strings.TrimSuffix(line, "\n"))
				d.Events = append(d.Events, ev)
			})
		}
		if err != nil {
			return
		}
	}
}

func (d *Daemon) readLog(r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		d.note(func() { d.Log.Write(buf[:n]) })
		if err != nil {
			return
		}
	}
}

func (d *Daemon) note(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Await waits until enough says so of the events up to now, and returns them.
func (d *Daemon) Await(what string, enough func([]handler.Event) bool) []handler.Event {
	d.T.Helper()
	var events []handler.Event
	d.Until(what, func() bool {
		events = d.Events[:len(d.Events):len(d.Events)]
		return enough(events)
	})
	return events
}

// AwaitLog waits for a text in the daemon's log.
func (d *Daemon) AwaitLog(text string) {
	d.T.Helper()
	d.Until("in the log: "+text, func() bool { return bytes.Contains(d.Log.Bytes(), []byte(text)) })
}

func (d *Daemon) Until(what string, met func() bool) {
	d.T.Helper()
	deadline := time.After(Patience)
	for {
		d.mu.Lock()
		done, changed, count := met(), d.changed, len(d.Events)
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-d.Ended:
			d.T.Fatalf("informd has ended, waiting for %s; %d events came", what, count)
		case <-deadline:
			d.T.Fatalf("not within %v: %s; %d events came", Patience, what, count)
		}
	}
}

// Logged is the log up to now.
func (d *Daemon) Logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Log.String()
}

// AwaitReady waits for /readyz.
func (d *Daemon) AwaitReady() {
	d.T.Helper()
	d.Poll("/readyz to be ok", func() bool {
		code, _ := d.Get("/readyz")
		return code == http.StatusOK
	})
}

// Poll is for what can only be asked for, again and again.
func (d *Daemon) Poll(what string, met func() bool) {
	d.T.Helper()
	d.PollFor(Patience, what, met)
}

// PollFor is for what takes longer, since there is so much of it.
func (d *Daemon) PollFor(patience time.Duration, what string, met func() bool) {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !met() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-d.Ended:
			d.T.Fatalf("informd has ended, waiting for %s", what)
		case <-ctx.Done():
			d.T.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (d *Daemon) Get(path string) (code int, body string) {
	resp, err := http.Get("http://" + d.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// Metric is the value of one series, as it is written: `informd_rule_matches_total{rule="pods"}`.
func (d *Daemon) Metric(series string) string {
	_, body := d.Get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

// Stop ends the daemon as an operator does, and checks that it ends cleanly.
func (d *Daemon) Stop() {
	d.T.Helper()
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.T.Fatal(err)
	}
	if code := d.ExitCode(); code != 0 {
		d.T.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// Kill ends the daemon as a crash would.
func (d *Daemon) Kill() {
	d.T.Helper()
	if err := d.Cmd.Process.Kill(); err != nil {
		d.T.Fatalf("the daemon has ended by itself: %v", err)
	}
	<-d.Ended
}

// AwaitDelivered waits until nothing waits any more.
func (d *Daemon) AwaitDelivered() {
	d.T.Helper()
	waits := regexp.MustCompile(`(?m)^informd_(source_pending|handler_in_flight|rule_queue_depth|rule_queue_away)\{.*\} [^0]`)
	d.Poll("all to be delivered", func() bool {
		code, body := d.Get("/metrics")
		return code == http.StatusOK && !waits.MatchString(body)
	})
}

// AwaitWritten waits until everything is evaluated and answered that is with rules and handlers,
// and on disk.
func (d *Daemon) AwaitWritten() {
	d.T.Helper()
	busy := regexp.MustCompile(`(?m)^informd_(source_pending|handler_in_flight)\{.*\} [^0]`)
	d.Poll("everything to be on disk", func() bool {
		_, body := d.Get("/metrics")
		return !busy.MatchString(body) && strings.Contains(body, "\ninformd_state_unwritten_records 0\n")
	})
}

func (d *Daemon) ExitCode() int {
	d.T.Helper()
	select {
	case <-d.Ended:
		return d.Cmd.ProcessState.ExitCode()
	case <-time.After(Patience):
		d.T.Fatalf("informd does not end")
		return -1
	}
}

// Durability is what the daemon says of its state: in /readyz, which it does not make unready, and
// as a metric.
func (d *Daemon) Durability() (says string, durable bool) {
	d.T.Helper()
	code, body := d.Get("/readyz")
	if code != http.StatusOK {
		return "", false
	}
	for line := range strings.Lines(body) {
		if _, text, found := strings.Cut(line, "state: "); found {
			says = strings.TrimSpace(text)
		}
	}
	return says, d.Metric("informd_state_durable") == "1"
}

// AwaitDurability waits until it says that it is durable, or that it is not.
func (d *Daemon) AwaitDurability(want bool) {
	d.T.Helper()
	d.Poll(fmt.Sprintf("durable to be %v", want), func() bool {
		says, durable := d.Durability()
		return durable == want && strings.HasPrefix(says, "NOT durable") == !want && says != ""
	})
}

// FindLine finds the first line of a log with all of the texts, a space behind it so that a name
// can be told from one that begins alike.
func FindLine(log string, texts ...string) (line string, found bool) {
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n") + " "
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return line, true
		}
	}
	return "", false
}

// Waiting is how many deliveries of a rule wait, in memory or on disk alone.
func (d *Daemon) Waiting(rule string) (n int) {
	for _, of := range []string{"depth", "away"} {
		count, err := strconv.Atoi(d.Metric(fmt.Sprintf("informd_rule_queue_%s{rule=%q}", of, rule)))
		if err != nil {
			return -1
		}
		n += count
	}
	return n
}

// Count tells how many lines of a log hold all of the texts.
func Count(log string, texts ...string) int {
	n := 0
	for line := range strings.Lines(log) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			n++
		}
	}
	return n
}
