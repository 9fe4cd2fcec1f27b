package daemon

import (
	"slices"
	"testing"

	"github.com/informd/informd/engine"
)

type retries struct {
	status engine.Status
	rules  []string
}

func (r *retries) Status() engine.Status { return r.status }

func (r *retries) RetryRule(rule, object string) (int, error) {
	r.rules = append(r.rules, rule+object)
	return 1, nil
}

// When a right was granted, the rules go on that have failed for want of one, and no others.
func TestRetryAfterGrant(t *testing.T) {
	t.Parallel()
	r := &retries{status: engine.Status{Rules: []engine.RuleStatus{
		{Name: "well"},
		{Name: "refused", Failure: "shop/a failed at 10:00:00, attempt 7: actions[0]: create of v1/secrets shop/a: 403 Forbidden: no"},
		{Name: "failing", Failure: "shop/a failed at 10:00:00, attempt 7: 500 Internal Server Error"},
	}}}
	(&permissions{engine: r}).retry()
	if !slices.Equal(r.rules, []string{"refused"}) {
		t.Errorf("tried again: %v", r.rules)
	}
}
