//go:build !linux

package shim

// TakeOver does nothing: handlers have a shim on Linux only.
func TakeOver() {}
