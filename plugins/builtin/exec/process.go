package exec

import (
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
	input          io.Reader // of standard input; it need not be read. An *os.File is passed on itself
	stdout, stderr io.Writer
}

// grace is how long a command may take to end after SIGTERM. It is also how long its output is read
// after its exit, if a process that it started keeps the output open.
const grace = 2 * time.Second

// run runs p until it ends, or until ctx ends and the grace is over, and returns how it ended.
// Afterwards nothing of its process group is left, and nothing writes to stdout and stderr. An
// error says why p could not be started.
//
// The group's number is the command's process id. The kernel may give it to a stranger as soon as
// the command is reaped and the group is empty. So run sends its last signal to the group while the
// command is a zombie, and reaps it after that.
func run(ctx context.Context, p process) (*os.ProcessState, error) {
	// To the kernel, a child's parent is the thread that started it: this one must not end before
	// the command does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.path)
	cmd.Args = p.arguments
	cmd.Env = p.environment
	cmd.Stdin = p.input
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	ended := make(chan *os.ProcessState, 1)
	go func() { ended <- awaitEnd(cmd.Process) }()
	state := endGroup(ctx, cmd.Process.Pid, ended)
	// Beyond the process's state, Wait reports on pipes: input that nobody read, or output that a
	// grandchild kept open past the grace. Neither changes the command's answer.
	_ = cmd.Wait()
	if state == nil {
		state = cmd.ProcessState
	}
	return state, nil
}

// endGroup waits until the command has ended, which ctx and the grace bound, and kills what is left
// of its group. It returns what came from ended.
func endGroup(ctx context.Context, pid int, ended <-chan *os.ProcessState) *os.ProcessState {
	defer signalGroup(pid, syscall.SIGKILL)
	select {
	case state := <-ended:
		return state
	case <-ctx.Done():
		signalGroup(pid, syscall.SIGTERM)
	}
	select {
	case state := <-ended:
		return state
	case <-time.After(grace):
		signalGroup(pid, syscall.SIGKILL)
	}
	return <-ended
}

// signalGroup signals the command and everything it started that is still in its group. It ignores
// errors: a group that is gone needs no signal.
func signalGroup(pid int, signal syscall.Signal) { _ = syscall.Kill(-pid, signal) }
