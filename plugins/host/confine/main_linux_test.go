package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// stage runs in the re-executed test binary: it enters an order, if it has one, and executes a
// program.
type stage struct {
	Order *Order
	Args  []string
	Env   []string
}

const (
	stageVar = "CONFINE_STAGE" // a stage as JSON
	probeVar = "CONFINE_PROBE" // a scene as JSON: run all probes
	taskVar  = "CONFINE_TASK"  // the name of one
)

// program is a copy of the test binary that every user can execute.
var program string

func TestMain(m *testing.M) {
	if s := os.Getenv(stageVar); s != "" {
		runStage(s)
	}
	if s := os.Getenv(probeVar); s != "" {
		runProbes(s)
	}
	if s := os.Getenv(taskVar); s != "" {
		tasks[s]()
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("/tmp", "confine")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "program")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func runStage(text string) {
	var s stage
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	err := s.Order.Enter()
	if err == nil {
		err = syscall.Exec(s.Args[0], s.Args, s.Env)
	}
	fmt.Fprintln(os.Stderr, "stage:", err)
	os.Exit(97)
}
