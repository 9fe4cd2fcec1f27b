// Package harness runs the built informd for tests, which look at it from outside: its command
// line, its handlers, its signals. It gives them an API server: a real one, or a stub.
package harness

import (
	"bufio"
	"bytes"
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

// Daemon is a running `informd run`.
//
// Its log handlers write events to its standard output, and it writes its log to standard error.
// Events, Lines and Log may be read under the lock that Until and Await hold, or once the daemon
// has ended.
type Daemon struct {
	T       testing.TB
	Cmd     *exec.Cmd
	address string // where it serves health and metrics
	Ended   chan struct{}

	mu sync.Mutex // guards all below
	// changed is closed and replaced when an event or a part of the log comes.
	changed chan struct{}
	Events  []handler.Event
	Lines   []string // the events as text
	Log     bytes.Buffer
}

// RunInformd starts a daemon on manifests: a file, a folder, or YAML text of several lines. The end
// of the test stops it if nothing else does.
func RunInformd(t testing.TB, kubeconfig, manifests string, args ...string) *Daemon {
	t.Helper()
	return RunInformdIn(t, nil, kubeconfig, manifests, args...)
}

// RunInformdIn is RunInformd with more variables in the daemon's environment. Every daemon gets a
// state directory of its own unless args or environment name one: otherwise all daemons of a user
// and a cluster would share one, and only one of them could use it.
func RunInformdIn(
	t testing.TB, environment []string, kubeconfig, manifests string, args ...string) *Daemon {
	t.Helper()
	if strings.Contains(manifests, "\n") {
		manifests = WriteFile(t, "rules.yaml", manifests)
	}
	args = append([]string{
		"run", "-f", manifests, "--kubeconfig", kubeconfig, "--log-level", "debug",
	}, args...)
	return StartDaemon(t, exec.Command(Raced, args...), environment...)
}

// StartDaemon runs cmd, which is `informd run …`. It adds an address to listen on, and variables
// to the environment.
func StartDaemon(t testing.TB, cmd *exec.Cmd, environment ...string) *Daemon {
	t.Helper()
	d := &Daemon{
		T: t, Cmd: cmd, address: FreeAddress(t),
		Ended: make(chan struct{}), changed: make(chan struct{}),
	}
	cmd.Args = append(cmd.Args, "--listen", d.address)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ShortDir(t))
	cmd.Env = append(cmd.Env, environment...)
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
		_ = d.Cmd.Wait() // ExitCode returns it
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

// Await waits until enough returns true for the events so far, and returns them.
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

// Logged returns the log so far.
func (d *Daemon) Logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Log.String()
}

// AwaitReady waits until /readyz says ok.
func (d *Daemon) AwaitReady() {
	d.T.Helper()
	d.Poll("/readyz to be ok", func() bool {
		code, _ := d.Get("/readyz")
		return code == http.StatusOK
	})
}

// Poll calls met again and again until it returns true.
func (d *Daemon) Poll(what string, met func() bool) {
	d.T.Helper()
	d.PollFor(Patience, what, met)
}

// PollFor is Poll with another patience, for large amounts.
func (d *Daemon) PollFor(patience time.Duration, what string, met func() bool) {
	d.T.Helper()
	began := time.Now()
	for !met() {
		waited := time.Since(began)
		if waited > patience {
			d.T.Fatalf("not within %v: %s", patience, what)
		}
		select {
		case <-time.After(pollPause(waited)):
		case <-d.Ended:
			d.T.Fatalf("informd has ended, waiting for %s", what)
		}
	}
}

// pollPause returns how long to wait for the next look at something, after a wait for it. The
// longer a test waits, the fewer looks it takes: they cost the processor time that it waits for.
func pollPause(waited time.Duration) time.Duration {
	return min(max(40*time.Millisecond, waited/8), 250*time.Millisecond)
}

// uncompressed spares the daemon the compression, which took most of the time of a look at /metrics.
var uncompressed = &http.Client{Transport: &http.Transport{DisableCompression: true}}

func (d *Daemon) Get(path string) (code int, body string) { return d.GetWithin(0, path) }

// GetWithin is Get for a daemon that may not answer. The code is 0 then.
func (d *Daemon) GetWithin(limit time.Duration, path string) (code int, body string) {
	client := *uncompressed
	client.Timeout = limit
	resp, err := client.Get("http://" + d.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// Metric returns the value of a series, written as in `informd_rule_matches_total{rule="pods"}`, or
// "".
func (d *Daemon) Metric(series string) string {
	_, body := d.Get("/metrics")
	return valueIn(body, series)
}

// valueIn returns the value of a series in the text of all metrics, or "".
func valueIn(metrics, series string) string {
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Stop ends the daemon as an operator does, and checks that its exit code is 0.
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

// AwaitDelivered waits until the daemon is ready and all deliveries are done. Before it is ready, it
// may not have restored what the run before has left.
func (d *Daemon) AwaitDelivered() {
	d.T.Helper()
	d.AwaitReady()
	waits := regexp.MustCompile(`(?m)^informd_` +
		`(source_pending|handler_in_flight|rule_queue_depth|rule_queue_away)\{.*\} [^0]`)
	d.Poll("all to be delivered", func() bool {
		code, body := d.Get("/metrics")
		return code == http.StatusOK && !waits.MatchString(body)
	})
}

// AwaitWritten waits until rules and handlers are done with what they have, and the disk has it.
func (d *Daemon) AwaitWritten() {
	d.T.Helper()
	busy := regexp.MustCompile(`(?m)^informd_(source_pending|handler_in_flight)\{.*\} [^0]`)
	d.Poll("everything to be on disk", func() bool {
		_, body := d.Get("/metrics")
		return !busy.MatchString(body) &&
			strings.Contains(body, "\ninformd_state_unwritten_records 0\n")
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

// Durability returns what /readyz and the metric say of the state directory. A state that is not
// durable does not make the daemon unready.
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

// AwaitDurability waits until the daemon reports its state as durable, or as not durable.
func (d *Daemon) AwaitDurability(want bool) {
	d.T.Helper()
	d.Poll(fmt.Sprintf("durable to be %v", want), func() bool {
		says, durable := d.Durability()
		return durable == want && strings.HasPrefix(says, "NOT durable") == !want && says != ""
	})
}

// FindLine returns the first line of a log that contains all texts. It adds a space to each line,
// so that a text with a space at its end matches a whole name only.
func FindLine(log string, texts ...string) (line string, found bool) {
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n") + " "
		isMissing := func(text string) bool { return !strings.Contains(line, text) }
		if !slices.ContainsFunc(texts, isMissing) {
			return line, true
		}
	}
	return "", false
}

// Waiting returns how many deliveries of a rule wait, in memory or on disk alone.
func (d *Daemon) Waiting(rule string) (n int) {
	_, metrics := d.Get("/metrics")
	for _, of := range []string{"depth", "away"} {
		series := fmt.Sprintf("informd_rule_queue_%s{rule=%q}", of, rule)
		count, err := strconv.Atoi(valueIn(metrics, series))
		if err != nil {
			return -1
		}
		n += count
	}
	return n
}

// Count returns how many lines of a log contain all texts.
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
