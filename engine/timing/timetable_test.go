package timing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/timing"
)

// TestScheduleOverChangesOfTheClocks has the moments around the two changes of 2026: on 29 March at
// 2:00 clocks in Berlin are set to 3:00, on 25 October at 3:00 to 2:00.
func TestScheduleOverChangesOfTheClocks(t *testing.T) {
	for _, test := range []struct {
		cron, zone, after, want string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00",
			"2026-03-28T02:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			"2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00"},
		{"30 1 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			"2026-03-29T01:30:00+01:00 2026-03-30T01:30:00+02:00"},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T01:10:00+01:00",
			"2026-03-29T01:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
			"2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
			"2026-10-25T03:00:00+01:00 2026-10-26T03:00:00+01:00"},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T02:10:00+02:00",
			"2026-10-25T02:30:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:30:00+01:00 2026-10-25T03:00:00+01:00"},
		{"0 * * * *", "", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"},
		{"@daily", "America/Havana", "2026-10-31T12:00:00-04:00", // at 1:00 set to 0:00
			"2026-11-01T00:00:00-04:00 2026-11-02T00:00:00-05:00"},
		{"0 0 29 2 *", "Asia/Tokyo", "2026-01-01T00:00:00+09:00", "2028-02-29T00:00:00+09:00 2032-02-29T00:00:00+09:00"},
	} {
		t.Run(test.cron+" "+test.after, func(t *testing.T) {
			s, err := timing.NewSchedule([]string{test.cron}, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, test.after)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range strings.Fields(test.want) {
				at = s.Next(at)
				got = append(got, at.Format(time.RFC3339))
				for _, later := range []time.Duration{0, time.Second, 29 * time.Minute} {
					if n, ok := s.Number(at.Add(later), 0); n != at.Unix() || !ok {
						t.Errorf("%s after %s it is %s, %t", later, at, time.Unix(n, 0), ok)
					}
					if _, ok := s.Number(at.Add(later), at.Unix()); ok {
						t.Errorf("%s comes twice", at)
					}
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSeveralExpressions(t *testing.T) {
	s, err := timing.NewSchedule([]string{"0 6 * * *", timing.AtStart, "0 18 * * *"}, "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	if next := s.Next(at); next.Hour() != 18 {
		t.Errorf("next is %s", next)
	}
	if n, ok := s.Number(at, 0); n != at.Add(-6*time.Hour).Unix() || !ok {
		t.Errorf("the number is %s, %t", time.Unix(n, 0), ok)
	}
	if !s.AtStart() {
		t.Error("there is no round at the start")
	}
}

func TestMistakenSchedules(t *testing.T) {
	for _, test := range []struct{ cron, zone, want string }{
		{"19:00", "", `"19:00" is no cron expression: write "0 19 * * *" for every day at that time`},
		{"07:05", "", `"07:05" is no cron expression: write "5 7 * * *" for every day at that time`},
		{"nightly", "", `"nightly" is no cron expression, which has five fields: minute, hour, day of the month, month, day of the week, such as "0 19 * * *"`},
		{"0 3 * *", "", `"0 3 * *" has 4 fields; a cron expression has five: minute, hour, day of the month, month, day of the week`},
		{"0 0 3 * * *", "", `"0 0 3 * * *" has 6 fields; a cron expression has five: minute, hour, day of the month, month, day of the week`},
		{"0 25 * * *", "", `"0 25 * * *" is no cron expression: "25" is no hour, which goes from 0 to 23`},
		{"0 3 * * MOM", "", `"0 3 * * MOM" is no cron expression: "MOM" is no day of the week, which goes from 0 to 6, or SUN to SAT`},
		{"@noon", "", `"@noon" is no cron expression, such as "0 3 * * *" for three o'clock at night, @hourly, @daily or @start`},
		{"0 0 31 2 *", "", `"0 0 31 2 *" never comes`},
		{"0 3 * * *", "Berlin", `there is no time zone "Berlin"; write a name such as Europe/Berlin or UTC`},
		{"0 3 * * *", "Local", `there is no time zone "Local"; write a name such as Europe/Berlin or UTC`},
	} {
		_, err := timing.NewSchedule([]string{test.cron}, test.zone)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s %s: %v, want %s", test.cron, test.zone, err, test.want)
		}
	}
}

// A round that was missed is found on the days when clocks change, too.
func TestLatestNearChangesOfTheClocks(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"} {
		for _, cron := range []string{"0 0 * * 0", "15 1 * 3,10 0", "0 0 29 2 *", "30 2 * * *"} {
			s, err := timing.NewSchedule([]string{cron}, zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, began := range []string{"2025-10-25", "2026-02-14", "2026-03-28", "2026-04-04"} {
				now, err := time.Parse(time.DateOnly, began)
				if err != nil {
					t.Fatal(err)
				}
				for range 8 {
					now = now.Add(7*time.Hour + 37*time.Minute)
					number, ok := s.Number(now, 0)
					latest := time.Unix(number, 0)
					if again := s.Next(latest.Add(-time.Second)); !ok || !again.Equal(latest) {
						t.Errorf("%s, %q: the latest until %v is %v", zone, cron, now, latest)
					} else if next := s.Next(latest); !next.After(now) {
						t.Errorf("%s, %q: the latest until %v is %v, before %v", zone, cron, now, latest, next)
					}
				}
			}
		}
	}
}
