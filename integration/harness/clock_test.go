package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

const clockVariable = "INFORMD_TEST_CLOCK"

// TestSetClock sets the clock of a process whose threads never cease to ask for the time.
func TestSetClock(t *testing.T) {
	if os.Getenv(clockVariable) != "" {
		began := time.Now()
		for range 4 {
			go func() {
				for !time.Now().IsZero() {
				}
			}()
		}
		for range time.NewTicker(10 * time.Millisecond).C {
			fmt.Println(time.Now().Unix(), time.Since(began).Milliseconds())
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSetClock$")
	cmd.Env = append(os.Environ(), clockVariable+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	can := CanSetClock()
	lines := bufio.NewReader(stdout)
	read := func() (ahead, since time.Duration) {
		t.Helper()
		var seconds, ms int64
		line, err := lines.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscan(line, &seconds, &ms)
		}
		if err != nil {
			t.Fatal(err)
		}
		ahead = time.Duration(seconds-time.Now().Unix()) * time.Second
		return ahead, time.Duration(ms) * time.Millisecond
	}
	read()
	for _, want := range []time.Duration{time.Hour, -2 * time.Hour, 0, 90 * time.Minute} {
		SetClock(t, cmd.Process.Pid, want) // it may skip the test
		if !can {
			t.Fatal("SetClock works, and CanSetClock reports that it does not")
		}
		for {
			ahead, since := read()
			if since < 0 || since > time.Since(began) {
				t.Fatalf("%v of monotonic time have passed, in %v", since, time.Since(began))
			}
			if (ahead - want).Abs() <= time.Second {
				break
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("the clock is %v ahead, want %v", ahead, want)
			}
		}
	}
}
