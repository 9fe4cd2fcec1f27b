// Package seldom keeps repeated messages out of the log: it lets each distinct message through at
// most once a minute. It keeps no clock and logs nothing itself.
package seldom

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Interval is how long the same message is held back after it was let through.
const Interval = time.Minute

// DefaultMax is Messages.Max if that is 0.
const DefaultMax = 64

// Kind returns what a message has in common with others of its kind: numbers, and words with a digit,
// such as addresses, ports and generated names, are left out.
func Kind(message string) string {
	var kind strings.Builder
	isWord := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.:/", r)
	}
	for len(message) > 0 {
		end := strings.IndexFunc(message, func(r rune) bool { return !isWord(r) })
		switch {
		case end < 0:
			end = len(message)
		case end == 0:
			_, end = utf8.DecodeRuneInString(message)
		}
		if word := message[:end]; strings.ContainsFunc(word, unicode.IsDigit) {
			kind.WriteByte('#')
		} else {
			kind.WriteString(word)
		}
		message = message[end:]
	}
	return kind.String()
}

// Messages lets each of a bounded number of messages through at most once per [Interval]. The zero
// value works. It is safe for concurrent use.
type Messages struct {
	// Max is how many distinct messages get through within an Interval, and are remembered. The
	// others are held back.
	Max int

	mu   sync.Mutex           // taken last: nothing is called while it is held
	last map[string]time.Time // when a message was let through; guarded by mu
	held int                  // messages held back since the last let through; guarded by mu
}

// Allow reports whether the message may be logged at the time now. If it may, held is how many
// messages, of whatever text, were held back since Allow last let one through.
func (m *Messages) Allow(now time.Time, message string) (held int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.last[message]
	if known && now.Sub(last) < Interval || !known && !m.hasRoom(now) {
		m.held++
		return 0, false
	}
	if m.last == nil {
		m.last = make(map[string]time.Time)
	}
	m.last[message] = now
	held, m.held = m.held, 0
	return held, true
}

// hasRoom reports whether another message can be remembered. If all places are taken, it first
// forgets the messages that may be repeated by now. The caller holds mu.
func (m *Messages) hasRoom(now time.Time) bool {
	limit := m.Max
	if limit <= 0 {
		limit = DefaultMax
	}
	if len(m.last) < limit {
		return true
	}
	for message, last := range m.last {
		if now.Sub(last) >= Interval {
			delete(m.last, message)
		}
	}
	return len(m.last) < limit
}
