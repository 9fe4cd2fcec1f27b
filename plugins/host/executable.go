package host

import (
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
func openExecutable(path, digest string) (*executable, error) {
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, fmt.Errorf("%q is not a program in the daemon's PATH", path)
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
	file, err := openDigested(path, digest)
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

// copyDigested copies a program, which must have a digest, to w.
func copyDigested(w io.Writer, r io.Reader, want string) error {
	if b, err := hex.DecodeString(want); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("sha256 %q is not a digest of %d hexadecimal digits", printable(want, 100), 2*sha256.Size)
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, w), r); err != nil {
		return fmt.Errorf("copy for its sha256: %w", cause(err))
	}
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, want) {
		return fmt.Errorf("its sha256 is %s, the manifest allows only %s", got, strings.ToLower(want))
	}
	return nil
}

// startError explains why the system would not execute a file that is there.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s cannot be executed: it is built for another platform, or is a script without #! line", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s cannot be executed: the interpreter or loader that it names, or its working directory, does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be executed: permission denied", path)
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
