package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serve runs the control plane in d until ctx ends, and then returns nil.
func serve(
	ctx context.Context, d *dir, port int, log, stdout io.Writer,
	note func(format string, args ...any)) error {
	ln, err := listen(d, port, note)
	if err != nil {
		return err
	}
	served := false // by the API server, which ends with a panic if somebody else closes it
	defer func() {
		if !served {
			ln.Close()
		}
	}()
	creds, err := loadCredentials(d)
	if err != nil {
		return err
	}
	if err := writeKubeconfigs(d, creds, portOf(ln)); err != nil {
		return err
	}

	etcd, err := startEtcd(d, log)
	if err != nil {
		return err
	}
	closeServers := etcd.Close
	defer func() { within(stopTimeout, closeServers) }()
	starting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return fmt.Errorf("start etcd: %w", err)
	case <-starting.Done():
		return ended(ctx, fmt.Errorf("etcd elected no leader in %v", readyTimeout))
	}

	runAPIServer, err := newAPIServer(ctx, d, creds, ln)
	if err != nil {
		return ended(ctx, fmt.Errorf("start kube-apiserver: %w", err))
	}
	served = true
	stopping, stop := context.WithCancel(ctx)
	exited := make(chan error, 1) // of one, so that a server that ends too late blocks nobody
	go func() { exited <- runAPIServer(stopping) }()
	closeServers = func() { // in this order: the API server still writes while it stops
		stop()
		<-exited
		etcd.Close()
	}

	ready := make(chan error, 1)
	go func() { ready <- waitReady(starting, d.path("kubeconfig")) }()
	for {
		select {
		case err := <-ready:
			if err != nil {
				return ended(ctx, err)
			}
			ready = nil
			fmt.Fprintln(stdout, "ready")
		case err := <-exited:
			exited <- err // closeServers waits for it
			return ended(ctx, fmt.Errorf("kube-apiserver ended: %w", orUnknown(err)))
		case err := <-etcd.Err():
			return fmt.Errorf("etcd ended: %w", orUnknown(err))
		case <-ctx.Done():
			return nil
		}
	}
}

// ended is nil if the user has ended the run: whatever then goes wrong is not a failure. Otherwise
// it is err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("no reason given")
	}
	return err
}

// within calls f and waits for it, but not for longer than limit.
func within(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// waitReady returns when the server is ready and the default namespace there, both asked for as a
// client will ask: through the kubeconfig.
func waitReady(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		for {
			problem := get(ctx, client, config.Host+path)
			if problem == nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("not ready after %v: %w", readyTimeout, problem)
			}
		}
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
