package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
)

// A failure that follows a conflict is a failure like any other.
func TestFailureAfterConflict(t *testing.T) {
	for name, failure := range map[string]error{
		"an error":              errors.New("500"),
		"one with its own time": Later(time.Minute, errors.New("b waits")),
	} {
		r := Retry{}.withDefaults()
		var d delivery.Delivery
		for range renewAfter {
			d, _ = r.judge(d, ErrStale)
		}
		equal(t, name+": refusals", d.Refusals, renewAfter)
		d, _ = r.judge(d, failure)
		equal(t, name+": refusals after it", d.Refusals, 0)
		equal(t, name+": failures", d.Failures, 1)
	}
}
