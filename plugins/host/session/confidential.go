package session

import (
	"errors"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handlerpb"
)

// withheld replaces texts of a handler that may have seen a Secret.
const withheld = "what it says is not shown, as it may quote a Secret"

// isConfidential reports whether the peer may have seen text of a Secret, so that nobody may quote
// it.
func (s *Session) isConfidential() bool {
	return (s.terms.Sees || s.stream != nil) && s.terms.Confidential()
}

// said returns what the peer says, short enough for an error, or withheld.
func (s *Session) said(text string) string {
	if text != "" && s.isConfidential() {
		return withheld
	}
	return printable.Line(text, handlerpb.MaxReasonBytes)
}

// LastLines returns what the process wrote last on standard error, oldest first, or nil if that may
// quote a Secret.
func (s *Session) LastLines() []string {
	if s.isConfidential() {
		return nil
	}
	return s.Peer.LastLines()
}

// Explain returns the peer's reason for err, without the peer's words if they may quote a Secret.
func (s *Session) Explain(err error) error {
	err = s.Peer.Explain(err)
	quoting, ok := errors.AsType[interface {
		error
		Unquoted() error
	}](err)
	if ok && s.isConfidential() {
		return quoting.Unquoted()
	}
	return err
}
