package action

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/plugins/handler"
)

// maxReasons bounds the errors that an error about several actions quotes.
const maxReasons = 3

// failures collects the errors of the deletions of a prune.
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

// isFinal reports whether no try of the same action will succeed.
func isFinal(err error) bool { return errors.Is(err, handler.ErrReject) }

// of returns one error about n of something, such as deletions. It is final only if all errors are,
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

// InTrouble reports whether an error of an Executor says that the API server cannot be reached, or
// is overloaded, so that other requests most likely fail as well. What a webhook or a policy of the
// cluster answers, or that it cannot be called, concerns one request alone, whatever the code.
func InTrouble(err error) bool {
	code, ok := serverCode(err)
	switch code {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return ok
	}
	return false
}

// isInternal reports whether the API server itself failed with one request. Others may succeed: it
// may not be able to call the webhook that converts one kind, say.
func isInternal(err error) bool {
	code, ok := serverCode(err)
	return ok && code >= http.StatusInternalServerError && !InTrouble(err)
}

// serverCode returns the code of an error that may be the API server's own fault, 0 if it did not
// answer. ok is false for others.
func serverCode(err error) (code int, ok bool) {
	f, ok := errors.AsType[*failure](err)
	if !ok || isFinal(err) || f.admission || f.reason == noResource {
		return 0, false
	}
	if s, is := errors.AsType[*apierrors.StatusError](f.cause); is { // of discovery
		return int(s.Status().Code), true
	}
	return f.code, true
}

// maxInternal is after how many failures in a row the API server is in trouble that each might
// concern one request alone.
const maxInternal = 3

// Troubles judges by the results of requests whether further ones would most likely fail, too. The
// zero Troubles is ready.
type Troubles struct{ inRow int }

// Add notes what came of a request. It reports whether the API server is in trouble: [InTrouble]
// says so, or it failed itself with three requests in a row. With isRepeat, the request failed like
// that before, and does not count.
func (t *Troubles) Add(err error, isRepeat bool) bool {
	switch {
	case !isInternal(err):
		t.inRow = 0
		return InTrouble(err)
	case !isRepeat:
		t.inRow++
	}
	return t.inRow >= maxInternal
}

// IsNotServed reports whether an error of an Executor says that the cluster does not serve a
// resource.
func IsNotServed(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.reason == noResource
}
