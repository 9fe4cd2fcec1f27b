package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the control plane of this test binary. Shared starts it at most once, because a second
// attempt would fail as slowly.
var shared struct {
	sync.Mutex
	dir     string // made by Main
	cluster *Cluster
	err     error
}

// Main runs a package's tests, stops the control plane of Shared, removes its data, and returns the
// exit code for TestMain.
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

// Shared returns the control plane that all tests of a package share. They must leave it running
// and must not disturb each other, best with a namespace each. TestMain must call Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir == "" {
		t.Fatal("cluster.Shared needs a TestMain that calls cluster.Main")
	}
	if shared.cluster == nil && shared.err == nil {
		// Without the test's context, because the control plane outlives the test.
		shared.cluster, shared.err = Start(context.Background(), shared.dir)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// ownAtOnce holds a value for each control plane that New has started. Tests that want more of them
// at once than its capacity wait, because a control plane that starts keeps a processor busy.
var ownAtOnce = make(chan struct{}, 2)

// New starts a control plane for one test, which may stop or break it. A test starts at most one.
func New(t testing.TB) *Cluster {
	t.Helper()
	ownAtOnce <- struct{}{}
	t.Cleanup(func() { <-ownAtOnce })
	// t.TempDir puts the test's name into the path, which is too long for a socket.
	dir, err := os.MkdirTemp("", "informd")
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
