package action

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// maxReasons bounds the errors that an error about several actions quotes.
const maxReasons = 3

// failures collects the errors of a rule's own actions, or those of the deletions of a prune.
type failures struct {
	count  int
	all    []string // the first distinct texts, at most maxReasons
	quotes bool     // one of all may quote an object
	again  error    // one that is worth another try
	final  error    // one that is not
	stale  error    // the first conflict
}

func (f *failures) add(err error) {
	f.count++
	if text := err.Error(); len(f.all) < maxReasons && !slices.Contains(f.all, text) {
		f.all = append(f.all, text)
		f.quotes = f.quotes || Quotes(err)
	}
	if isFinal(err) {
		f.final = err
		return
	}
	f.again = err
	if f.stale == nil && errors.Is(err, ErrConflict) {
		f.stale = err
	}
}

// of returns one error about n of something, such as actions. It is final only if all errors are,
// and a conflict if one is.
func (f *failures) of(n int, what string) error {
	is := f.final
	if f.again != nil {
		is = f.again
	}
	if f.stale != nil {
		is = f.stale
	}
	if f.count <= 1 {
		return is
	}
	text := fmt.Sprintf("%d of %d %s failed: %s", f.count, n, what, strings.Join(f.all, "; "))
	if more := f.count - len(f.all); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return &several{text: text, is: is, quotes: f.quotes}
}

// several is an error about several actions. It is what one of them is.
type several struct {
	text   string
	is     error
	quotes bool
}

func (s *several) Error() string { return s.text }
func (s *several) Unwrap() error { return s.is }

// inTrouble reports whether the API server itself fails, so that other requests most likely fail as
// well.
func inTrouble(err error) bool {
	f, ok := errors.AsType[*failure](err)
	if !ok || isFinal(err) {
		return false
	}
	return f.code == 0 || f.code == http.StatusTooManyRequests ||
		f.code >= http.StatusInternalServerError
}

// InTrouble reports whether an error of an Executor says that the API server cannot be reached, is
// overloaded, or fails itself.
func InTrouble(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && inTrouble(err) && f.reason != noResource
}
