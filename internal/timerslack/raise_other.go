//go:build !linux

package timerslack

// Raise does nothing: only Linux has a timer slack.
func Raise() {}
