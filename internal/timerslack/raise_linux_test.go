package timerslack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// child is set in the processes of this program that report their slack: "raise" calls Raise before.
const child = "TIMERSLACK_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "report":
		report()
		return
	}
	Raise()
	report()
	_, isSet := os.LookupEnv(variable)
	fmt.Println("arguments:", os.Args[1:], "variable:", isSet)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), child+"=report")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
	}
}

// report prints the slack of three threads.
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
func start(t *testing.T, slack time.Duration, env ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "one two")
	cmd.Env = append(append(os.Environ(), child+"=raise"), env...)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, os.Stderr
	type result struct {
		got time.Duration
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		set(slack)
		got := current()
		if got != slack {
			done <- result{got: got}
			return
		}
		done <- result{got, cmd.Run()}
	}()
	switch r := <-done; {
	case r.got != slack:
		t.Skipf("the slack cannot be set here: it is %v, not %v", r.got, slack)
	case r.err != nil:
		t.Fatal(r.err)
	}
	return text.String()
}

func TestRaise(t *testing.T) {
	for name, c := range map[string]struct {
		slack, want time.Duration
		env         []string
	}{
		"usual":                     {slack: usual, want: slack},
		"somebody has chosen":       {slack: 70 * time.Microsecond, want: 70 * time.Microsecond},
		"the user does not want it": {slack: usual, want: usual, env: []string{variable + "=off"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := start(t, c.slack, c.env...)
			line := fmt.Sprintf("slack: %v %v %v\n", c.want, c.want, c.want)
			if want := line + "arguments: [one two] variable: false\n" + line; got != want {
				t.Errorf("got %q\nwant %q", got, want)
			}
		})
	}
}
