package scan

import "unicode/utf8"

// recording is a copy of what the Scanner moves over. What it takes over unchanged is copied late, in large pieces:
// what a server sends has no space to leave out.
type recording struct {
	on   bool
	from int // text between here and pos belongs to the recording, but is not in out yet
	out  []byte
}

// Record begins to copy what is read, without space, and with U+FFFD for bytes that are not UTF-8. From here on
// [Scanner.Deepest] and [Scanner.OutOfRange] count.
func (s *Scanner) Record() {
	s.record = recording{on: true, from: s.pos, out: s.record.out[:0]}
	s.nesting = nesting{}
}

// nesting is what was seen since the recording began.
type nesting struct {
	depth, deepest int
	outOfRange     bool
}

// Deepest is how deep the values nest that were read since [Scanner.Record]; a plain one is 0 deep.
func (s *Scanner) Deepest() int { return s.deepest }

// OutOfRange tells whether a number was read since [Scanner.Record] that no float64 comes near.
func (s *Scanner) OutOfRange() bool { return s.outOfRange }

// Recorded ends the recording and returns it. It is the Scanner's memory, until the next recording. After an error it is
// anything.
func (s *Scanner) Recorded() []byte {
	if s.record.on && s.pos > s.record.from {
		s.leaveOut(s.pos, s.pos)
	}
	s.record.on = false
	return s.record.out
}

// Mark is how long the recording is.
func (s *Scanner) Mark() int {
	if s.record.on {
		return len(s.record.out) + s.pos - s.record.from
	}
	return len(s.record.out)
}

// Pause forgets what was recorded since the recording was as long as mark, and records no more until Resume.
func (s *Scanner) Pause(mark int) {
	if missing := mark - len(s.record.out); missing > 0 {
		s.leaveOut(s.record.from+missing, s.pos)
	}
	s.record.out = s.record.out[:mark]
	s.record.on = false
}

// Resume goes on recording, behind insert.
func (s *Scanner) Resume(insert string) {
	s.record.out = append(s.record.out, insert...)
	s.record.from = s.pos
	s.record.on = true
}

// Unrecord takes the byte at mark out of the recording.
func (s *Scanner) Unrecord(mark int) {
	s.leaveOut(s.pos, s.pos)
	out := s.record.out
	s.record.out = append(out[:mark], out[mark+1:]...)
}

// leaveOut records what comes before start, and nothing up to end.
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
