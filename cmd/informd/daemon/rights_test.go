package daemon

import (
	"net/http"
	"slices"
	"testing"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/admin"
)

type retries []string

func (r *retries) Status() admin.Status { return admin.Status{} }

func (r *retries) RetryRule(rule, object string) (int, error) {
	*r = append(*r, rule+object)
	return 1, nil
}

// When a right was granted, the rules try again that had a refused action, each once, and no others.
func TestRetryAfterGrant(t *testing.T) {
	t.Parallel()
	r := new(retries)
	p := &permissions{engine: r, woken: make(chan struct{}, 1)}
	for rule, code := range map[string]int{"well": http.StatusOK, "refused": http.StatusForbidden, "failing": http.StatusInternalServerError} {
		p.acted(action.Done{By: action.By{Rule: rule}, Code: code})
	}
	p.acted(action.Done{By: action.By{Rule: "refused"}, Code: http.StatusForbidden})
	for range 2 {
		p.retry()
	}
	if !slices.Equal(*r, retries{"refused"}) || len(p.woken) != 1 {
		t.Errorf("tried again: %v; woken: %d", *r, len(p.woken))
	}
}
