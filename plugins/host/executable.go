package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// executable is a program that was found fit to run.
type executable struct {
	path string   // absolute
	file *os.File // what was digested, if a digest was asked for; nil otherwise
}

// openExecutable finds a program and says clearly what is wrong with it. With a digest, what is to be executed is what
// was digested: what happens to the path, or to the file itself, afterwards does not matter.
func openExecutable(ctx context.Context, path, digest string) (*executable, error) {
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, fmt.Errorf("%q is not a program in the daemon's PATH; the path of a file has a slash, as ./%s", path, path)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist", path)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be used: %w", path, cause(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Mode()&0o111 == 0:
		return nil, fmt.Errorf("%s is not executable: chmod +x it", path)
	case digest == "":
		return &executable{path: path}, nil
	}
	file, err := openDigested(ctx, path, digest)
	if err != nil {
		return nil, err
	}
	return &executable{path: path, file: file}, nil
}

func (e *executable) close() {
	if e != nil && e.file != nil {
		_ = e.file.Close()
	}
}

// maxDigested is how many bytes a program with a digest may have: its copy is held in memory.
const maxDigested = 1 << 30

// digested opens a program and reads it once to see whether it has the digest. What is at the path by now may be anything,
// a pipe or a file without end among it: neither is waited for. size is what was read, and the file stands at its end.
func digested(ctx context.Context, path, digest string) (_ *os.File, size int64, err error) {
	if b, err := hex.DecodeString(digest); err != nil || len(b) != sha256.Size {
		return nil, 0, fmt.Errorf("%s: sha256 %q is not a digest of %d hexadecimal digits", path, printable(digest, 100), 2*sha256.Size)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%s cannot be read for its sha256: %w", path, cause(err))
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s cannot be read for its sha256: %w", path, cause(err))
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxDigested:
		return nil, 0, fmt.Errorf("%s has %d bytes, and a program with a sha256 at most %d: leave out sha256, or start it by a small script that has one", path, info.Size(), maxDigested)
	}
	size, err = copyDigested(ctx, io.Discard, io.LimitReader(file, maxDigested), digest)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return file, size, nil
}

// copyDigested copies a program to w and says how long it is; it must have the digest.
func copyDigested(ctx context.Context, w io.Writer, r io.Reader, digest string) (size int64, err error) {
	const piece = 4 << 20 // between looks at ctx
	h := sha256.New()
	for both := io.MultiWriter(h, w); err == nil; {
		var n int64
		n, err = io.CopyN(both, r, piece)
		size += n
		if ctx.Err() != nil {
			return size, ctx.Err()
		}
	}
	if !errors.Is(err, io.EOF) {
		return size, fmt.Errorf("copy for its sha256: %w", cause(err))
	}
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, digest) {
		return size, fmt.Errorf("its sha256 is %s, the manifest allows only %s", got, strings.ToLower(digest))
	}
	return size, nil
}

// startError explains why the system would not execute a file that is there.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s cannot be executed: it is built for another platform, or is a script without #! line", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s cannot be executed: the interpreter or loader that it names, or its working directory, does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be executed: %w", path, fs.ErrPermission)
	}
	return fmt.Errorf("%s cannot be executed: %w", path, cause(err))
}

// cause leaves out operation and path, which the message around it names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
