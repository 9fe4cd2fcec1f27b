package scan

import "unicode/utf8"

// recording is a copy of the text that the Scanner reads. It copies late, in large pieces, what
// stays unchanged, because a server's text has no space to leave out.
type recording struct {
	on   bool
	from int // the recording has the text from here to pos, but out does not yet
	out  []byte
}

// Record starts a copy of the text that the Scanner reads, without space, and with U+FFFD for bytes
// that are not UTF-8. [Scanner.Deepest] and [Scanner.OutOfRange] count from here on.
func (s *Scanner) Record() {
	s.record = recording{on: true, from: s.pos, out: s.record.out[:0]}
	s.nesting = nesting{}
}

// nesting is what the Scanner saw since the recording began.
type nesting struct {
	depth, deepest int
	outOfRange     bool
}

// Deepest returns how deep the values nest that the Scanner read since [Scanner.Record]. A scalar
// is 0 deep.
func (s *Scanner) Deepest() int { return s.deepest }

// OutOfRange reports whether a number since [Scanner.Record] is beyond float64's range.
func (s *Scanner) OutOfRange() bool { return s.outOfRange }

// Recorded ends the recording and returns it. The Scanner reuses its memory for the next recording.
// After an error the recording is undefined.
func (s *Scanner) Recorded() []byte {
	if s.record.on && s.pos > s.record.from {
		s.leaveOut(s.pos, s.pos)
	}
	s.record.on = false
	return s.record.out
}

// Mark returns the length of the recording.
func (s *Scanner) Mark() int {
	if s.record.on {
		return len(s.record.out) + s.pos - s.record.from
	}
	return len(s.record.out)
}

// Pause drops the recording from mark on, and records no more until Resume.
func (s *Scanner) Pause(mark int) {
	if missing := mark - len(s.record.out); missing > 0 {
		s.leaveOut(s.record.from+missing, s.pos)
	}
	s.record.out = s.record.out[:mark]
	s.record.on = false
}

// Resume appends insert and goes on recording.
func (s *Scanner) Resume(insert string) {
	s.record.out = append(s.record.out, insert...)
	s.record.from = s.pos
	s.record.on = true
}

// Unrecord removes the byte at mark from the recording.
func (s *Scanner) Unrecord(mark int) {
	s.leaveOut(s.pos, s.pos)
	out := s.record.out
	s.record.out = append(out[:mark], out[mark+1:]...)
}

// leaveOut records what precedes start, and nothing up to end.
func (s *Scanner) leaveOut(start, end int) {
	r := &s.record
	r.out = append(r.out, s.text[r.from:start]...)
	r.from = end
}

// repair records the string between start and end as UTF-8.
func (s *Scanner) repair(start, end int) {
	s.leaveOut(start, end)
	for i := start; i < end; {
		r, size := utf8.DecodeRune(s.text[i:end])
		s.record.out = utf8.AppendRune(s.record.out, r)
		i += size
	}
}
