package timing

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cron is a cron expression. It means what it means to a CronJob of Kubernetes: if both day fields
// restrict the days, a day needs to satisfy one of them. Beyond that it knows L, W and #.
type cron struct {
	minutes, hours, months set
	days                   func(day time.Time) bool
	// opensHour says that the field of the hour begins with *.
	opensHour bool
}

// set is a set of numbers below 64.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// cronField is one field of an expression.
type cronField struct {
	name, bounds string
	low, high    int
	names        []string // of the numbers from low on
}

var cronFields = [5]cronField{
	{name: "minute", bounds: "0 to 59", high: 59},
	{name: "hour", bounds: "0 to 23", high: 23},
	{name: "day of the month", bounds: "1 to 31", low: 1, high: 31},
	{name: "month", bounds: "1 to 12, or JAN to DEC", low: 1, high: 12, names: []string{
		"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
	}},
	{name: "day of the week", bounds: "0 to 6, or SUN to SAT", high: 6, names: weekdays},
}

var weekdays = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// cronNames are short forms.
var cronNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// clock matches a time of the day.
var clock = regexp.MustCompile(`^0?(\d{1,2}):0?(\d{1,2})$`)

// parseCron reads an expression with five fields, or one of cronNames. An error names the expression
// and the field.
func parseCron(expression string) (*cron, error) {
	long, isName := cronNames[strings.ToLower(strings.TrimSpace(expression))]
	if !isName {
		long = expression
	}
	if strings.HasPrefix(strings.TrimSpace(long), "@") {
		return nil, fmt.Errorf("%q is no cron expression, such as \"0 3 * * *\" for three o'clock at "+
			"night, @hourly, @daily or %s", expression, AtStart)
	}
	texts := strings.Fields(long)
	if m := clock.FindStringSubmatch(strings.TrimSpace(long)); m != nil {
		return nil, fmt.Errorf("%q is no cron expression: write \"%s %s * * *\" for every day at that "+
			"time", expression, m[2], m[1])
	}
	if len(texts) == 1 {
		return nil, fmt.Errorf("%q is no cron expression, which has five fields: minute, hour, day of the "+
			"month, month, day of the week, such as \"0 19 * * *\"", expression)
	}
	if len(texts) != len(cronFields) {
		return nil, fmt.Errorf("%q has %d fields; a cron expression has five: "+
			"minute, hour, day of the month, month, day of the week", expression, len(texts))
	}
	var fields [len(cronFields)]field
	for i, text := range texts {
		var ok bool
		if fields[i], ok = cronFields[i].parse(text); !ok {
			return nil, fmt.Errorf("%q is no cron expression: %q is no %s, which goes from %s",
				expression, text, cronFields[i].name, cronFields[i].bounds)
		}
	}
	ofMonth, ofWeek := fields[2], fields[4]
	days := func(day time.Time) bool {
		inMonth, inWeek := ofMonth.has(day.Day(), day), ofWeek.has(int(day.Weekday()), day)
		if ofMonth.isOpen || ofWeek.isOpen {
			return inMonth && inWeek
		}
		return inMonth || inWeek
	}
	return &cron{
		minutes: fields[0].numbers, hours: fields[1].numbers, months: fields[3].numbers, days: days,
		opensHour: strings.HasPrefix(texts[1], "*"),
	}, nil
}

// field is what one field selects: numbers, and days that depend on their month.
type field struct {
	numbers set
	days    []func(day time.Time) bool
	isOpen  bool // it restricts nothing: a part of it is *
}

// has reports whether the field selects a day, whose number in the field is n.
func (f field) has(n int, day time.Time) bool {
	return f.numbers.has(n) ||
		slices.ContainsFunc(f.days, func(is func(time.Time) bool) bool { return is(day) })
}

// parse reads a field: parts with commas between them.
func (f *cronField) parse(text string) (out field, ok bool) {
	for part := range strings.SplitSeq(strings.ToUpper(text), ",") {
		if is := f.special(part); is != nil {
			out.days = append(out.days, is)
			continue
		}
		low, high, step, ok := f.span(part)
		if !ok {
			return field{}, false
		}
		isAll := strings.HasPrefix(part, "*") || strings.HasPrefix(part, "?")
		out.isOpen = out.isOpen || isAll && step == 1
		for n := low; n <= high; n += step {
			if f.isWeekday() {
				out.numbers |= 1 << (n % 7)
			} else {
				out.numbers |= 1 << n
			}
		}
	}
	return out, true
}

func (f *cronField) isWeekday() bool { return f.high == 6 }

// span reads *, N, N-M, and each of them with /STEP. N/STEP goes on to the end.
func (f *cronField) span(part string) (low, high, step int, ok bool) {
	span, stepText, hasStep := strings.Cut(part, "/")
	if step = 1; hasStep {
		if step, ok = number(stepText); !ok || step < 1 {
			return 0, 0, 0, false
		}
		step = min(step, f.high+1) // which leaves the first number alone, too
	}
	if span == "*" || span == "?" {
		return f.low, f.high, step, true
	}
	first, last, isRange := strings.Cut(span, "-")
	if low, ok = f.number(first); !ok {
		return 0, 0, 0, false
	}
	switch high = low; {
	case isRange:
		if high, ok = f.number(last); !ok {
			return 0, 0, 0, false
		}
		if f.isWeekday() && low == 7 && high != 7 {
			low = 0 // a week that begins with Sunday
		}
	case hasStep:
		if f.isWeekday() {
			low %= 7
		}
		high = f.high
	}
	return low, high, step, low <= high
}

// number reads a number within the bounds, or a name. 7 is a day of the week, too: Sunday.
func (f *cronField) number(text string) (n int, ok bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.low + i, true
	}
	high := f.high
	if f.isWeekday() {
		high = 7
	}
	n, ok = number(text)
	return n, ok && n >= f.low && n <= high
}

// number reads digits.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && text[0] != '+' && text[0] != '-'
}

// special returns what tells the days that a part with L, W or # selects; nil if it is none:
//
//	L     the last day of the month
//	15W   the day from Monday to Friday that is nearest to the 15th, in the same month
//	5L    the last Friday of the month
//	5#2   the second Friday of the month
func (f *cronField) special(part string) func(day time.Time) bool {
	switch {
	case f.name == "day of the month" && part == "L":
		return func(day time.Time) bool { return day.Day() == lastDay(day) }
	case f.name == "day of the month" && strings.HasSuffix(part, "W"):
		if n, ok := f.number(strings.TrimSuffix(part, "W")); ok {
			return func(day time.Time) bool { return day.Day() == nearestWorkday(day, n) }
		}
	case f.isWeekday() && strings.HasSuffix(part, "L"):
		if n, ok := f.number(strings.TrimSuffix(part, "L")); ok {
			return func(day time.Time) bool {
				return int(day.Weekday()) == n%7 && day.Day() > lastDay(day)-7
			}
		}
	case f.isWeekday():
		first, nth, _ := strings.Cut(part, "#")
		n, isDay := f.number(first)
		if k, ok := number(nth); isDay && ok && k >= 1 && k <= 5 {
			return func(day time.Time) bool { return int(day.Weekday()) == n%7 && (day.Day()-1)/7 == k-1 }
		}
	}
	return nil
}

// lastDay returns the number of days in the month of a day.
func lastDay(day time.Time) int {
	return time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWorkday returns the day from Monday to Friday that is nearest to the nth, in the month of a
// day, or 0 if the month has no nth.
func nearestWorkday(day time.Time, n int) int {
	last := lastDay(day)
	if n > last {
		return 0
	}
	for _, off := range []int{0, -1, 1, -2, 2} {
		at := time.Date(day.Year(), day.Month(), n+off, 0, 0, 0, 0, time.UTC).Weekday()
		if n+off >= 1 && n+off <= last && at != time.Saturday && at != time.Sunday {
			return n + off
		}
	}
	return 0 // cannot happen
}

// next returns the first moment after a time and before another, on a clock that never changes, or
// the zero time.
func (c *cron) next(after, before time.Time, clock *time.Location) time.Time {
	at := after.In(clock)
	at = time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute()+1, 0, 0, clock)
	for at.Before(before) {
		year, month, day := at.Date()
		switch {
		case !c.months.has(int(month)):
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, clock)
		case !c.days(at):
			at = time.Date(year, month, day+1, 0, 0, 0, 0, clock)
		case !c.hours.has(at.Hour()):
			at = time.Date(year, month, day, at.Hour()+1, 0, 0, 0, clock)
		case !c.minutes.has(at.Minute()):
			at = at.Add(time.Minute)
		default:
			return at
		}
	}
	return time.Time{}
}
