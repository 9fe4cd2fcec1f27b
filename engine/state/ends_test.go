package state

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/informd/informd/engine/state/risk"
)

// endInStore ends the process while it opens or compacts a store.
func endInStore(dir, how string) {
	files := Options{}.withDefaults().disk
	risk.CountCrashes(files, dir, filepath.Join(dir, storeName))
	risk.Begin(files, filepath.Join(dir, storeName), risk.Compacting)
	if how == "crash" {
		go panic("on a goroutine of its own")
		select {}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// A store in which the process crashes ten times in a row is set aside. One that is killed ten times,
// as for want of memory, keeps its store.
func TestKilledProcessesKeepTheirStore(t *testing.T) {
	for _, c := range []struct {
		name  string
		how   []string
		aside bool
	}{
		{"killed", []string{"kill"}, false},
		{"crashed", []string{"crash"}, true},
		{"one in two crashed", []string{"crash", "kill"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := made(t)
			for n := range risk.MaxEnds {
				cmd := exec.Command(os.Args[0], "-test.run=^$")
				cmd.Env = append(os.Environ(), "STATE_TEST_END="+dir, "STATE_TEST_HOW="+c.how[n%len(c.how)])
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			s := open(t, dir, Options{CatchCrashes: true})
			defer closed(t, s)
			rules, err := s.Rules()
			if err != nil || (len(rules) == 0) != c.aside || (len(s.Status().SetAside) == 1) != c.aside {
				t.Errorf("rules %v, %v; set aside: %v", rules, err, s.Status().SetAside)
			}
		})
	}
}
