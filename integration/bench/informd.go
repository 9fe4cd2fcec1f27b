package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// manifests is what informd is to do with the ConfigMaps.
type manifests struct {
	rules   int
	noMatch bool   // by an expression of its own in each rule; otherwise everything matches
	path    string // the log handler's; "" is informd's standard output
}

func (m manifests) in(namespace string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: configmaps},
 spec: {resource: v1/configmaps, namespaces: [%s]}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: log},
 spec: {builtin: log, config: {`, namespace)
	if m.path != "" {
		fmt.Fprintf(&b, "path: %s", m.path)
	}
	fmt.Fprintln(&b, "}}}")
	for i := range m.rules {
		where := "true"
		if m.noMatch {
			where = fmt.Sprintf(`object.data.kind == "none-%d"`, i)
		}
		fmt.Fprintf(&b, `---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: rule-%d},
 spec: {source: configmaps, where: '%s', delivery: every, handler: log}}
`, i, where)
	}
	return b.String()
}

// informd is a running daemon.
type informd struct {
	cmd       *exec.Cmd
	address   string
	delivered bool         // what counts as seen is what the handler has acknowledged
	log       bytes.Buffer // complete after stop
}

// startInformd runs the daemon; stdout may be nil.
func startInformd(ctx context.Context, at site, namespace string, m manifests, stdout *os.File) (*informd, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &informd{address: l.Addr().String(), delivered: m.path != "" && !m.noMatch}
	if err := l.Close(); err != nil {
		return nil, err
	}
	file := filepath.Join(at.dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(m.in(namespace)), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.CommandContext(ctx, at.binary, "run", "-f", file, "--kubeconfig", at.kubeconfig,
		"--listen", d.address, "--log-level", "warn")
	d.cmd.Stderr = &d.log
	if stdout != nil {
		d.cmd.Stdout = stdout
	}
	d.cmd.WaitDelay = 10 * time.Second // should a handler outlive it with the log in its hands
	return d, d.cmd.Start()
}

func (d *informd) pid() int { return d.cmd.Process.Pid }

// seen counts what was handed to rules and, where that counts, acknowledged by the handler.
func (d *informd) seen(ctx context.Context) (objects, updates int, ok bool, err error) {
	if _, err := used(d.pid()); err != nil {
		return 0, 0, false, err
	}
	if body, err := d.get(ctx, "/readyz"); err != nil || !strings.HasSuffix(body, "\nready\n") {
		return 0, 0, false, nil // not listening yet, or not synced
	}
	body, err := d.get(ctx, "/metrics")
	objects = metric(body, `informd_source_deltas_total{event="synced",source="configmaps"}`)
	updates = metric(body, `informd_source_deltas_total{event="updated",source="configmaps"}`)
	if d.delivered {
		done := metric(body, doneSeries)
		objects, updates = min(objects, done), min(updates, max(0, done-objects))
	}
	return objects, updates, err == nil, err
}

const doneSeries = `informd_handler_deliveries_total{handler="log",result="done",rule="rule-0"}`

func (d *informd) get(ctx context.Context, path string) (body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+path, nil)
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

// metric is one series' value, and 0 for one that is not there.
func metric(body, series string) int {
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			f, _ := strconv.ParseFloat(value, 64) // what Prometheus writes is a number
			return int(f)
		}
	}
	return 0
}

func (d *informd) stop() error {
	_ = d.cmd.Process.Signal(os.Interrupt) // it has ended if this fails, and Wait says how
	defer time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() }).Stop()
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("informd: %w\n%s", err, d.log.Bytes())
	}
	return nil
}
