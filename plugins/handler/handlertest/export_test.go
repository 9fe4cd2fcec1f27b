package handlertest

import (
	"context"
	"time"
)

// CheckClause checks one clause alone, with that patience.
func CheckClause(ctx context.Context, o Options, name string, patience time.Duration) (_ Result, found bool) {
	for _, c := range clauses {
		if c.name == name {
			s := newSuite(o)
			s.patience = patience
			return s.check(ctx, c), true
		}
	}
	return Result{}, false
}

// CheckWithin checks one clause alone, within limit.
func CheckWithin(ctx context.Context, o Options, name string, limit time.Duration) Result {
	o.Only = name
	s := newSuite(o)
	s.limit = limit
	return s.check(ctx, s.clauses()[1])
}

// CheckAllWithin checks the clauses, within limit if one does not hold.
func CheckAllWithin(ctx context.Context, o Options, limit time.Duration) (results []Result) {
	s := newSuite(o)
	s.total = limit
	s.run(ctx, func(r Result) bool {
		results = append(results, r)
		return true
	})
	return results
}
