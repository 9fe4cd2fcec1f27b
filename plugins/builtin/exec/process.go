package exec

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
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
	g := &group{id: cmd.Process.Pid}
	unwatch := context.AfterFunc(ctx, func() {
		g.signal(syscall.SIGTERM)
		time.AfterFunc(grace, func() { g.signal(syscall.SIGKILL) })
	})
	state := awaitEnd(cmd.Process) // here, so that a command takes one thread
	unwatch()
	g.end()
	// Beyond the process's state, Wait reports on pipes: input that nobody read, or output that a
	// grandchild kept open past the grace. Neither changes the command's answer.
	_ = cmd.Wait()
	if state == nil {
		state = cmd.ProcessState
	}
	return state, nil
}

// group is the process group of a command: the command and everything it started that has not left.
type group struct {
	id int

	mu     sync.Mutex
	isOver bool // guarded by mu; the number may belong to somebody else
}

// signal signals the group, unless it is over. It ignores errors: a group that is gone needs no
// signal.
func (g *group) signal(signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOver {
		_ = syscall.Kill(-g.id, signal)
	}
}

// end kills what is left of the group. The caller may reap the command afterwards.
func (g *group) end() {
	g.signal(syscall.SIGKILL)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOver = true
}
