package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// lines gives many events to one process of the command: one at a time, each as a line of its
// standard input, and reads the answer from a line of its standard output. The process starts with
// the first event. It is ended, and another started for the next event, if it does not answer
// within the event's time, or prints anything but that answer. An event that it leaves without an
// answer is a retry.
//
// Each answer names its event. So a line that was printed too much can never count as the answer to
// another event.
type lines struct {
	start func() (*child, error)

	// turn has one place. Whoever fills it has the process, and guards current with it.
	turn    chan struct{}
	current *child // nil: none runs
	log     eventLog
}

func newLines(path string, arguments, environment []string) *lines {
	l := &lines{turn: make(chan struct{}, 1)}
	l.start = func() (*child, error) { return startChild(path, arguments, environment, &l.log) }
	return l
}

// eventLog holds the logger of the event that the process works on. What the process prints to
// standard error goes there.
type eventLog struct{ atomic.Pointer[slog.Logger] }

// logger returns the handler's own logger if the process has no event.
func (l *eventLog) logger() *slog.Logger {
	if log := l.Load(); log != nil {
		return log
	}
	return slog.Default()
}

// handle gives ev, whose JSON is input, to the process.
func (l *lines) handle(
	ctx context.Context, ev *handler.Event, input []byte, log *slog.Logger,
) (handler.Answer, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return handler.Answer{}, fmt.Errorf("the command was at work on other events: %w",
			context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	if ctx.Err() != nil { // both were ready
		return handler.Answer{}, context.Cause(ctx)
	}
	l.log.Store(log)
	defer l.log.Store(nil)
	c, err := l.ready()
	if err != nil {
		return handler.Answer{}, err
	}
	text, err := c.ask(ctx, input)
	if err == nil {
		var answer handler.Answer
		if answer, err = parseAnswer(text, ev, true); !errors.Is(err, errNoAnswer) {
			c.answered = true
			return answer, err
		}
	}
	c.end()
	l.current = nil
	if c.hasUnended() && (ctx.Err() != nil || errors.Is(err, errEnded)) {
		const hint = "the last line that the command printed has no newline: end each answer with one"
		log.Warn(hint) // informd no longer waits for an error after the event's time
		return handler.Answer{}, fmt.Errorf("%s: %w", hint, err)
	}
	if ctx.Err() != nil {
		if !c.answered {
			log.Warn("the command has not answered any event: " +
				"does it flush its standard output after each line?")
		}
		return handler.Answer{}, fmt.Errorf("the command did not answer, and was ended: %w",
			context.Cause(ctx))
	}
	return handler.Answer{}, err
}

// ready returns a process that waits for an event.
func (l *lines) ready() (*child, error) {
	if c := l.current; c != nil {
		select {
		case <-c.printed:
			slog.Warn("the command printed more than one line for an event: " +
				"it is ended, and started again")
			c.end()
		case <-c.gone:
			slog.Info("the command ended between two events: it is started again",
				"status", c.status.String())
		default:
			return c, nil
		}
		l.current = nil
	}
	c, err := l.start()
	if err != nil {
		return nil, err
	}
	l.current = c
	return c, nil
}

// drain ends the process: first by the end of its standard input.
func (l *lines) drain(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the command is still at work: %w", context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	c := l.current
	if c == nil {
		return nil
	}
	l.current = nil
	_ = c.stdin.Close()
	select {
	case <-c.gone:
	case <-ctx.Done():
	case <-time.After(grace):
	}
	c.end()
	return nil
}

// child is a running process of the command, with its process group.
type child struct {
	stdin   *os.File
	printed chan []byte // lines of standard output that are not blank
	stop    func()      // begins to end the process and its group, as at the end of an event's time

	answered bool // it has answered an event; guarded as lines.current is
	// stdout takes its standard output. Once gone is closed, it is the holder of current who has it.
	stdout *lineWriter

	gone chan struct{} // closed when nothing of the process is left
	// How it ended, once gone is closed: its status, or why it could not be started.
	status *os.ProcessState
	err    error
}

var errEnded = errors.New("the command ended before it answered")

// startChild starts the command. Of a command that cannot be started, the child ends at once.
func startChild(path string, arguments, environment []string, log *eventLog) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &child{
		stdin: write, printed: make(chan []byte), stop: cancel, gone: make(chan struct{}),
	}
	out := newOutput(log.logger, 0)
	c.stdout = &lineWriter{stop: ctx.Done(), lines: c.printed}
	go func() {
		defer cancel()
		c.status, c.err = run(ctx, process{
			path: path, arguments: arguments, environment: environment,
			input: read, stdout: c.stdout, stderr: out.stream("stderr"),
		})
		_, _ = read.Close(), write.Close()
		out.end()
		close(c.gone)
	}()
	return c, nil
}

// lineWriter sends each line that is written to it, without those that are blank. Once stop is
// closed, it drops everything. It holds one line at most, and of a line that is too long only the
// beginning.
type lineWriter struct {
	stop  <-chan struct{}
	lines chan<- []byte
	line  []byte
}

// Write implements io.Writer. It never fails, and returns at once when stop is closed.
func (w *lineWriter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		room := maxAnswer + 1 - len(w.line)
		w.line = append(w.line, part[:min(len(part), room)]...)
		p = rest
		if !ended && len(w.line) <= maxAnswer {
			continue
		}
		if len(bytes.TrimSpace(w.line)) > 0 {
			select {
			case w.lines <- w.line:
			case <-w.stop:
			}
		}
		w.line = nil
	}
	return written, nil
}

// ask writes a line, and returns the line that the process prints next. If it fails, the caller
// ends the process.
func (c *child) ask(ctx context.Context, input []byte) ([]byte, error) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.stdin.Write(input) // what the process does not get, it does not answer
	}()
	var line []byte
	ended := false
	select {
	case line = <-c.printed:
	case <-c.gone:
		ended = true
	case <-ctx.Done():
	}
	// The rest of an event that was not read must not follow: the caller ends the process.
	whole := false
	select {
	case <-written:
		whole = true
	case <-time.After(writeGrace(line)):
		_ = c.stdin.SetWriteDeadline(time.Unix(1, 0))
		<-written
	}
	switch {
	case ended && c.err != nil:
		return nil, c.err
	case ended:
		return nil, fmt.Errorf("%w: %v", errEnded, c.status)
	case line == nil:
		return nil, context.Cause(ctx)
	case len(line) > maxAnswer:
		return nil, fmt.Errorf("%w: it is a line of more than %d bytes", errNoAnswer, maxAnswer)
	case !whole:
		return nil, fmt.Errorf("%w: it came before the command had read the event", errNoAnswer)
	}
	return line, nil
}

// hasUnended reports whether the process, which is gone, has left a line without its newline.
func (c *child) hasUnended() bool { return len(bytes.TrimSpace(c.stdout.line)) > 0 }

// writeGrace is how long an event may still be written after its answer came.
func writeGrace(answer []byte) time.Duration {
	if answer == nil {
		return 0
	}
	return grace
}

// end ends the process and everything in its group, and returns when nothing is left.
func (c *child) end() {
	c.stop()
	<-c.gone
}
