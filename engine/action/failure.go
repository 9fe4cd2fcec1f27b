package action

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/internal/printable"
)

// failure says why a request was not done. As an error it asks for another try with the same
// answer, unless its reason says otherwise.
type failure struct {
	code   int // of the API server's answer; 0 if there was none
	reason reason
	text   string
	after  time.Duration
	cause  error
	// admission says that a webhook or a policy of the cluster refused the request. refusal names it,
	// in words of the API server that quote nothing; it may be empty.
	admission bool
	refusal   string
	// validation says that the API server itself found the object invalid: said leaves no values in that.
	validation bool
	isHidden   bool // hide has taken the API server's words out of text
	why        Why  // of an answer; whyIs knows that of other failures
}

// reason says what to do about a failure.
type reason uint8

const (
	again       reason = iota // another try may succeed
	never                     // no try will succeed
	notFound                  // there is no such object
	noNamespace               // there is no such namespace
	noResource                // the cluster does not serve it
	changed                   // it is not what the request was computed from
	exists                    // it is there already
	terminating               // its namespace is being deleted
)

const (
	maxText       = 768 // bytes, of the API server's own words
	maxRetryAfter = 10 * time.Minute
)

func (f *failure) Error() string { return f.text }

// quotes reports whether the API server's words may quote an object. Those of admission webhooks and
// of validation may. A missing permission or a missing object is reported without a quote.
func (f *failure) quotes() bool {
	switch {
	case f.isHidden:
		return false
	case f.admission:
		return true // with any code: a webhook chooses it
	}
	switch f.code {
	case 0, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict, http.StatusGone,
		http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	case http.StatusForbidden:
		return !forbiddenToUser.MatchString(f.text)
	case http.StatusUnprocessableEntity:
		return !unchangeable.MatchString(f.text)
	}
	return true
}

var (
	// forbiddenToUser matches what authorization and quotas say.
	forbiddenToUser = regexp.MustCompile(`^403 Forbidden: [\w.-]+( "[^"]*")? is forbidden: (` +
		`User "[^"]*" cannot \w+ resource |(exceeded|status unknown for) quota: ?|` +
		`user "[^"]*" \([^)]*\) is attempting to grant RBAC permissions not currently held:)`)
	// unchangeable matches what validation says about fields that cannot change, and nothing else.
	unchangeable = regexp.MustCompile(`^422 Unprocessable Entity` +
		"([:;] [\\w.]+: (Invalid value|Forbidden): field is immutable( when `immutable` is set)?)+$")
	// byAdmission matches what a webhook or a policy of the cluster says. It captures who refuses.
	byAdmission = regexp.MustCompile(
		`^(?:[\w.-]+(?: "[^"]*")? is forbidden: )?(?:Internal error occurred: )?` +
			`(?:(admission webhook "[\w.-]+" denied the request)|(failed calling webhook "[\w.-]+")|` +
			`((?:ValidatingAdmissionPolicy|policy) ['"][\w.-]+['"](?: with binding '[\w.-]+')? denied request)|` +
			`admission webhook |failed calling webhook |ValidatingAdmissionPolicy |policy ['"])`)
	// byValidation matches how the API server says that an object is invalid.
	byValidation = regexp.MustCompile(`^(?:\S* )?"[^"]*" is invalid`)
)

// hide takes the API server's words out of a failure to read or write a Secret, if they may quote it.
// It leaves who refused the request. What validation says has no values.
func (f *failure) hide() {
	if f.validation || !f.quotes() {
		return
	}
	text := "what the API server says is not shown, as it may quote a Secret"
	if f.refusal != "" {
		text = f.refusal + "; " + text
	}
	status := cmp.Or(http.StatusText(f.code), "from the API server")
	f.text, f.isHidden = fmt.Sprintf("%d %s: %s", f.code, status, text), true
}

// Quotes reports whether the text of an error of an Executor may quote an object.
func Quotes(err error) bool {
	if s, ok := errors.AsType[*several](err); ok {
		return s.quotes
	}
	f, ok := errors.AsType[*failure](err)
	return ok && f.quotes()
}

func (f *failure) Unwrap() error { return f.cause }

// contestable reports whether the request may have failed because the object has changed.
func (f *failure) contestable() bool {
	return f.reason == changed || f.reason == exists || f.reason == never
}

// stale returns an error that drops the answer.
func stale(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConflict}, args...)...)
}

// classify returns the failure of an answer that is not 2xx.
func classify(a answer) *failure {
	status := cmp.Or(http.StatusText(a.code), "from the API server")
	f := &failure{code: a.code, after: a.after, text: fmt.Sprintf("%d %s", a.code, status)}
	var s metav1.Status
	if a.status != nil {
		s = *a.status
		if by := byAdmission.FindStringSubmatch(s.Message); by != nil {
			f.admission, f.refusal = true, cmp.Or(by[1:]...)
		}
		isInvalid := s.Code == http.StatusUnprocessableEntity && byValidation.MatchString(s.Message)
		f.validation = isInvalid && !f.admission
		f.text += said(s, f.admission)
		if s.Details != nil && f.after == 0 {
			f.after = boundedAfter(int64(s.Details.RetryAfterSeconds))
		}
	}
	switch {
	case f.admission: // its code says nothing about the object
		if slices.Contains(forGood, a.code) {
			f.reason = never
		}
	case a.code == http.StatusNotFound:
		f.reason = missing(s)
	case a.code == http.StatusConflict && s.Reason == metav1.StatusReasonAlreadyExists:
		f.reason = exists
	case a.code == http.StatusConflict:
		f.reason = changed
	case a.code == http.StatusForbidden && hasCause(s, "NamespaceTerminating"):
		f.reason = terminating
	case a.code == http.StatusInternalServerError && blamesRequest(s.Message):
		f.reason = never
	case slices.Contains(forGood, a.code):
		f.reason = never
	}
	f.why = whyOf(f, s)
	return f
}

// notItsFault has the beginnings of messages that blame the request although their code is 500.
var notItsFault = []string{
	"failed to create typed patch object", // an applied object does not fit its schema
	"failed to convert new object",        // a value is wrong, as a Secret's that is not base64
	"etcdserver: request is too large",    // the object is too large for the store
}

// blamesRequest reports whether the message of an answer 500 says that the request is wrong.
func blamesRequest(message string) bool {
	return slices.ContainsFunc(notItsFault, func(beginning string) bool {
		return strings.HasPrefix(message, beginning)
	})
}

// forGood has the codes of answers that will not change with time.
var forGood = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
	http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// missing returns what an answer 404 says does not exist.
func missing(s metav1.Status) reason {
	switch d := s.Details; {
	case d == nil || d.Name == "":
		return noResource
	case d.Kind == "namespaces":
		return noNamespace
	}
	return notFound
}

func hasCause(s metav1.Status, cause metav1.CauseType) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes,
		func(c metav1.StatusCause) bool { return c.Type == cause })
}

// said returns the API server's message without the content of objects. The API server quotes such
// content: the whole object, if a patch made it invalid. whole keeps the message where the causes
// would say more.
func said(s metav1.Status, whole bool) string {
	text := withoutValues(s.Message)
	isInvalid := s.Code == http.StatusUnprocessableEntity && !whole
	if isInvalid && s.Details != nil && len(s.Details.Causes) > 0 {
		var causes []string
		for _, c := range s.Details.Causes[:min(len(s.Details.Causes), 8)] {
			message, _, _ := strings.Cut(c.Message, "\n") // what differs stands below
			causes = append(causes, c.Field+": "+withoutValues(message))
		}
		text = strings.Join(slices.Compact(causes), "; ")
	}
	if text = printable.Line(text, maxText); text == "" {
		return ""
	}
	return ": " + text
}

var (
	quotedValue = regexp.MustCompile(`(Invalid|Unsupported|Duplicate) value: ?`)
	plainValue  = regexp.MustCompile(`^(-?[0-9][0-9.eE+-]*|true|false|null|nil)(: |;|,|$)`)
	// gotValue matches a value that the schema did not expect; time is what should have been one.
	gotValue = regexp.MustCompile(`(, got|(parsing time)) .*`)
)

// withoutValues removes the values that the API server's validation quotes.
func withoutValues(s string) string {
	s = gotValue.ReplaceAllString(s, "$2")
	var out strings.Builder
	for {
		at := quotedValue.FindStringIndex(s)
		if at == nil {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(strings.TrimRight(s[:at[1]], ": "))
		s = s[at[1]:]
		if quoted, err := strconv.QuotedPrefix(s); err == nil {
			s = s[len(quoted):]
		} else if plain := plainValue.FindStringSubmatch(s); plain != nil {
			s = s[len(plain[1]):]
		} else { // the value is a structure whose end nobody can tell
			return out.String() + why(s)
		}
	}
}

// why returns the end of a message that says why a field cannot change, or "". s is a message from
// the value on that it quotes.
func why(s string) string {
	for _, end := range []string{
		": field is immutable", ": cannot change roleRef", ": may not change once set",
	} {
		if strings.HasSuffix(s, end) {
			return end
		}
	}
	return ""
}

// retryAfter returns the delay that an answer's header asks for, at most some minutes.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err != nil {
		return 0
	}
	return boundedAfter(seconds)
}

func boundedAfter(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
}
