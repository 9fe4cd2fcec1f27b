package action

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/informd/informd/plugins/handler"
)

// failures are what went wrong of a rule's own actions.
type failures struct {
	count int
	first error // that is worth another try, if one is
	again bool  // first is
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

// of makes one error of those of n actions: for good only if all of them are.
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

// inTrouble tells whether an error is the API server's own, so that others will most likely fail as well.
func inTrouble(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && !errors.Is(err, handler.ErrReject) && (f.code == 0 || f.code == http.StatusTooManyRequests || f.code >= http.StatusInternalServerError)
}
