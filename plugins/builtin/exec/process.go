package exec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is what run runs.
type process struct {
	path           string   // of the executable
	arguments      []string // the first is the name that it sees itself called by
	environment    []string
	input          []byte // on standard input; it need not be read
	stdout, stderr io.Writer
}

// grace is how long a command may take to end after SIGTERM, and how long its output is read after it exited while
// something that it started keeps it open.
const grace = 2 * time.Second

// run runs p to its end, or to ctx's and the grace, and returns how it ended. Nothing of its process group is left
// then, and nothing is written to stdout and stderr any more. The error tells why it could not be started.
func run(ctx context.Context, p process) (*os.ProcessState, error) {
	// To the kernel, a child's parent is the thread that started it: this one must not end before the command does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Args = p.arguments
	cmd.Env = p.environment
	cmd.Stdin = bytes.NewReader(p.input)
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return signalGroup(cmd, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	// What Wait says beyond the process's state is of pipes: input that was not read, output that a grandchild kept
	// open past the grace. Neither changes what the command said.
	_ = cmd.Wait()
	// The group outlives its leader, and the kernel does not give its number to another as long as anyone is in it.
	_ = signalGroup(cmd, syscall.SIGKILL)
	return cmd.ProcessState, nil
}

// signalGroup signals the command and all that it started, as far as that stayed in its group.
func signalGroup(cmd *exec.Cmd, signal syscall.Signal) error {
	if err := syscall.Kill(-cmd.Process.Pid, signal); err == syscall.ESRCH {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}
