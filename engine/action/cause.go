package action

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why says what made a Request fail, or have no effect: what a user has to look at.
type Why string

// The causes of a failure. Those of the cluster's admission are told apart by who refuses.
const (
	CausePermission  Why = "permission"  // informd may not do it
	CauseCredentials Why = "credentials" // the API server does not know informd
	CauseQuota       Why = "quota"       // a quota of the namespace is full, or not counted yet
	CauseWebhook     Why = "webhook"     // a webhook of the cluster refuses it
	CauseWebhookDown Why = "webhookDown" // a webhook of the cluster cannot be called
	CausePolicy      Why = "policy"      // another admission of the cluster refuses it
	CauseTerminating Why = "terminating" // the namespace is being deleted
	CauseNamespace   Why = "namespace"   // there is no such namespace
	CauseImmutable   Why = "immutable"   // a field cannot be changed
	CauseInvalid     Why = "invalid"     // the API server never takes the action as it is
	CauseForeign     Why = "foreign"     // the object is somebody else's
	CauseNotServed   Why = "notServed"   // the cluster does not serve the resource
	CauseUnreachable Why = "unreachable" // the API server does not answer
	CauseBusy        Why = "busy"        // the API server is overloaded, or fails itself
	CauseOther       Why = "other"
)

// Whys returns all causes.
func Whys() []Why {
	return []Why{
		CausePermission, CauseCredentials, CauseQuota, CauseWebhook, CauseWebhookDown, CausePolicy,
		CauseTerminating, CauseNamespace, CauseImmutable, CauseInvalid, CauseForeign,
		CauseNotServed, CauseUnreachable, CauseBusy, CauseOther,
	}
}

var (
	// byAuthorization matches how authorization refuses a request, also one that grants permissions.
	byAuthorization = regexp.MustCompile(`^(?:[\w.-]+(?: "[^"]*")? is )?forbidden: [Uu]ser "`)
	// byQuota matches how a quota refuses an object.
	byQuota = regexp.MustCompile(
		`^[\w.-]+(?: "[^"]*")? is forbidden: (?:exceeded|status unknown for) quota:`)
	// byOtherAdmission matches how what is built into the API server refuses an object.
	byOtherAdmission = regexp.MustCompile(`^[\w.-]+(?: "[^"]*")? is forbidden: `)
	// ofWebhook and ofWebhookDown match the words of admission that come from webhooks.
	ofWebhook     = regexp.MustCompile(admissionOf + `admission webhook `)
	ofWebhookDown = regexp.MustCompile(admissionOf + `failed calling webhook `)
	// immutable matches what validation says about fields that cannot change.
	immutable = regexp.MustCompile(`field is immutable|cannot change roleRef|may not change once set|` +
		`spec is immutable after creation|` +
		`(?:pod updates may not|updates to \w+ spec for fields other than) `)
)

// admissionOf matches what may precede the words of a webhook.
const admissionOf = `^(?:[\w.-]+(?: "[^"]*")? is forbidden: )?(?:Internal error occurred: )?`

// whyOf returns the cause of f, which is about an answer that says s.
func whyOf(f *failure, s metav1.Status) Why {
	switch {
	case f.admission && ofWebhookDown.MatchString(s.Message):
		return CauseWebhookDown
	case f.admission && ofWebhook.MatchString(s.Message):
		return CauseWebhook
	case f.admission:
		return CausePolicy
	case f.reason == terminating:
		return CauseTerminating
	case f.reason == noNamespace:
		return CauseNamespace
	case f.reason == noResource:
		return CauseNotServed
	}
	switch {
	case f.code == http.StatusUnauthorized:
		return CauseCredentials
	case f.code == http.StatusForbidden:
		return whyForbidden(s.Message)
	case f.code == http.StatusUnprocessableEntity && immutable.MatchString(f.text):
		return CauseImmutable
	case f.reason == never:
		return CauseInvalid
	case f.code == http.StatusTooManyRequests, f.code >= http.StatusInternalServerError:
		return CauseBusy
	}
	return CauseOther
}

func whyForbidden(message string) Why {
	switch {
	case byAuthorization.MatchString(message):
		return CausePermission
	case byQuota.MatchString(message):
		return CauseQuota
	case byOtherAdmission.MatchString(message):
		return CausePolicy
	}
	return CauseOther
}

// whyIs returns why a request failed.
func (f *failure) whyIs() Why {
	switch {
	case f.why != "":
		return f.why
	case f.reason == noResource:
		return CauseNotServed
	case f.reason == never: // the request could not be made
		return CauseInvalid
	case apierrors.IsForbidden(f.cause):
		return CausePermission
	case apierrors.IsUnauthorized(f.cause):
		return CauseCredentials
	}
	switch code, _ := serverCode(f); {
	case code == 0:
		return CauseUnreachable
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return CauseBusy // as discovery says
	}
	return CauseOther // an answer that nobody understands
}

// whyFailed returns the cause of an action's error.
func whyFailed(err error) Why {
	f, ok := errors.AsType[*failure](err)
	switch {
	case errors.Is(err, ErrNotOurs), errors.Is(err, errExists):
		return CauseForeign
	case ok:
		return f.whyIs()
	case isFinal(err): // informd itself found it invalid
		return CauseInvalid
	}
	return CauseOther
}

// isOverload reports whether an error says that the API server has too much to do: it asks for
// patience, or does not answer in time. The caller has not given up itself.
func isOverload(err error) bool {
	f, ok := errors.AsType[*failure](err)
	if !ok || f.admission {
		return false
	}
	isLate := errors.Is(f.cause, context.DeadlineExceeded) || f.cause != nil && os.IsTimeout(f.cause)
	return isLate ||
		slices.Contains([]int{http.StatusTooManyRequests, http.StatusGatewayTimeout}, f.code)
}
