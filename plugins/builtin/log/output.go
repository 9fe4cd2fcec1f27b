package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// output writes lines to one file, one after another.
type output struct {
	path string // empty: file is inherited and never reopened

	// turn has one place. Whoever fills it may write, and guards the fields below with it.
	turn    chan struct{}
	file    *os.File
	whole   bool  // file is a regular file, where lines of several writers do not mix
	pipe    *pipe // file is a pipe, and this is how its writers take turns; nil if there is no way
	torn    bool  // the file ends within a line
	looked  time.Time
	closed  bool
	now     func() time.Time
	waits   atomic.Bool           // for another handler's turn in the pipe
	failure atomic.Pointer[error] // why the last write failed; nil if it succeeded
}

func newOutput(path string) *output {
	return &output{path: path, turn: make(chan struct{}, 1), now: time.Now}
}

// lookEvery is the least time between two comparisons of the path with the open file. It bounds how
// long lines still go to a file that was rotated away.
const lookEvery = time.Second

// write writes lines. ends says where in text each ends; a line may be empty. write returns how
// many bytes of text were written, and why not all. It returns when ctx ends, even if a write(2)
// hangs; that one may still succeed, and none follows it. It calls release when text is free again,
// which may be later. At most one write hangs at a time. Others wait for their turn until their
// contexts end.
func (o *output) write(
	ctx context.Context, text []byte, ends []int, release func(),
) (n int, err error) {
	select {
	case o.turn <- struct{}{}:
	default: // only now is ctx worth its cost
		select {
		case o.turn <- struct{}{}:
		case <-ctx.Done():
			release()
			return 0, o.fail(fmt.Errorf("write %s: earlier lines are still being written: %w",
				o.name(), context.Cause(ctx)))
		}
	}
	var written atomic.Int64
	done := make(chan error, 1) // one place: the writer must not wait for a reader that left
	go func() {
		err := o.append(ctx, text, ends, &written)
		release()
		if err != nil {
			o.failure.Store(&err)
		} else {
			o.failure.Store(nil)
		}
		<-o.turn
		done <- err
	}()
	runtime.Gosched() // to the new goroutine: most writes take no longer than this
	select {
	case err := <-done:
		return int(written.Load()), err
	default:
	}
	select {
	case err := <-done:
		return int(written.Load()), err
	case <-ctx.Done():
		return int(written.Load()), o.fail(o.late(ctx))
	}
}

// late returns that ctx ended before all lines were written.
func (o *output) late(ctx context.Context) error {
	if o.waits.Load() {
		return fmt.Errorf("write %s: another log handler is writing to it, and does not get on: %w",
			o.name(), context.Cause(ctx))
	}
	return fmt.Errorf("write %s: nobody takes the line: %w", o.name(), context.Cause(ctx))
}

func (o *output) fail(err error) error {
	o.failure.Store(&err)
	return err
}

func (o *output) name() string {
	if o.path == "" {
		return "standard output"
	}
	return o.path
}

// together is how many bytes a pipe keeps together, if several processes write to it: PIPE_BUF.
const together = 4096

// room returns how many bytes one write(2) may take, if they are several lines.
func (o *output) room() int {
	switch {
	case o.whole:
		return math.MaxInt
	case o.pipe != nil:
		return max(together, o.pipe.room())
	}
	return together
}

// append writes lines, as many in one write(2) as there is room for. If an earlier line was cut
// short, the same write ends it first. append adds to written how many bytes of text were written.
// It begins no second write once ctx has ended.
func (o *output) append(
	ctx context.Context, text []byte, ends []int, written *atomic.Int64,
) error {
	if err := o.reopen(); err != nil {
		return err
	}
	if o.pipe != nil {
		o.waits.Store(true)
		err := o.pipe.lock()
		if o.waits.Store(false); err != nil {
			return fmt.Errorf("lock %s: %w", o.name(), err)
		}
		defer o.pipe.unlock()
		if ctx.Err() != nil {
			return o.late(ctx)
		}
	}
	from := 0
	for i := 0; i < len(ends); i++ {
		if i+1 < len(ends) { // only now is room worth its system call
			for room := o.room(); i+1 < len(ends) && ends[i+1]-from < room; {
				i++
			}
		}
		end := ends[i]
		if end == from {
			continue
		}
		if from > 0 && ctx.Err() != nil {
			return o.late(ctx)
		}
		n, err := o.writeLines(text[from:end])
		written.Add(int64(n))
		if err != nil {
			if o.path != "" {
				o.drop() // open a new file next time: this one, or its file system, may be gone
			}
			return err
		}
		from = end
	}
	return nil
}

// writeLines writes what ends in a newline, in one write(2), and returns how much of it was written.
func (o *output) writeLines(lines []byte) (n int, err error) {
	ending := 0 // bytes that end an earlier line
	if o.torn {
		lines, ending = append([]byte{'\n'}, lines...), 1
	}
	n, err = o.file.Write(lines)
	if n > 0 {
		o.torn = lines[n-1] != '\n'
	}
	return max(0, n-ending), err
}

// reopen makes sure that o.file is open and is the file that path names.
func (o *output) reopen() error {
	if o.closed {
		return errors.New("log is drained")
	}
	if o.path == "" {
		return nil
	}
	now := o.now()
	if o.file != nil && now.Sub(o.looked) >= lookEvery {
		o.looked = now
		if !isAt(o.file, o.path) {
			o.drop()
		}
	}
	if o.file != nil {
		return nil
	}
	file, torn, err := open(o.path)
	if err != nil {
		return err
	}
	o.file, o.torn, o.looked = file, torn, now
	o.whole = isRegular(file)
	return nil
}

func (o *output) drop() {
	_ = o.file.Close() // nothing is buffered that closing could lose
	o.file = nil
}

func (o *output) close(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("close %s: a line is still being written: %w",
			o.name(), context.Cause(ctx))
	}
	defer func() { <-o.turn }()
	o.closed = true
	if o.file == nil {
		return nil
	}
	if o.pipe != nil {
		o.pipe.close()
	}
	err := o.file.Close()
	o.file = nil
	return err
}
