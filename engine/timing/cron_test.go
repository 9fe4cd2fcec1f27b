package timing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/timing"
)

// Fields mean what they mean to a CronJob. The moments are those after Sunday, 1 March 2026.
func TestCron(t *testing.T) {
	for _, test := range []struct{ cron, want string }{
		{"0 0 * * 1-7", "Mon02 Tue03 Wed04 Thu05 Fri06 Sat07 Sun08"},
		{"0 0 * * 0-7", "Mon02 Tue03 Wed04 Thu05 Fri06 Sat07 Sun08"},
		{"0 0 * * 6-7", "Sat07 Sun08 Sat14"},
		{"0 0 * * 7-7", "Sun08 Sun15"},
		{"0 0 * * 7", "Sun08 Sun15"},
		{"0 0 * * 7-2", "Mon02 Tue03 Sun08"},
		{"0 0 * * 7/2", "Tue03 Thu05 Sat07 Sun08"},
		{"0 0 * * 4-7/3", "Thu05 Sun08 Thu12"},
		{"0 0 * * */2", "Tue03 Thu05 Sat07 Sun08"},
		{"0 0 * * 5/1", "Fri06 Sat07 Fri13"},
		{"0 0 * * mon,Wed-fri", "Mon02 Wed04 Thu05 Fri06 Mon09"},
		// both day fields: one of them suffices, unless one is *
		{"0 0 13 * 5", "Fri06 Fri13 Fri20"},
		{"0 0 5 * FRI", "Thu05 Fri06 Fri13"},
		{"0 0 */10 * 5", "Fri06 Wed11 Fri13 Fri20 Sat21"},
		{"0 0 5 * */3", "Wed04 Thu05 Sat07"},
		{"0 0 * * 5", "Fri06 Fri13"},
		{"0 0 5 * *", "Thu05 Sun05"},
		{"0 0 ? * 5", "Fri06 Fri13"},
		{"0 0 1-31/7 * ?", "Sun08 Sun15 Sun22 Sun29 Wed01"},
		{"0 0 */1 * 5", "Fri06 Fri13"},
		// beyond CronJobs
		{"0 0 L * *", "Tue31 Thu30 Sun31"},
		{"0 0 15W * *", "Mon16 Wed15 Fri15"},
		{"0 0 31W * *", "Tue31 Fri29 Fri31 Mon31 Fri30"}, // May 31 is a Sunday; no April, no June
		{"0 0 1W 8,11 *", "Mon03 Mon02 Mon02"},
		{"0 0 * * 5L", "Fri27 Fri24 Fri29"},
		{"0 0 * * 7L", "Sun29 Sun26"},
		{"0 0 * * FRI#2", "Fri13 Fri10"},
		{"0 0 * * 0#5", "Sun29 Sun31"},
		{"0 0 * 2 5#5", "Fri29"}, // of 2036
		{"0 0 1-31/9223372036854775807 * *", "Wed01 Fri01"},
		{"@midnight", "Mon02 Tue03"},
		{"@Weekly", "Sun08 Sun15"},
		{"@monthly", "Wed01 Fri01"},
		{"@yearly", "Fri01 Sat01"},
	} {
		s, err := timing.NewSchedule([]string{test.cron}, "")
		if err != nil {
			t.Error(err)
			continue
		}
		at, got := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), []string{}
		for range strings.Fields(test.want) {
			at = s.Next(at)
			got = append(got, at.Format("Mon02"))
			if at.Hour()+at.Minute()+at.Second() != 0 {
				t.Errorf("%s comes at %s", test.cron, at)
			}
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.cron, diff)
		}
	}
}

func TestNoCron(t *testing.T) {
	for _, cron := range []string{
		"0 3 * * 1-5-7", "0 3 * * 8", "0 3 * * 5-2", "0 3 * * 1/", "0 3 * * 1/0", "0 3 * * /2", "0 3 * * 1//2",
		"0 3 * * 1/2/3", "0 3 * * ,", "0 3 * * 1,", "0 3 * * +1", "0 3 * * -1", "0 3 * * 1-", "0 3 * * **", "0 3 * * 5#6",
		"0 3 * * 5#0", "0 3 * * 5#", "0 3 * * #2", "0 3 * * L", "0 3 * * MONDAY", "0 3 * * JAN", "0 3 * * W", "0 3 0 * *",
		"0 3 32 * *", "0 3 W * *", "0 3 32W * *", "0 3 0W * *", "0 3 5L * *", "0 3 LW * *", "0 3 MON * *", "0 3 * 13 *", "0 3 * 0 *",
		"0 3 * MON *", "MON 3 * * *", "60 * * * *", "0 24 * * *", "0 -1 * * *", "0 1.5 * * *", "0 ٣ * * *", "0 3 31 2,4 *", "0 3 30 2 *",
		"0 3 31W 2 *", "* * * * * *", "@", "@every 1h", "@5minutes", "@everysecond", "@reboot", "TZ=UTC 0 3 * * *", "", "a", "0 99999999999999999999 * * *",
	} {
		if s, err := timing.NewSchedule([]string{cron}, ""); err == nil {
			t.Errorf("%q comes at %s", cron, s.Next(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))
		}
	}
}

// Moments are exactly the minutes of which all fields hold, whatever they are.
func TestCronMinuteByMinute(t *testing.T) {
	began := time.Date(2026, 2, 27, 22, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		cron string
		is   func(time.Time) bool
	}{
		{"* * * * *", func(time.Time) bool { return true }},
		{"*/7 2-4,23 * * *", func(at time.Time) bool {
			return at.Minute()%7 == 0 && slices.Contains([]int{2, 3, 4, 23}, at.Hour())
		}},
		{"5/20 */6 1 3 *", func(at time.Time) bool {
			return slices.Contains([]int{5, 25, 45}, at.Minute()) && at.Hour()%6 == 0 && at.Day() == 1 && at.Month() == 3
		}},
		{"59 0 28 * SUN", func(at time.Time) bool {
			return at.Minute() == 59 && at.Hour() == 0 && (at.Day() == 28 || at.Weekday() == time.Sunday)
		}},
	} {
		s, err := timing.NewSchedule([]string{test.cron}, "")
		if err != nil {
			t.Fatal(err)
		}
		next := s.Next(began.Add(-time.Second))
		for at := began; at.Before(began.AddDate(0, 0, 10)); at = at.Add(time.Minute) {
			if is := next.Equal(at); is != test.is(at) {
				t.Fatalf("%s: at %s the next is %s", test.cron, at, next)
			} else if is {
				next = s.Next(at)
			}
		}
	}
}

// At Antarctica/Troll clocks are set back by two hours, so more than a hundred minutes are repeated.
func TestManyRepeatedMoments(t *testing.T) {
	for _, zone := range []string{"Antarctica/Troll", "Australia/Lord_Howe", "Europe/Berlin"} {
		s, err := timing.NewSchedule([]string{"* 0-23 * * *"}, zone)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for at, end := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 26, 0, 0, 0, 0, time.UTC); at.Before(end); {
			next := s.Next(at)
			shows := next.Format(time.DateTime)
			if next.IsZero() || next.Sub(at) > 2*time.Hour+time.Minute || seen[shows] {
				t.Fatalf("%s: after %s comes %s, again: %t", zone, at, next, seen[shows])
			}
			seen[shows], at = true, next
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, cron := range []string{"*/5 * * * *", "0 3 * * *", "0 0 29 2 *"} {
		b.Run(fmt.Sprint(cron), func(b *testing.B) {
			s, err := timing.NewSchedule([]string{cron}, "Europe/Berlin")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s.Next(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
			}
		})
	}
}
