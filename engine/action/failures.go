package action

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/informd/informd/plugins/handler"
)

// failures collects the errors of a rule's own actions.
type failures struct {
	count int
	first error // one that is worth another try, if there is any
	again bool  // first is worth another try
	stale error // the first conflict
}

func (f *failures) add(err error) {
	f.count++
	again := !errors.Is(err, handler.ErrReject)
	if f.first == nil || again && !f.again {
		f.first, f.again = err, again
	}
	if f.stale == nil && errors.Is(err, ErrConflict) {
		f.stale = err
	}
}

// of returns one error for n actions. It is final only if all of them are.
func (f *failures) of(n int) error {
	switch {
	case f.count == 0:
		return nil
	case f.count == 1:
		return f.first
	case f.stale != nil:
		return fmt.Errorf("%d of %d actions failed, one of them: %w", f.count, n, f.stale)
	}
	return fmt.Errorf("%d of %d actions failed, one of them: %w", f.count, n, f.first)
}

// inTrouble reports whether the API server itself fails, so that other requests most likely fail as
// well.
func inTrouble(err error) bool {
	f, ok := errors.AsType[*failure](err)
	if !ok || errors.Is(err, handler.ErrReject) {
		return false
	}
	return f.code == 0 || f.code == http.StatusTooManyRequests ||
		f.code >= http.StatusInternalServerError
}
