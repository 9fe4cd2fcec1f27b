package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

var bareNumber = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]*)?$`)

// duration reads a duration from low to high in Go's syntax. If zero is set, it also takes 0, which
// needs no unit.
func (r *reader) duration(
	n *yaml.Node, what string, zero bool, low, high, missing time.Duration) time.Duration {
	if n == nil || r.reported[n] {
		return missing
	}
	if n.Kind != yaml.ScalarNode {
		r.mistake(n, "%s must be a duration such as 10m or 1h30m, not %s", what, describe(n))
		return missing
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case err == nil && zero && d == 0:
		return d
	case err == nil && d < 0:
		r.mistake(n, "%s must not be negative", what)
	case err == nil && (d < low || d > high):
		or := ""
		if zero {
			or = "0 or "
		}
		r.mistake(n, "%s must be %sfrom %s to %s, not %s",
			what, or, ShortDuration(low), ShortDuration(high), ShortDuration(d))
	case err == nil:
		return d
	case bareNumber.MatchString(n.Value):
		r.mistake(n, "%s is missing its unit: write %ss for seconds, %[2]sm for minutes",
			what, clip(n.Value, maxQuoted))
	default:
		hint := ""
		if m := inDays.FindStringSubmatch(n.Value); m != nil {
			days, _ := strconv.Atoi(m[1])
			if strings.HasPrefix(m[2], "w") {
				days *= 7
			}
			rest, _ := time.ParseDuration(m[3])
			hint = "; the longest unit is the hour: write " + ShortDuration(time.Duration(days)*day+rest)
		}
		r.mistake(n, "%s is not a duration such as 10m or 1h30m: %s%s", what, quote(n.Value), hint)
	}
	return missing
}

// ShortDuration returns d's text without zero units at its end: 5m, not 5m0s.
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// inDays matches a duration of days or weeks, and what follows them.
var inDays = regexp.MustCompile(`^(\d{1,4}) ?(d|days?|w|weeks?)((?:\d+[hms])*)$`)
