package action

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/plugins/handler"
)

// A failure repeats the API server's words, but not the values of objects that they quote.
func TestFailuresQuoteNoValues(t *testing.T) {
	cause := func(field, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}
	}
	for why, c := range map[string]struct {
		status metav1.Status
		want   string
	}{
		"nothing": {metav1.Status{}, ""},
		"a plain message": {metav1.Status{Code: 403, Message: `pods "a" is forbidden: exceeded quota`},
			`: pods "a" is forbidden: exceeded quota`},
		"causes in the place of the message": {metav1.Status{Code: 422, Message: "hush", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("spec.a", `Invalid value: "hush": must not be so`), cause("spec.a", `Invalid value: "hush": must not be so`), cause("spec.b", "Required value"),
		}}}, ": spec.a: Invalid value: must not be so; spec.b: Required value"},
		"quotes in what is quoted": {metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("patch", `Invalid value: "{\"a\":\"hush: hush\"}": json: cannot unmarshal`),
		}}}, ": patch: Invalid value: json: cannot unmarshal"},
		"numbers and nothing": {metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("spec.a", `Invalid value: -7: must be greater than or equal to 0`), cause("spec.b", `Invalid value: null: must be an object`),
		}}}, ": spec.a: Invalid value: must be greater than or equal to 0; spec.b: Invalid value: must be an object"},
		"a structure whose end is unclear": {metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("spec.a", `Invalid value: {"x":"hush: hush"}: must be smaller`), cause("spec.b", `Unsupported value: "hush": supported values: "A", "B"`),
			cause("spec.c", `Duplicate value: map[string]interface {}{"x":"hush"}`), cause("spec.d", `Invalid value: "unterminated hush`),
		}}}, `: spec.a: Invalid value; spec.b: Unsupported value: supported values: "A", "B"; spec.c: Duplicate value; spec.d: Invalid value`},
		"a message with values, without causes": {metav1.Status{Code: 400, Message: `x: Invalid value: "hush": y, and z: Invalid value: "hush"`},
			`: x: Invalid value: y, and z: Invalid value`},
		"what a typed patch got": {metav1.Status{Code: 500, Message: `.data.a: expected string, got &value.valueUnstructured{Value:"hush"}`},
			": .data.a: expected string"},
		"a mapping or list that it got": {metav1.Status{Code: 500, Message: `.data: expected map, got &{[hush hush]}`}, ": .data: expected map"},
		"a string that it got":          {metav1.Status{Code: 500, Message: `.data: expected map, got &{hush, got hush}`}, ": .data: expected map"},
		"a structure that may not change": {metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("spec.selector", `Invalid value: {"matchLabels":{"x":"hush"}}: field is immutable`), cause("roleRef", `Invalid value: {"name":"hush"}: cannot change roleRef`),
			cause("spec.clusterIPs[0]", `Invalid value: ["hush"]: may not change once set`),
		}}}, ": spec.selector: Invalid value: field is immutable; roleRef: Invalid value: cannot change roleRef; spec.clusterIPs[0]: Invalid value: may not change once set"},
		"what differs, below the message": {metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			cause("spec", "Forbidden: spec is immutable after creation\n@@ -1,6 +1,6 @@\n-  \"hush\"\n"),
		}}}, ": spec: Forbidden: spec is immutable after creation"},
		"a policy, which names no field": {metav1.Status{Code: 422, Message: `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}},
		}}, `: configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`},
		"a webhook, whose causes say less": {metav1.Status{Code: 422, Message: `admission webhook "w.example.com" denied the request: no`, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{cause("data", "hush")},
		}}, `: admission webhook "w.example.com" denied the request: no`},
		"a malformed time": {metav1.Status{Code: 400, Message: `S in version "v1" cannot be handled: parsing time "hush" as "2006": cannot parse "hush" as "2006"`},
			`: S in version "v1" cannot be handled: parsing time`},
	} {
		f := classify(answer{code: int(c.status.Code), status: &c.status})
		if got := said(c.status, f.admission); got != c.want {
			t.Errorf("%s: %q, want %q", why, got, c.want)
		}
	}
}

// Only what admission and validation say may quote an object.
func TestQuotes(t *testing.T) {
	denied := &failure{code: 403, text: `403 Forbidden: admission webhook "w" denied the request: hunter2`}
	forbidden := &failure{code: 403, text: `403 Forbidden: secrets "s" is forbidden: User "informd" cannot patch resource "secrets" in API group "" in the namespace "a"`}
	invalid := &failure{code: 422, reason: never, text: "422 Unprocessable Entity: data: hunter2"}
	var mixed, plain failures
	mixed.add(forbidden)
	mixed.add(handler.Reject(invalid))
	plain.add(forbidden)
	plain.add(handler.Reject(ErrNotOurs))
	for text, c := range map[string]struct {
		err  error
		want bool
	}{
		"informd's own":      {handler.Reject(ErrNotOurs), false},
		"authorization":      {fmt.Errorf("actions[0]: %w", forbidden), false},
		"admission":          {handler.RetryAfter(time.Second, denied), true},
		"validation":         {handler.Reject(invalid), true},
		"nobody answers":     {&failure{text: "dial tcp: connection refused"}, false},
		"several, one of it": {mixed.of(2, "actions"), true},
		"several, none":      {plain.of(2, "actions"), false},
	} {
		if Quotes(c.err) != c.want {
			t.Errorf("%s: %v quotes: %v, want %v", text, c.err, !c.want, c.want)
		}
	}
}

// What admission says about a Secret may quote it, also to a rule that sees no Secrets. A webhook may
// answer with any code. Who refuses the request is said all the same, and the text then quotes nothing.
func TestHiddenFailuresNameTheCause(t *testing.T) {
	const hidden = "what the API server says is not shown, as it may quote a Secret"
	const denied = `admission webhook "w.example.com" denied the request`
	const policy = `ValidatingAdmissionPolicy 'p' with binding 'b' denied request`
	for _, c := range []struct {
		code       int
		said, want string
	}{
		{400, denied + ": hunter2", "400 Bad Request: " + denied + "; " + hidden},
		{403, denied + ": hunter2", "403 Forbidden: " + denied + "; " + hidden},
		{404, denied + ": hunter2", "404 Not Found: " + denied + "; " + hidden},
		{409, denied + ": hunter2", "409 Conflict: " + denied + "; " + hidden},
		{422, denied + ": hunter2", "422 Unprocessable Entity: " + denied + "; " + hidden},
		{429, denied + ": hunter2", "429 Too Many Requests: " + denied + "; " + hidden},
		{403, denied + " without explanation", "403 Forbidden: " + denied + "; " + hidden},
		{403, `admission webhook "hunter2 x" denied the request: hunter2`, "403 Forbidden: " + hidden},
		{500, `Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: hunter2`,
			`500 Internal Server Error: failed calling webhook "w.example.com"; ` + hidden},
		{422, `secrets "s" is forbidden: ` + policy + ": hunter2", "422 Unprocessable Entity: " + policy + "; " + hidden},
		{403, `secrets "s" is forbidden: ` + policy + ": hunter2", "403 Forbidden: " + policy + "; " + hidden},
		{422, `secrets "s" is forbidden: policy 'p' with binding 'b' denied request: hunter2`, "422 Unprocessable Entity: policy 'p' with binding 'b' denied request; " + hidden},
		{403, `secrets "s" is forbidden: hunter2`, "403 Forbidden: " + hidden},
		{500, "hunter2", "500 Internal Server Error: " + hidden},
	} {
		s := &metav1.Status{Code: int32(c.code), Message: c.said}
		if c.code == 422 {
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "hunter2"}}}
		}
		f := classify(answer{code: c.code, status: s})
		if !f.quotes() {
			t.Errorf("%d %s: it may quote the Secret before it is hidden", c.code, c.said)
		}
		if f.hide(); f.text != c.want || f.quotes() {
			t.Errorf("%d %s: %q, quotes: %v; want %q", c.code, c.said, f.text, f.quotes(), c.want)
		}
		if wantsFinal := c.code == 400 || c.code == 422; (f.reason == never) != wantsFinal || !wantsFinal && f.reason != again {
			t.Errorf("%d %s: reason %d", c.code, c.said, f.reason)
		}
	}
}

// What says that a field cannot change quotes nothing, nor does a quota that nobody has counted.
func TestWhatQuotesNothing(t *testing.T) {
	for _, s := range []metav1.Status{
		{Code: 403, Message: `secrets "s" is forbidden: status unknown for quota: q, resources: count/secrets`},
		{Code: 403, Message: `roles.rbac.authorization.k8s.io "x" is forbidden: user "informd" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n{APIGroups:[\"\"]}"},
		{Code: 422, Message: `Secret "s" is invalid: [immutable: hush, data: hush]`, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Field: "immutable", Message: "Forbidden: field is immutable when `immutable` is set"}, {Field: "data", Message: "Forbidden: field is immutable when `immutable` is set"},
		}}},
		{Code: 422, Message: `Secret "s" is invalid: type: hush`, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "type", Message: `Invalid value: "hunter2": field is immutable`}}}},
	} {
		f := classify(answer{code: int(s.Code), status: &s})
		before := f.text
		if f.quotes() {
			t.Errorf("%s: it quotes nothing", f.text)
		}
		if f.hide(); f.text != before || strings.Contains(f.text, "hunter2") {
			t.Errorf("%q has become %q", before, f.text)
		}
	}
}

// What admission says about a Secret may quote it, also to a rule that sees no Secrets.
func TestFailuresOfSecretsAreHidden(t *testing.T) {
	const denied = `admission webhook "w" denied the request: hunter2`
	for _, c := range []struct {
		code    int
		said    string
		reason  metav1.StatusReason
		isShown bool
	}{
		{403, denied, metav1.StatusReasonForbidden, false},
		{400, denied, metav1.StatusReasonBadRequest, false},
		{500, `failed calling webhook "w": hunter2`, metav1.StatusReasonInternalError, false},
		{403, `secrets "s" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=3, limited: secrets=3`, metav1.StatusReasonForbidden, true},
		{403, `secrets "s" is forbidden: User "informd" cannot patch resource "secrets" in API group "" in the namespace "a"`, metav1.StatusReasonForbidden, true},
		{404, `secrets "s" not found`, metav1.StatusReasonNotFound, true},
	} {
		f := classify(answer{code: c.code, status: &metav1.Status{Code: int32(c.code), Reason: c.reason, Message: c.said}})
		reason := f.reason
		if f.hide(); strings.Contains(f.text, c.said) != c.isShown || strings.Contains(f.text, "hunter2") || f.reason != reason {
			t.Errorf("%d %s: %s", c.code, c.said, f.text)
		}
	}
	for _, r := range []handler.Resource{{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Group: "example.com", Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "namespaces"}} {
		for _, namespace := range []string{"", "secrets"} {
			for _, path := range [][]string{pathOf(r, namespace), pathOf(r, namespace, "secrets")} {
				if want := r.Group == "" && r.Resource == "secrets"; isOfSecrets(path) != want {
					t.Errorf("%q: want %v", path, want)
				}
			}
		}
	}
}

// Only the API server's own trouble counts, not one target's, even beside others. A failure that may
// concern one request alone counts once there are three in a row.
func TestInTrouble(t *testing.T) {
	quota := &failure{code: 403, text: "exceeded quota"}
	down, busy, unserved := &failure{text: "connection refused"}, &failure{code: 429}, &failure{reason: noResource}
	discovery := func(code int) error {
		return &failure{cause: fmt.Errorf("x: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code)}})}
	}
	var one, both failures
	one.add(quota)
	one.add(quota)
	both.add(quota)
	both.add(down)
	const never, atOnce, third = 0, 1, 3
	for why, c := range map[string]struct {
		err  error
		want int // after how many in a row
	}{
		"no failure": {nil, never},
		"a quota":    {quota, never}, "two": {one.of(2, "actions"), never}, "a missing namespace": {errors.New("namespace x does not exist"), never},
		"a resource that is not served": {unserved, never}, "failed for good": {handler.Reject(&failure{code: 500, reason: 1}), never},
		"a webhook": {&failure{code: 500, admission: true}, never}, "a webhook that is busy": {&failure{code: 503, admission: true}, never},
		"an answer that cannot be read": {&failure{code: 200}, never},
		"unreachable":                   {down, atOnce}, "throttled": {handler.RetryAfter(time.Second, busy), atOnce},
		"unreachable after a quota": {fmt.Errorf("x: %w", both.of(2, "actions")), atOnce},
		"a bad gateway":             {&failure{code: 502}, atOnce}, "unavailable": {&failure{code: 503}, atOnce}, "late": {&failure{code: 504}, atOnce},
		"a kind that cannot be converted": {fmt.Errorf("x: %w", &failure{code: 500}), third}, "an unknown code": {&failure{code: 799}, third},
		"discovery is forbidden": {discovery(403), never}, "discovery is unavailable": {discovery(503), atOnce}, "discovery fails": {discovery(500), third},
	} {
		if got := InTrouble(c.err); got != (c.want == atOnce) {
			t.Errorf("%s: in trouble: %v", why, got)
		}
		var troubles Troubles
		got := never
		for n := 1; n <= 2*third && got == never; n++ {
			if troubles.Add(c.err, false) {
				got = n
			}
		}
		if got != c.want {
			t.Errorf("%s: in trouble after %d, want %d", why, got, c.want)
		}
	}
}

// What failed like that before says nothing new about the API server, and what is answered says that
// it is well.
func TestTroublesInARow(t *testing.T) {
	fails := &failure{code: 500}
	for _, c := range []struct {
		why     string
		errs    []error
		repeats int // of the first errors
		want    bool
	}{
		{"three", []error{fails, fails, fails}, 0, true},
		{"one has succeeded", []error{fails, fails, nil, fails, fails}, 0, false},
		{"one was refused", []error{fails, fails, &failure{code: 403}, fails, fails}, 0, false},
		{"repeats", []error{fails, fails, fails, fails, fails}, 5, false},
		{"three after repeats", []error{fails, fails, fails, fails, fails}, 2, true},
	} {
		var troubles Troubles
		got := false
		for i, err := range c.errs {
			got = troubles.Add(err, i < c.repeats)
		}
		if got != c.want {
			t.Errorf("%s: %v", c.why, got)
		}
	}
}
