package host

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/informd/informd/plugins/host/process"
	"github.com/informd/informd/plugins/host/session"
)

// complaints logs failures: a new one at once, the same one again only after a while, which doubles
// from a minute to an hour. What it leaves out is counted, and stands in the status.
type complaints struct {
	log   *slog.Logger
	last  string
	again time.Time
	pause time.Duration
	quiet int // failures since the last line
}

func (c *complaints) about(state State, err error, pause time.Duration, now time.Time) {
	text := err.Error()
	if e, ok := errors.AsType[*process.ExitError](err); ok {
		text = e.Ending.Error() // its last words may contain the time
	}
	if text == c.last && now.Before(c.again) {
		c.quiet++
		return
	}
	if text != c.last {
		c.pause = 0
	}
	c.pause = min(max(2*c.pause, time.Minute), time.Hour)
	c.last, c.again = text, now.Add(c.pause)
	attrs := []any{"error", err.Error(),
		"next", pause.Round(time.Millisecond), "unreported", c.quiet}
	if lines := lastLog(err); len(lines) > 1 { // a single one is in the error
		attrs = append(attrs, "log", strings.Join(lines, " | "))
	}
	message := "handler failed"
	if state == Refused {
		message = "handler refused"
	}
	c.log.Error(message, attrs...)
	c.quiet = 0
}

func (c *complaints) forget() { *c = complaints{log: c.log} }

// lastLog returns the last lines on standard error of the process that err is about.
func lastLog(err error) []string {
	if e, ok := errors.AsType[*session.FailedError](err); ok {
		return e.LastLines
	}
	return nil
}
