// Package executable finds the program of a handler, and makes sure that what is executed is what
// was checked.
//
// [Open] says in words for an operator what is wrong with a path. With a digest, it returns a
// sealed copy of the program in memory: whatever happens to the path or the file afterwards, the
// process executes the bytes that have the digest.
package executable

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

	"github.com/informd/informd/internal/printable"
)

// Program is a program that can be executed.
type Program struct {
	Path string   // absolute
	File *os.File // the sealed copy that must be executed instead of Path; nil without a digest
}

// Open finds a program: a path, or without a slash a name in the daemon's PATH. digest is the
// hexadecimal SHA-256 that it must have, or empty. The caller closes the Program.
func Open(ctx context.Context, path, digest string) (*Program, error) {
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, fmt.Errorf("%q is not a program in the daemon's PATH; "+
				"the path of a file has a slash, as ./%s", path, path)
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
		return &Program{Path: path}, nil
	}
	file, err := openDigested(ctx, path, digest)
	if err != nil {
		return nil, err
	}
	return &Program{Path: path, File: file}, nil
}

// Close closes the copy. Processes that execute it are not affected.
func (p *Program) Close() {
	if p.File != nil {
		_ = p.File.Close()
	}
}

// maxDigested bounds the bytes of a program with a digest. Its copy is held in memory.
const maxDigested = 1 << 30

// digested opens a program and checks that it has the digest. By now the path may name anything: a
// pipe or an endless file is refused without waiting for it. It returns the file, read to its end,
// and the number of bytes read.
func digested(ctx context.Context, path, digest string) (_ *os.File, size int64, err error) {
	if b, err := hex.DecodeString(digest); err != nil || len(b) != sha256.Size {
		return nil, 0, fmt.Errorf("%s: sha256 %q is not a digest of %d hexadecimal digits",
			path, printable.Line(digest, 100), 2*sha256.Size)
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
		return nil, 0, fmt.Errorf("%s has %d bytes, "+
			"and a program with a sha256 may have at most %d: "+
			"leave out sha256, or start it by a small script that has one",
			path, info.Size(), maxDigested)
	}
	size, err = copyDigested(ctx, io.Discard, io.LimitReader(file, maxDigested), digest)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return file, size, nil
}

// copyDigested copies a program to w and returns its size. It is an error if the program does not
// have the digest.
func copyDigested(
	ctx context.Context, w io.Writer, r io.Reader, digest string,
) (size int64, err error) {
	const piece = 4 << 20 // bytes between two looks at ctx
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
		return size, fmt.Errorf("its sha256 is %s, the manifest allows only %s",
			got, strings.ToLower(digest))
	}
	return size, nil
}

// Explain says why the system refused to execute the program at path, although the file is there.
func Explain(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s cannot be executed: it is built for another platform, "+
			"or is a script without #! line", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s cannot be executed: the interpreter or loader that it names, "+
			"or its working directory, does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be executed: %w", path, fs.ErrPermission)
	}
	return fmt.Errorf("%s cannot be executed: %w", path, cause(err))
}

// cause strips operation and path from err. The message around it names them.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
