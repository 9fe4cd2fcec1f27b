package shim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
)

// Daemon and shim exchange frames: a length of four bytes, most significant first, and JSON. The
// daemon sends an Order and, after that, signals. The shim sends reports: one when the handler was
// started or could not be, and one when it has ended.

// Sizes of frames in bytes. An environment and arguments of 2 MiB, the kernel's own limit, fit an
// order as base64.
const (
	maxOrder = 16 << 20
	maxFrame = 4 << 10
	maxText  = 512 // of an error; as JSON it may become six times as much
)

// signalled asks for a signal to the handler's process group. SIGKILL goes to everything that the
// handler started.
type signalled struct{ Signal syscall.Signal }

// report is what the shim sends.
type report struct {
	PID   int     // of the handler, if it was started
	Error *failed // why it was not started

	Ended  bool // the handler has ended, with this status
	Status syscall.WaitStatus
	Left   int // processes that could not be killed
}

// failed is an error, as it is sent to another process.
type failed struct {
	Step  step
	Text  string
	Errno syscall.Errno // 0 for others
}

// step names the part of a start that failed.
type step string

const (
	stepOrder   step = "order"
	stepConfine step = "confine"
	stepDir     step = "dir"
	stepExec    step = "exec"
)

func failure(at step, err error) *failed {
	f := &failed{Step: at, Text: err.Error()}
	f.Text = f.Text[:min(len(f.Text), maxText)]
	if errno, ok := err.(syscall.Errno); ok {
		f.Errno = errno
	}
	return f
}

func send(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxOrder {
		return fmt.Errorf("%d bytes are too many for it: at most %d", len(b), maxOrder)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func receive(r io.Reader, limit uint32, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > limit {
		return fmt.Errorf("a frame of %d bytes; at most %d are allowed", n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
