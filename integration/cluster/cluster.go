// Package cluster gives tests a real Kubernetes control plane: integration/controlplane as a child
// process.
//
// A package whose tests share one starts it on first use and stops it at the end:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		client := kubernetes.NewForConfigOrDie(cluster.Shared(t).RESTConfig())
//		…
//	}
//
// A test that stops, kills or restarts its control plane takes one of its own with New. Either way
// nothing is left behind: the process dies with the test binary, however that ends, and the data is
// in a temporary folder.
//
// The documentation of controlplane says what is missing in a cluster without controllers. The
// binary is the one that $INFORMD_CONTROLPLANE names, or bin/controlplane of this repository. This
// package never builds it, because that takes minutes.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startLimit = 2 * time.Minute  // for a busy machine; a few seconds are usual
	stopLimit  = 30 * time.Second // controlplane itself gives up after five
)

// Cluster is a control plane and the folder that it lives in. Methods that start or stop it must
// not overlap.
type Cluster struct {
	dir     string
	process *process // the latest; it may have ended
	config  *rest.Config
}

// Start runs a control plane in dir, which may hold the data of an earlier one, and returns when it
// is ready. ctx bounds the start only. The caller stops the control plane and owns dir. The path
// must be short, because a socket goes into it.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Dir returns the folder with the control plane's data.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig returns the path of an administrator's kubeconfig. A restart changes neither the file
// nor the address.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// LimitedKubeconfig returns the path of a kubeconfig for the user "limited", who may do only what a
// test allows by RBAC.
func (c *Cluster) LimitedKubeconfig() string { return filepath.Join(c.dir, "kubeconfig-limited") }

// RESTConfig returns the administrator's configuration, without a rate limit. The caller may change
// it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Stop ends the control plane as an operator would, which takes some two seconds. It does nothing
// after a Stop or Kill, and returns an error if the control plane has ended by itself.
func (c *Cluster) Stop() error {
	if c.process.ended() {
		if c.process.asked {
			return nil
		}
		return fmt.Errorf("the control plane has ended by itself: %w%s",
			c.process.exit(), c.report())
	}
	c.process.signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopLimit)
	defer timeout.Stop()
	select {
	case <-c.process.done:
		if c.process.err != nil {
			return fmt.Errorf("stop the control plane: %w%s", c.process.err, c.report())
		}
		return nil
	case <-timeout.C:
		c.Kill()
		return fmt.Errorf("stop the control plane: still there %v after SIGTERM%s",
			stopLimit, c.report())
	}
}

// Kill ends the control plane as a crash would.
func (c *Cluster) Kill() {
	c.process.signal(syscall.SIGKILL)
	<-c.process.done
}

// Restart starts the same cluster again, after a Stop if it is still running.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Stop(); err != nil {
		return err
	}
	return c.start(ctx)
}

func (c *Cluster) start(ctx context.Context) error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if c.process, err = launch(binary, "--dir", c.dir); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	select {
	case <-c.process.ready:
	case <-c.process.done:
		return fmt.Errorf("start the control plane: ended before it was ready: %w%s",
			c.process.exit(), c.report())
	case <-ctx.Done():
		c.Kill()
		return fmt.Errorf("start the control plane: not ready: %w%s", ctx.Err(), c.report())
	}
	c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		c.Kill()
		return err
	}
	c.config.QPS = -1
	return nil
}

// report returns the standard error and the end of the log, for an error message. The process must
// have ended.
func (c *Cluster) report() string {
	var log tail
	if content, err := os.ReadFile(filepath.Join(c.dir, "controlplane.log")); err == nil {
		log.Write(content)
	}
	return fmt.Sprintf("\n--- its standard error:\n%s\n--- the end of its log:\n%s",
		c.process.stderr.kept, log.kept)
}

// findBinary finds the binary as the package comment describes.
func findBinary() (string, error) {
	binary := os.Getenv("INFORMD_CONTROLPLANE")
	if binary == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		binary = filepath.Join(root, "bin", "controlplane")
	}
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("no control plane to test with: %w: run \"make controlplane\"", err)
	}
	return binary, nil
}

// moduleRoot returns the nearest folder with a go.mod, from the working directory up. A test's
// working directory is its package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New(
				"no go.mod above the working directory: set $INFORMD_CONTROLPLANE")
		}
		dir = parent
	}
}
