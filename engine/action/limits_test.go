package action

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rates
		take := func(by By, n int) time.Duration {
			t.Helper()
			began := time.Now()
			for range n {
				if err := r.wait(t.Context(), by); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if took := take(By{Rule: "a", Handler: "h"}, burst); took != 0 {
			t.Errorf("a full burst took %v", took)
		}
		if took := take(By{Rule: "b", Handler: "h"}, perSecond); took < 990*time.Millisecond || took > time.Second {
			t.Errorf("the handler's next, for another rule, took %v, want a second", took)
		}
		if took := take(By{Rule: "a", Handler: "other"}, burst) + take(By{Rule: "a"}, burst) + take(By{Rule: "b"}, burst); took != 0 {
			t.Errorf("other handlers waited for %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.wait(short, By{Rule: "a", Handler: "h"}); err == nil {
			t.Error("no error, although the deadline leaves no time to wait")
		}
		for i := range 2 * maxRates {
			take(By{Handler: fmt.Sprint(i)}, 1)
		}
		if len(r.of) > maxRates {
			t.Errorf("rates holds %d limits, want at most %d", len(r.of), maxRates)
		}
	})
}

func TestConflictsAreBounded(t *testing.T) {
	var c conflicts
	for i := range 2 * maxConflicts {
		c.another(contest{rule: fmt.Sprint(i)})
	}
	if len(c.of) != maxConflicts {
		t.Errorf("conflicts holds %d contests, want the %d that fit", len(c.of), maxConflicts)
	}
}
