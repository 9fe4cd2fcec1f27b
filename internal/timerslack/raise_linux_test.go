package timerslack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child is set in the processes of this program that call Raise.
const child = "TIMERSLACK_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "parent":
		report()
		return
	}
	Raise()
	report()
	fmt.Println("again:", len(os.Args) > 1 && os.Args[1] == "one two")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), child+"=parent")
	out, err := cmd.Output()
	fmt.Print("child ", string(out))
	if err != nil {
		fmt.Println(err)
	}
}

// report prints the slack of threads other than the first.
func report() {
	done := make(chan time.Duration)
	for range 3 {
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			done <- current()
		}()
	}
	fmt.Println("slack:", <-done, <-done, <-done)
}

// start runs this program with a slack, and returns its output.
func start(t *testing.T, slack time.Duration) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "one two")
	cmd.Env = append(os.Environ(), child+"=raise")
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
			done <- err
			return
		}
		done <- cmd.Run()
	}()
	if err := <-done; err != nil {
		t.Fatalf("%v: %s", err, text.String())
	}
	return text.String()
}

func TestRaise(t *testing.T) {
	got := start(t, usual)
	want := "slack: 1ms 1ms 1ms\nagain: true\nchild slack: 1ms 1ms 1ms\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A slack that somebody has chosen stays.
func TestRaiseLeavesAChoiceAlone(t *testing.T) {
	got := start(t, 70*time.Microsecond)
	want := "slack: 70µs 70µs 70µs\nagain: true\nchild slack: 70µs 70µs 70µs\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
