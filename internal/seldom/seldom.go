// Package seldom keeps repeated messages out of the log: it lets each distinct message through at
// most once a minute. It keeps no clock and logs nothing itself.
package seldom

import (
	"maps"
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
	// others are held back. They have the first places that are free then, so that those that come
	// all the time do not keep a new one out.
	Max int
	// Times is how often the same message gets through within an Interval; 0 means once.
	Times int

	mu   sync.Mutex         // taken last: nothing is called while it is held
	last map[string]through // what was let through; guarded by mu
	// kept has messages for which there was no room, and when they came last; at most Max; guarded by
	// mu.
	kept map[string]time.Time
	held int // messages held back since the last let through; guarded by mu
}

// through says when a message was first let through within an Interval, and how often.
type through struct {
	at    time.Time
	times int
}

// Allow reports whether the message may be logged at the time now. If it may, held is how many
// messages, of whatever text, were held back since Allow last let one through.
func (m *Messages) Allow(now time.Time, message string) (held int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, isKnown := m.last[message]
	isKnown = isKnown && now.Sub(last.at) < Interval
	if isKnown && last.times >= max(m.Times, 1) || !isKnown && !m.hasRoom(now, message) {
		m.held++
		return 0, false
	}
	if m.last == nil {
		m.last = make(map[string]through)
	}
	if !isKnown {
		last = through{at: now}
	}
	last.times++
	m.last[message] = last
	held, m.held = m.held, 0
	return held, true
}

// hasRoom reports whether another message may get through. It forgets what was let through an Interval
// ago, and what was kept out that long ago and did not come again. The caller holds mu.
func (m *Messages) hasRoom(now time.Time, message string) bool {
	limit := m.Max
	if limit <= 0 {
		limit = DefaultMax
	}
	if _, isKept := m.kept[message]; len(m.last)+len(m.kept) < limit || isKept && len(m.last) < limit {
		delete(m.kept, message)
		return true
	}
	maps.DeleteFunc(m.last, func(_ string, last through) bool { return now.Sub(last.at) >= Interval })
	maps.DeleteFunc(m.kept, func(_ string, last time.Time) bool { return now.Sub(last) >= Interval })
	free := limit - len(m.last)
	if _, isKept := m.kept[message]; isKept && free > 0 || free > len(m.kept) {
		delete(m.kept, message)
		return true
	}
	if m.kept == nil {
		m.kept = make(map[string]time.Time)
	}
	if _, isKept := m.kept[message]; isKept || len(m.kept) < limit {
		m.kept[message] = now
	}
	return false
}
