// Command demo shows informd's main job with nothing else at hand: it starts a control plane,
// starts informd on examples/rules and examples/actions, makes changes in the cluster and prints
// the deliveries as they come, and what informd makes of the changes itself. `make demo` builds
// what it needs and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/informd/informd/integration/cluster"
)

// patience is how long the demo waits for a delivery before it gives up and fails.
const patience = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "informd-demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	webhook, err := listenForWebhooks() // first, since its port may be taken
	if err != nil {
		return err
	}
	defer webhook.close()

	say("starting a control plane: kube-apiserver and etcd, in one process")
	plane, err := cluster.Start(ctx, filepath.Join(dir, "controlplane"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()

	say("starting informd: bin/informd run -f examples/rules -f examples/actions")
	d, err := startInformd(plane.Kubeconfig(), filepath.Join(dir, "state"), webhook.deliveries)
	if err != nil {
		return err
	}
	defer d.kill()
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	say("ready: every source has caught up with the server, " +
		"or waits for a resource that is not served yet")

	c, err := newChanger(plane.RESTConfig())
	if err != nil {
		return err
	}
	steps := newSteps(c)
	for _, step := range steps {
		say(step.does)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.does, err)
		}
		for _, rule := range step.reaches {
			if err := d.awaitDelivery(ctx, rule); err != nil {
				return err
			}
		}
		for _, object := range step.makes {
			if err := c.await(ctx, object); err != nil {
				return err
			}
		}
	}

	say("stopping informd: SIGTERM")
	if err := d.stop(); err != nil {
		return err
	}
	say(fmt.Sprintf("done: %d deliveries from %d changes; informd ended cleanly",
		d.delivered, len(steps)))
	return nil
}

func say(what string) { fmt.Printf("\n── %s\n", what) }
