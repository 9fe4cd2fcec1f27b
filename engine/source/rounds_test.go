package source

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/timing"
)

// A clock that is set after a restart does not move the next resync, which comes after a time. It
// moves the next moment of a schedule.
func TestNextRoundAfterARestart(t *testing.T) {
	t.Parallel()
	hourly, err := timing.NewSchedule([]string{"@hourly"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, ago := range []time.Duration{5 * time.Minute, -3 * time.Hour} {
		every := timing.Every(10 * time.Minute)
		f := newFeed(clock.RealClock{}, slog.New(slog.DiscardHandler), nil, "", &counts{}, 1)
		f.setRounds([]timing.Timetable{every, hourly})
		now := time.Now()
		for _, table := range []timing.Timetable{every, hourly} {
			f.lastRound(table, now.Add(-ago).Unix(), true)
		}
		next := f.roundsOf(every).next
		if want := now.Add(10*time.Minute - max(ago, 0)); next.Sub(want).Abs() > 2*time.Second {
			t.Errorf("%v after a resync the next one comes at %v, want %v", ago, next, want)
		}
		if !strings.Contains(next.String(), "m=") {
			t.Errorf("%v after a resync the next one comes by the clock", ago)
		}
		if next := f.roundsOf(hourly).next; strings.Contains(next.String(), "m=") {
			t.Errorf("%v after a moment the next one does not come by the clock", ago)
		}
	}
}
