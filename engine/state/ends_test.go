package state

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// endInStore ends the process while it opens or compacts a store.
func endInStore(dir, how string) {
	disk := Options{}.withDefaults().disk
	countCrashes(disk, dir)
	risk(disk, filepath.Join(dir, storeName), compactingName)
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
			for n := range maxEnds {
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

// What counts is a crash of the goroutine that crashed, in the store.
func TestCrashesInTheStore(t *testing.T) {
	const pebble = "goroutine 9 [running]:\ngithub.com/cockroachdb/pebble/v2.(*DB).compact1(...)\n\t/x.go:1\n"
	const engine = "goroutine 8 [running]:\ngithub.com/informd/informd/engine.(*intake).take(...)\n\t/x.go:1\n"
	for text, want := range map[string]bool{
		"":                                       false,
		"panic: index out of range\n\n" + pebble: true,
		"panic: index out of range\n\n" + pebble + "\n" + engine:                                              true,
		"panic: index out of range\n\n" + engine + "\n" + pebble:                                              false,
		"fatal error: runtime: out of memory\n\nruntime stack:\n\n" + pebble:                                  false,
		"fatal error: runtime: cannot allocate memory\n\n" + pebble:                                           false,
		"unexpected fault address 0x1\nfatal error: fault\n\n" + pebble:                                       true,
		"panic: with GOTRACEBACK=none\n":                                                                      true,
		"panic: x\n\ngoroutine 1 [running]:\ngithub.com/informd/informd/engine/state.(*writer).set(...)\n":    true,
		"panic: x\n\ngoroutine 1 [running]:\ngithub.com/informd/informd/engine/state/records.ReadRule(...)\n": true,
	} {
		if got := isCrashInStore(text); got != want {
			t.Errorf("%v, want %v: %s", got, want, text)
		}
	}
}
