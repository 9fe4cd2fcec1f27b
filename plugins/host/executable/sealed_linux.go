package executable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openDigested copies a program into memory, seals the copy, and returns it. So the kernel, or a
// script's interpreter, reads the bytes that have the digest even if the file is overwritten in
// between. The copy takes its size in memory for as long as a process of it runs. A program with
// another digest is not copied.
func openDigested(ctx context.Context, path, digest string) (*os.File, error) {
	file, size, err := digested(ctx, path, digest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("%s cannot be read again: %w", path, cause(err))
	}
	sealed, err := newMemory("handler")
	if err != nil {
		return nil, fmt.Errorf("%s cannot be copied for its sha256: %w", path, err)
	}
	defer func() { _ = sealed.Close() }()
	// The file may have changed by now. No more than its former size is copied, and checked again.
	if _, err := copyDigested(ctx, sealed, io.LimitReader(file, size), digest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("%s: its copy cannot be sealed: %w", path, err)
	}
	// Open it again for reading: the kernel does not execute a file that is open for writing.
	readOnly, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", sealed.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s: its copy cannot be opened: %w", path, cause(err))
	}
	return readOnly, nil
}

// newMemory creates an executable file in memory.
func newMemory(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every such file is executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, errors.New("this system forbids executing files in memory: " +
			"set the sysctl vm.memfd_noexec to 1 or 0, or leave out sha256")
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
