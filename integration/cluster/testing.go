package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the control plane of this test binary. It is started at most once: a second attempt
// would fail as slowly.
var shared struct {
	sync.Mutex
	dir     string // made by Main
	cluster *Cluster
	err     error
}

// Main runs a package's tests, stops the control plane that Shared may have started, removes its
// data, and returns the exit code for TestMain.
func Main(m interface{ Run() int }) int {
	dir, err := os.MkdirTemp("", "informd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// Shared is the control plane that all tests of a package use. They must leave it running and keep
// out of each other's way, best by a namespace each. TestMain must call Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir == "" {
		t.Fatal("cluster.Shared needs a TestMain that calls cluster.Main")
	}
	if shared.cluster == nil && shared.err == nil {
		// Not the test's context: the control plane is to outlive the test.
		shared.cluster, shared.err = Start(context.Background(), shared.dir)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// New starts a control plane for one test, which may do with it as it likes.
func New(t testing.TB) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "informd") // t.TempDir puts the test's name into it: too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}
