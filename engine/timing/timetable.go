package timing

import (
	"fmt"
	"strings"
	"time"
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
	// SkipsMissed says that moments which come while informd does not run are left out. It does not
	// change once the Schedule is in use.
	SkipsMissed bool

	cron    []*cron
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
		parsed, err := parseCron(expression)
		if err != nil {
			return nil, err
		}
		s.cron = append(s.cron, parsed)
		if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, at)).IsZero() {
			return nil, fmt.Errorf("%q never comes", expression)
		}
	}
	return s, nil
}

// Next implements Timetable.
//
// Where clocks are set forward, a moment that is skipped comes when they have been set. Where they
// are set back, a moment that would come twice comes the first time only, unless the hour is open,
// as in "0 * * * *".
func (s *Schedule) Next(after time.Time) (next time.Time) {
	for _, c := range s.cron {
		next = Earlier(next, s.next(c, after.Round(0)))
	}
	return next
}

// next returns the next moment of one expression. It goes from one change of the clocks to the
// next, and between them asks the expression as if they never changed.
func (s *Schedule) next(c *cron, after time.Time) time.Time {
	never := after.Add(longestPeriod * time.Second)
	for began := after; began.Before(never); { // began is in the period between two changes
		_, end := began.In(s.zone).ZoneBounds()
		if end.IsZero() {
			end = never
		}
		at := c.next(after, end.Add(max(s.skipped(end), 0)), s.clockAt(began))
		switch {
		case at.IsZero():
			began, after = end, end.Add(-time.Second)
		case !at.Before(end):
			return end
		case !c.opensHour && at.Before(s.repeatedUntil(at)):
			after = s.repeatedUntil(at).Add(-time.Second)
		default:
			return at.In(s.zone)
		}
	}
	return time.Time{}
}

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

// repeatedUntil returns until when clocks show a time that they have shown before, after they were
// set back before a moment; a time before the moment if they do not.
func (s *Schedule) repeatedUntil(at time.Time) time.Time {
	began, _ := at.In(s.zone).ZoneBounds()
	if began.IsZero() {
		return began
	}
	return began.Add(-s.skipped(began))
}

// Number implements Timetable. A number is the moment for which the round was due. So of several
// that were missed, the latest counts, and none comes twice.
func (s *Schedule) Number(now time.Time, last int64) (int64, bool) {
	latest := s.latest(now)
	return latest.Unix(), !latest.IsZero() && latest.Unix() > last
}

// latest returns the latest moment until now, or the zero time.
func (s *Schedule) latest(now time.Time) (latest time.Time) {
	for _, c := range s.cron {
		if at := s.latestOf(c, now.Round(0)); at.After(latest) {
			latest = at
		}
	}
	return latest
}

// latestOf returns the latest moment of one expression. It searches with next, which knows about
// changes of the clocks.
func (s *Schedule) latestOf(c *cron, now time.Time) (latest time.Time) {
	comesAfter := func(unix int64) (at time.Time, ok bool) {
		at = s.next(c, time.Unix(unix, 0))
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

// longestPeriod is more than there is between two moments of an expression, in seconds: between two
// Februaries with a fifth Friday, over a year such as 2100 without a leap day.
const longestPeriod = 41 * 366 * 24 * 60 * 60

// AtStart implements Timetable.
func (s *Schedule) AtStart() bool { return s.atStart }

func (s *Schedule) String() string { return s.text }
