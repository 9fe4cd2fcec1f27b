package handlertest

import (
	"context"
	"time"
)

// CheckClause checks one clause alone, with little patience.
func CheckClause(ctx context.Context, o Options, name string) (_ Result, found bool) {
	for _, c := range clauses {
		if c.name == name {
			s := newSuite(o)
			s.patience = 5 * time.Second
			return s.check(ctx, c), true
		}
	}
	return Result{}, false
}
