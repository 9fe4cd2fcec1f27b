package handlertest

import "context"

// CheckClause checks one clause alone.
func CheckClause(ctx context.Context, o Options, name string) (_ Result, found bool) {
	for _, c := range clauses {
		if c.name == name {
			return newSuite(o).check(ctx, c), true
		}
	}
	return Result{}, false
}
