package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/integration/address"
	"github.com/informd/informd/plugins/handler"
)

// informd is the daemon and its deliveries.
type informd struct {
	cmd        *exec.Cmd
	address    string
	deliveries chan handler.Event // if its buffer is full, the log handler waits
	ended      chan struct{}
	delivered  int
	reached    map[string]bool
}

func startInformd(kubeconfig, stateDir string, deliveries chan handler.Event) (*informd, error) {
	listen, err := address.Next()
	if err != nil {
		return nil, err
	}
	d := &informd{
		address: listen, deliveries: deliveries,
		ended: make(chan struct{}), reached: make(map[string]bool),
	}
	d.cmd = exec.Command("bin/informd", "run", "-f", "examples/rules", "-f", "examples/actions",
		"--kubeconfig", kubeconfig, "--state-dir", stateDir,
		"--listen", listen, "--log-level", "warn")
	d.cmd.Stderr = os.Stderr
	// Ctrl-C reaches the demo, which stops it in order.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start informd: %w", err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { d.read(stdout) })
	go func() {
		reader.Wait()
		_ = d.cmd.Wait() // stop reads the exit code
		close(d.ended)
	}()
	return d, nil
}

func (d *informd) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var ev handler.Event
		if json.Unmarshal(line, &ev) == nil {
			d.deliveries <- ev
		}
	}
}

func (d *informd) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		resp, err := http.Get("http://" + d.address + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case ev := <-d.deliveries:
			d.show(ev)
		case <-d.ended:
			return errors.New("informd has ended")
		case <-ctx.Done():
			return fmt.Errorf("informd is not ready: %w", ctx.Err())
		}
	}
}

// awaitDelivery shows deliveries until the rule has one that no call has awaited before.
func (d *informd) awaitDelivery(ctx context.Context, rule string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !d.reached[rule] {
		select {
		case ev := <-d.deliveries:
			d.show(ev)
		case <-d.ended:
			return errors.New("informd has ended")
		case <-ctx.Done():
			return fmt.Errorf("nothing was delivered to rule %s: %w", rule, ctx.Err())
		}
	}
	delete(d.reached, rule)
	return nil
}

func (d *informd) show(ev handler.Event) {
	d.delivered++
	d.reached[ev.Rule] = true
	object := strings.TrimPrefix(ev.Namespace+"/"+ev.Name, "/")
	what := string(ev.Payload)
	if what == "" {
		what = fmt.Sprintf("(the whole object, %d bytes)", len(ev.Object))
	}
	fmt.Printf("   %-28s %-8s %-28s %s\n", ev.Rule, ev.Event, ev.Resource.Resource+" "+object, what)
}

// stop ends the daemon. It returns an error unless the exit code is 0.
func (d *informd) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	for {
		select {
		case ev := <-d.deliveries:
			d.show(ev)
		case <-d.ended:
			if code := d.cmd.ProcessState.ExitCode(); code != 0 {
				return fmt.Errorf("informd ended with exit code %d", code)
			}
			return nil
		case <-time.After(patience):
			return errors.New("informd does not end")
		}
	}
}

// kill kills the daemon after a failure. After stop it does nothing.
func (d *informd) kill() { _ = d.cmd.Process.Kill() }
