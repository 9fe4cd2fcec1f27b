package timing

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Timetable says when rounds over all members of a rule begin. It is immutable, and equal ones can
// be compared with ==.
type Timetable interface {
	// Next returns when the first round after a time begins, or the zero time if none does.
	Next(after time.Time) time.Time
	// Number returns the number of a round that begins now, which is greater than the last one, or
	// false if there is none. Numbers are Unix times.
	Number(now time.Time, last int64) (number int64, ok bool)
	// AtStart reports whether there is also a round when informd starts.
	AtStart() bool
	// String returns what the timetable was made of, or "" if earlier rounds count whatever that
	// was.
	String() string
}

// Earlier returns the earlier of two times; a zero time means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Every is a Timetable of rounds at an interval. An interval below a second counts as a second.
type Every time.Duration

// Next implements Timetable.
func (e Every) Next(after time.Time) time.Time {
	return after.Add(max(time.Duration(e), time.Second))
}

// Number implements Timetable.
func (e Every) Number(now time.Time, last int64) (int64, bool) {
	return max(now.Unix(), last+1), true
}

// AtStart implements Timetable.
func (e Every) AtStart() bool { return false }

func (e Every) String() string { return "" }

// Schedule is a Timetable of cron expressions in a time zone. Compare pointers.
type Schedule struct {
	cron    []string
	zone    *time.Location
	atStart bool
	text    string
}

// AtStart is the name of the moment at which informd starts.
const AtStart = "@start"

// NewSchedule makes a Schedule of cron expressions with five fields (minute, hour, day of the
// month, month, day of the week), of names such as @daily, and of AtStart. zone is a name of the
// IANA time zone database; "" is UTC. An error names the expression or the zone.
func NewSchedule(cron []string, zone string) (*Schedule, error) {
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("there is no time zone %q; "+
			"write a name such as Europe/Berlin or UTC", zone)
	}
	s := &Schedule{zone: at, text: strings.Join(cron, "\n") + "\n" + zone}
	for _, expression := range cron {
		if expression == AtStart {
			s.atStart = true
			continue
		}
		if err := checkCron(expression); err != nil {
			return nil, err
		}
		s.cron = append(s.cron, expression)
		if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, at)).IsZero() {
			return nil, fmt.Errorf("%q never comes", expression)
		}
	}
	return s, nil
}

var cronFields = []struct{ name, bounds string }{
	{"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of the month", "1 to 31"},
	{"month", "1 to 12, or JAN to DEC"}, {"day of the week", "0 to 6, or SUN to SAT"},
}

func checkCron(expression string) error {
	fields := len(strings.Fields(expression))
	isName := strings.HasPrefix(expression, "@") && expression != "@everysecond" &&
		expression != "@5minutes"
	if !isName && fields != 5 {
		return fmt.Errorf("%q has %d fields; a cron expression has five: "+
			"minute, hour, day of the month, month, day of the week", expression, fields)
	}
	for i, field := range strings.Fields(expression) {
		only := []string{"*", "*", "*", "*", "*"}
		if only[i%len(only)] = field; !isName && !gronx.IsValid(strings.Join(only, " ")) {
			return fmt.Errorf("%q is no cron expression: %q is no %s, which goes from %s", expression,
				field, cronFields[i].name, cronFields[i].bounds)
		}
	}
	if !gronx.IsValid(expression) {
		return fmt.Errorf("%q is no cron expression, such as \"0 3 * * *\" for three o'clock at "+
			"night, @hourly, @daily or %s", expression, AtStart)
	}
	return nil
}

// Next implements Timetable.
//
// Where clocks are set forward, a moment that is skipped comes when they have been set. Where they
// are set back, a moment that would come twice comes the first time only, unless the hour is open,
// as in "0 * * * *".
func (s *Schedule) Next(after time.Time) (next time.Time) {
	for _, expression := range s.cron {
		next = Earlier(next, s.next(expression, after.Round(0)))
	}
	return next
}

// next returns the next moment of one expression. It goes from one change of the clocks to the
// next, and between them asks the library as if they never changed.
func (s *Schedule) next(expression string, after time.Time) time.Time {
	began := after // of the period between two changes, or later
	for range maxChanges {
		_, end := began.In(s.zone).ZoneBounds()
		at, ok := tick(expression, after, s.clockAt(began))
		switch {
		case !ok:
			return time.Time{}
		case end.IsZero() || at.Before(end):
			if s.isRepeated(expression, at) {
				after = at
				continue
			}
			return at.In(s.zone)
		case at.Before(end.Add(s.skipped(end))):
			return end
		}
		began, after = end, end.Add(-time.Second)
	}
	return time.Time{}
}

// maxChanges bounds how many changes of the clocks, and repeated moments, lie before a moment that
// comes: some ten years of them.
const maxChanges = 100

// tick returns when an expression comes next after a time, on a clock that never changes.
func tick(expression string, after time.Time, clock *time.Location) (at time.Time, ok bool) {
	at = after.In(clock)
	for range maxYears { // the library takes 29 February for 4 March in other years
		next, err := gronx.NextTickAfter(expression, at, false)
		if err != nil || !next.After(at) {
			return time.Time{}, false
		}
		at = next
		if isDue, err := gronx.New().IsDue(expression, at); isDue && err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// maxYears is the longest time between two 29 Februaries, and one more.
const maxYears = 9

// clockAt returns the clock of a moment as one that never changes.
func (s *Schedule) clockAt(at time.Time) *time.Location {
	_, offset := at.In(s.zone).Zone()
	return time.FixedZone("", offset)
}

// skipped returns by how much the clocks are set forward at a moment; negative if they are set
// back.
func (s *Schedule) skipped(at time.Time) time.Duration {
	_, before := at.Add(-time.Nanosecond).In(s.zone).Zone()
	_, now := at.In(s.zone).Zone()
	return time.Duration(now-before) * time.Second
}

// isRepeated reports whether the moment has come already, before the clocks were set back.
func (s *Schedule) isRepeated(expression string, at time.Time) bool {
	began, _ := at.In(s.zone).ZoneBounds()
	if began.IsZero() || at.Sub(began) >= -s.skipped(began) {
		return false
	}
	segments, _ := gronx.Segments(expression) // second, minute, hour, …
	return len(segments) > 2 && !strings.HasPrefix(segments[2], "*")
}

// Number implements Timetable. A number is the moment for which the round was due. So of several
// that were missed, the latest counts, and none comes twice.
func (s *Schedule) Number(now time.Time, last int64) (int64, bool) {
	latest := s.latest(now)
	return latest.Unix(), !latest.IsZero() && latest.Unix() > last
}

// latest returns the latest moment until now, or the zero time.
func (s *Schedule) latest(now time.Time) (latest time.Time) {
	for _, expression := range s.cron {
		if at := s.latestOf(expression, now.Round(0)); at.After(latest) {
			latest = at
		}
	}
	return latest
}

// latestOf returns the latest moment of one expression. It searches with next, because the library
// finds no earlier moment near a change of the clocks.
func (s *Schedule) latestOf(expression string, now time.Time) (latest time.Time) {
	comesAfter := func(unix int64) (at time.Time, ok bool) {
		at = s.next(expression, time.Unix(unix, 0))
		return at, !at.IsZero() && !at.After(now)
	}
	end := now.Unix() // no moment comes after it
	for back := int64(60); latest.IsZero() && back < longestPeriod; back *= 2 {
		begin := now.Unix() - back
		at, ok := comesAfter(begin)
		if !ok {
			end = begin
			continue
		}
		for latest = at; end-begin > 1; {
			middle := begin + (end-begin)/2
			if at, ok := comesAfter(middle); ok {
				begin, latest = max(middle, at.Unix()-1), at
			} else {
				end = middle
			}
		}
	}
	return latest
}

// longestPeriod is more than there is between two moments of an expression, in seconds.
const longestPeriod = 20 * 366 * 24 * 60 * 60

// AtStart implements Timetable.
func (s *Schedule) AtStart() bool { return s.atStart }

func (s *Schedule) String() string { return s.text }
