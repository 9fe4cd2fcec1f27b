package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Escape returns s as valid UTF-8, with \uXXXX in place of characters that a terminal would act on.
// It leaves line breaks and tabs.
func Escape(s string) string {
	isLeft := func(r rune) bool { return r == '\n' || r == '\t' || !actsOnTerminal(r) }
	if !strings.ContainsFunc(s, func(r rune) bool { return !isLeft(r) }) {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for _, r := range s {
		if isLeft(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// JSON returns valid JSON in which strings have \uXXXX in place of characters that a terminal would
// act on, as encoding/json writes it for ASCII's control characters. To a decoder it is the same.
// It returns text itself, or a changed copy.
func JSON(text []byte) []byte {
	at := obeyed(text)
	if at < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for ; at >= 0; at = obeyed(text) {
		r, size := utf8.DecodeRune(text[at:])
		out = append(out, text[:at]...)
		out = fmt.Appendf(out, `\u%04x`, r)
		text = text[at+size:]
	}
	return append(out, text...)
}

// obeyed returns where the first character beyond ASCII's first 32 is that a terminal would act on, or
// -1. Those 32 are white space between JSON's tokens, or escaped.
func obeyed(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case 0x7f:
			return i
		case 0xc2, 0xd8, 0xe2: // the first bytes of all others
			if r, size := utf8.DecodeRune(text[i:]); size > 1 && actsOnTerminal(r) {
				return i
			}
		}
	}
	return -1
}

// Writer passes on what is written to it as JSON returns it. In text that is not JSON it escapes the
// same, and leaves alone ASCII's control characters. It is safe for concurrent use.
type Writer struct {
	to io.Writer

	mu   sync.Mutex // held during a write
	rest []byte     // of a character that is not complete; guarded by mu
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.rest) > 0 {
		text = append(bytes.Clone(w.rest), p...)
	}
	whole := len(text) - incomplete(text)
	w.rest = bytes.Clone(text[whole:])
	if whole == 0 {
		return len(p), nil
	}
	if _, err := w.to.Write(JSON(text[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// incomplete returns how many bytes at the end of a text are the beginning of a character.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Flush writes what is left of a character that was never completed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.rest
	w.rest = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := w.to.Write(rest)
	return err
}

// Fd returns the descriptor that it writes to. ok is false if there is none.
func (w *Writer) Fd() (fd uintptr, ok bool) {
	f, ok := w.to.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	return f.Fd(), true
}
