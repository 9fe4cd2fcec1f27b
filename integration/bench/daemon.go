package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/integration/address"
)

// concurrency is how many events a handler process gets at once, from informd and from the echo.
const concurrency = 32

// daemon is informd as its users run it. Its handlers are processes of this program.
type daemon struct {
	cmd      *exec.Cmd
	address  string // where its metrics are
	state    string // its state directory, or noState
	handlers []*asked
	conns    []net.Conn
	ended    chan struct{} // closed when the process has; err and log are complete then
	err      error
	log      bytes.Buffer
	stdout   *os.File // its standard output; nil: none

	listeners []*net.UnixListener // where handlers connect that have not come up yet
}

// setup says how to run a daemon.
type setup struct {
	handlers  int      // each gets all events
	resources []string // to watch; nil means all of the load's
	events    []string // kinds of events to deliver
	state     bool     // keep state in a directory
	handler   handlerConfig
	read      string // a source that the handlers may read, or ""
	more      string // further manifests
}

func (s setup) wants(e *entries) bool {
	return s.resources == nil || slices.Contains(s.resources, e.resource)
}

// launch is what an informd runs with. It can run with it again.
type launch struct {
	dir, kubeconfig, manifests, state string
	args                              []string // further ones
}

// startDaemon runs informd on the load, with one rule for each handler and each of the load's
// resources, and waits for the handlers.
func startDaemon(ctx context.Context, at site, l *load, s setup) (d *daemon, err error) {
	d = &daemon{ended: make(chan struct{})}
	how, err := d.prepare(at, l, s)
	if err == nil {
		err = d.launch(ctx, at, how)
	}
	if err != nil {
		return nil, errors.Join(err, d.closeListeners())
	}
	if err := d.meet(); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

// prepare makes what startDaemon runs informd with, and listens for its handlers.
func (d *daemon) prepare(at site, l *load, s setup) (how launch, err error) {
	if how.dir, err = os.MkdirTemp(at.dir, "d"); err != nil {
		return how, err
	}
	var b strings.Builder
	for _, e := range l.resources {
		for _, res := range resources {
			if res.gvr.Resource == e.resource && s.wants(e) {
				fmt.Fprintf(&b, "---\n{apiVersion: informd.dev/v1alpha1, kind: Source,"+
					" metadata: {name: %s}, spec: {resource: %s/%[1]s}}\n",
					e.resource, res.gvr.GroupVersion())
			}
		}
	}
	b.WriteString(s.more)
	if err := d.addHandlers(&b, at.self, how.dir, l, s); err != nil {
		return how, err
	}
	how.manifests, how.state = b.String(), noState
	if s.state {
		how.state = filepath.Join(how.dir, "state")
	}
	how.kubeconfig = filepath.Join(how.dir, "kubeconfig")
	return how, os.WriteFile(how.kubeconfig, fmt.Appendf(nil, `
{apiVersion: v1, kind: Config, current-context: load,
 contexts: [{name: load, context: {cluster: load, user: load}}],
 clusters: [{name: load, cluster: {server: %q}}], users: [{name: load}]}
`, l.url), 0o600)
}

func (d *daemon) launch(ctx context.Context, at site, how launch) error {
	return d.start(ctx, at, how.dir, how.kubeconfig, how.manifests, how.state, how.args...)
}

// noState is the value of --state-dir that keeps no state.
const noState = "none"

func (d *daemon) addHandlers(b *strings.Builder, self, dir string, l *load, s setup) error {
	for h := range s.handlers {
		socket := filepath.Join(dir, strconv.Itoa(h))
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			return err
		}
		d.listeners = append(d.listeners, listener)
		s.handler.Socket = socket
		access := ""
		if s.read != "" {
			access = ", access: {read: [" + s.read + "]}"
		}
		config, err := json.Marshal(s.handler)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "---\n{apiVersion: informd.dev/v1alpha1, kind: Handler,"+
			" metadata: {name: handler-%d},\n"+
			" spec: {command: [%q, handler], config: %s, concurrency: %d%s}}\n",
			h, self, config, concurrency, access)
		for _, e := range l.resources {
			if !s.wants(e) {
				continue
			}
			fmt.Fprintf(b, "---\n{apiVersion: informd.dev/v1alpha1, kind: Rule,"+
				" metadata: {name: %s-%d},\n"+
				" spec: {source: %[1]s, events: [%[3]s], delivery: every, handler: handler-%[2]d}}\n",
				e.resource, h, strings.Join(s.events, ", "))
		}
	}
	return nil
}

func (d *daemon) closeListeners() (err error) {
	for _, listener := range d.listeners {
		err = errors.Join(err, listener.Close())
	}
	d.listeners = nil
	return err
}

// start runs informd on manifests, with further arguments.
func (d *daemon) start(
	ctx context.Context, at site, dir, kubeconfig, manifests, state string, args ...string,
) error {
	d.state = state
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(manifests), 0o600); err != nil {
		return err
	}
	var err error
	if d.address, err = address.Next(); err != nil {
		return err
	}
	d.cmd = exec.CommandContext(ctx, at.informd, append([]string{
		"run", "-f", rules, "--kubeconfig", kubeconfig, "--listen", d.address, "--state-dir", state,
		"--log-level", "warn",
	}, args...)...)
	d.cmd.Stderr = &d.log
	if d.stdout != nil {
		d.cmd.Stdout = d.stdout
	}
	// The signal lets it end its handlers. A handler may outlive it and hold its log.
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	d.cmd.WaitDelay = 10 * time.Second
	if err := d.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(d.ended)
		d.err = d.cmd.Wait()
	}()
	return nil
}

// meet waits until the handlers connect, which they do when they get their config.
func (d *daemon) meet() error {
	for h, listener := range d.listeners {
		conn, err := accept(listener, d.ended)
		if err != nil {
			return fmt.Errorf("handler %d has not come up: %w", h, err)
		}
		d.conns = append(d.conns, conn)
		d.handlers = append(d.handlers, newAsked(fmt.Sprintf("handler %d", h), conn))
	}
	return d.closeListeners()
}

// accept waits for a connection, until patience is over or ended is closed.
func accept(l *net.UnixListener, ended <-chan struct{}) (net.Conn, error) {
	accepted := make(chan struct{})
	defer close(accepted)
	go func() {
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		select {
		case <-accepted:
			return
		case <-timeout.C:
		case <-ended:
		}
		_ = l.SetDeadline(time.Now()) // fails if it is closed, and then nobody waits
	}()
	return l.Accept()
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// begin does nothing, because informd begins by itself.
func (d *daemon) begin() error { return nil }

// seen returns what the slowest handler has seen.
func (d *daemon) seen() (least seen, err error) {
	for h, handler := range d.handlers {
		a, err := handler.ask(question{Ask: askSeen})
		if err != nil {
			return least, err
		}
		if s := a.Seen; h == 0 || s.Objects.N+s.Updates.N < least.Objects.N+least.Updates.N {
			least = s
		}
	}
	return least, nil
}

// ackPatience is how long the last answers of a handler may take to be counted.
const ackPatience = 10 * time.Second

// verify compares, for each handler, its own count of events with informd's count of
// acknowledgements. A handler has seen an event before informd counts the answer, so verify waits
// for the last ones.
func (d *daemon) verify(ctx context.Context, l *ledger, want due) error {
	for began := time.Now(); ; {
		missing, err := d.compare(ctx, l, want)
		if err != nil || missing == nil {
			return err
		}
		if time.Since(began) > ackPatience {
			return missing
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// compare returns in missing what is not acknowledged yet.
func (d *daemon) compare(ctx context.Context, l *ledger, want due) (missing, err error) {
	body, err := d.metrics(ctx)
	if err != nil {
		return nil, err
	}
	for h, handler := range d.handlers {
		a, err := handler.ask(question{Ask: askSeen})
		if err != nil {
			return nil, err
		}
		if _, err := a.Seen.meets(want); err != nil {
			return nil, fmt.Errorf("handler %d: %w", h, err)
		}
		all := a.Seen.Objects.N + a.Seen.Updates.N
		acknowledged := 0
		for _, e := range l.resources {
			acknowledged += metric(body, fmt.Sprintf(`informd_handler_deliveries_total`+
				`{handler="handler-%d",result="done",rule="%s-%[1]d"}`, h, e.resource))
		}
		if acknowledged != all {
			missing = fmt.Errorf("handler %d: saw %d events, of which %d are acknowledged",
				h, all, acknowledged)
		}
	}
	return missing, nil
}

// explain returns the metrics that may show why something is missing.
func (d *daemon) explain(ctx context.Context) string {
	body, err := d.metrics(ctx)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(body) {
		for _, series := range []string{
			"informd_rule_queue_", "informd_handler_", "informd_source_deltas_total",
			"informd_dead_letters",
		} {
			if strings.HasPrefix(line, series) && !strings.Contains(line, "_bucket{") {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

func (d *daemon) metrics(ctx context.Context) (body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// metric returns the value of a series, or 0 if there is none.
func metric(body, series string) int {
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			f, _ := strconv.ParseFloat(value, 64) // Prometheus writes numbers
			return int(f)
		}
	}
	return 0
}

func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(os.Interrupt) // it has ended if this fails, and err says how
	defer time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() }).Stop()
	<-d.ended
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	_ = d.closeListeners()
	if d.err != nil {
		return fmt.Errorf("informd: %w\n%s", d.err, d.log.Bytes())
	}
	return nil
}
