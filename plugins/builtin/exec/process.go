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

// grace is how long a command may take to end after SIGTERM. It is also how long its output is read
// after its exit, if a process that it started keeps the output open.
const grace = 2 * time.Second

// run runs p until it ends, or until ctx ends and the grace is over, and returns how it ended.
// Afterwards nothing of its process group is left, and nothing writes to stdout and stderr. An
// error says why p could not be started.
func run(ctx context.Context, p process) (*os.ProcessState, error) {
	// To the kernel, a child's parent is the thread that started it: this one must not end before
	// the command does.
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
	// Beyond the process's state, Wait reports on pipes: input that nobody read, or output that a
	// grandchild kept open past the grace. Neither changes the command's answer.
	_ = cmd.Wait()
	// The group outlives its leader, and the kernel does not reuse its number while it has members.
	_ = signalGroup(cmd, syscall.SIGKILL)
	return cmd.ProcessState, nil
}

// signalGroup signals the command and everything it started that is still in its group.
func signalGroup(cmd *exec.Cmd, signal syscall.Signal) error {
	if err := syscall.Kill(-cmd.Process.Pid, signal); err == syscall.ESRCH {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}
