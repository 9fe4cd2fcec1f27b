package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// output writes lines to one file, one after another.
type output struct {
	path string // empty: file is inherited and never reopened

	// turn has one place. Whoever fills it may write, and guards the fields below with it.
	turn    chan struct{}
	file    *os.File
	torn    bool // the file ends within a line
	looked  time.Time
	closed  bool
	now     func() time.Time
	failure atomic.Pointer[error] // why the last write failed; nil if it succeeded
}

func newOutput(path string) *output {
	return &output{path: path, turn: make(chan struct{}, 1), now: time.Now}
}

// lookEvery is the least time between two comparisons of the path with the open file. It bounds how
// long lines still go to a file that was rotated away.
const lookEvery = time.Second

// write writes line, which ends in a newline. It returns when ctx ends, even if the write(2) hangs;
// it calls release when line is free again, which may be later. At most one write hangs at a time.
// Others wait for their turn until their contexts end.
func (o *output) write(ctx context.Context, line []byte, release func()) error {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		release()
		return o.fail(fmt.Errorf("write %s: earlier lines are still being written: %w",
			o.name(), context.Cause(ctx)))
	}
	done := make(chan error, 1) // one place: the writer must not wait for a reader that left
	go func() {
		err := o.append(line)
		release()
		if err != nil {
			o.failure.Store(&err)
		} else {
			o.failure.Store(nil)
		}
		<-o.turn
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return o.fail(fmt.Errorf("write %s: nobody takes the line: %w",
			o.name(), context.Cause(ctx)))
	}
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

// append writes line in one write(2). If an earlier line was cut short, the same write ends it
// first.
func (o *output) append(line []byte) error {
	if err := o.reopen(); err != nil {
		return err
	}
	if o.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := o.file.Write(line)
	if n > 0 {
		o.torn = line[n-1] != '\n'
	}
	if err != nil && o.path != "" {
		o.drop() // open a new file next time: this one, or its file system, may be gone
	}
	return err
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
	err := o.file.Close()
	o.file = nil
	return err
}
