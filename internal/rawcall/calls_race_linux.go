//go:build race

package rawcall

import (
	"errors"
	"syscall"
)

// The race detector learns from announced calls which memory they use, and that what was received
// comes after it was sent. So a program that it watches has those.

func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	return again(func() (int, error) { return syscall.Read(int(fd), p) })
}

func send(fd uintptr, p []byte) (int, syscall.Errno) {
	return again(func() (int, error) { return syscall.Write(int(fd), p) })
}

func again(call func() (int, error)) (int, syscall.Errno) {
	for {
		n, err := call()
		failed, _ := errors.AsType[syscall.Errno](err)
		if failed != syscall.EINTR {
			return max(n, 0), failed
		}
	}
}
