package action

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/plugins/handler"
)

// The texts are those of a real API server, see TestAdviceFitsTheCause in integration/e2e. That a
// Secret's words are hidden leaves the cause.
func TestCauses(t *testing.T) {
	const frozen = "field is immutable when `immutable` is set"
	causes := func(of ...string) *metav1.StatusDetails {
		d := &metav1.StatusDetails{Name: "a"}
		for _, message := range of {
			d.Causes = append(d.Causes, metav1.StatusCause{Field: "data", Message: message})
		}
		return d
	}
	terminates := &metav1.StatusDetails{Name: "a", Causes: []metav1.StatusCause{{Type: "NamespaceTerminating", Message: "namespace going is being terminated"}}}
	for _, c := range []struct {
		code    int
		said    string
		details *metav1.StatusDetails
		want    Why
	}{
		{403, `configmaps "a" is forbidden: User "informd" cannot get resource "configmaps" in API group "" in the namespace "shop"`, nil, CausePermission},
		{403, `pods is forbidden: User "informd" cannot list resource "pods" in API group "" at the cluster scope`, nil, CausePermission},
		{403, `forbidden: User "system:anonymous" cannot get path "/x"`, nil, CausePermission},
		{403, `roles.rbac.authorization.k8s.io "x" is forbidden: user "informd" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:`, nil, CausePermission},
		{401, "Unauthorized", nil, CauseCredentials},
		{403, `configmaps "a" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0, limited: count/configmaps=0`, nil, CauseQuota},
		{403, `configmaps "a" is forbidden: status unknown for quota: q, resources: count/configmaps`, nil, CauseQuota},
		{400, `admission webhook "deny.example.com" denied the request: no`, nil, CauseWebhook},
		{403, `admission webhook "deny.example.com" denied the request: User "informd" cannot`, nil, CauseWebhook},
		{404, `admission webhook "deny.example.com" denied the request: no`, nil, CauseWebhook},
		{422, `admission webhook "deny.example.com" denied the request: field is immutable`, causes("field is immutable"), CauseWebhook},
		{429, `admission webhook "deny.example.com" denied the request: no`, nil, CauseWebhook},
		{500, `admission webhook "deny.example.com" denied the request: no`, nil, CauseWebhook},
		{500, `Internal error occurred: failed calling webhook "down.example.com": failed to call webhook: Post "https://127.0.0.1:1/x?timeout=1s": dial tcp 127.0.0.1:1: connect: connection refused`, nil, CauseWebhookDown},
		{422, `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, causes("no"), CausePolicy},
		{403, `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, nil, CausePolicy},
		{403, `pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`, nil, CausePolicy},
		{403, `pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2`, nil, CausePolicy},
		{403, `configmaps "x" is forbidden: unable to create new content in namespace going because it is being terminated`, terminates, CauseTerminating},
		{404, `namespaces "never" not found`, &metav1.StatusDetails{Name: "never", Kind: "namespaces"}, CauseNamespace},
		{404, "the server could not find the requested resource", nil, CauseNotServed},
		{404, `pods "a" not found`, &metav1.StatusDetails{Name: "a", Kind: "pods"}, CauseOther},
		{409, "the object has been modified", nil, CauseOther},
		{422, `ConfigMap "a" is invalid: data: Forbidden: ` + frozen, causes("Forbidden: " + frozen), CauseImmutable},
		{422, `Deployment.apps "a" is invalid: spec.selector: Invalid value`, causes(`Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`), CauseImmutable},
		{422, `StatefulSet.apps "a" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`, nil, CauseImmutable},
		{422, `ConfigMap "a" is invalid: data[/]: Invalid value: "/": a valid config key must consist of alphanumeric characters`, causes(`Invalid value: "/": a valid config key must consist of alphanumeric characters`), CauseInvalid},
		{422, `ConfigMap "a" is invalid`, causes(`Invalid value: "field is immutable": it is too long`), CauseInvalid},
		{400, "strict decoding error: unknown field", nil, CauseInvalid},
		{500, "failed to create typed patch object (shop/a; /v1, Kind=ConfigMap): .data.a: expected string", nil, CauseInvalid},
		{500, "etcdserver: request timed out", nil, CauseBusy},
		{503, "apiserver is shutting down", nil, CauseBusy},
		{429, "too many requests", nil, CauseBusy},
		{403, "", nil, CauseOther}, // a proxy's
	} {
		f := classify(answer{code: c.code, status: &metav1.Status{Code: int32(c.code), Message: c.said, Details: c.details}})
		if f.whyIs() != c.want {
			t.Errorf("%d %s: %s, want %s", c.code, c.said, f.whyIs(), c.want)
		}
		if f.hide(); whyFailed(fmt.Errorf("x: %w", handler.Reject(f))) != c.want {
			t.Errorf("%d %s: %s once it is hidden, want %s", c.code, c.said, f.whyIs(), c.want)
		}
	}
	if f := classify(answer{code: 503}); f.whyIs() != CauseBusy {
		t.Errorf("an answer without a status: %s", f.whyIs())
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	for why, c := range map[string]struct {
		err  error
		want Why
	}{
		"foreign":          {handler.Reject(ErrNotOurs), CauseForeign},
		"exists":           {handler.Reject(errExists), CauseForeign},
		"no namespace":     {handler.Reject(errors.New("the resource has namespaces, and the action names none")), CauseInvalid},
		"stale":            {stale("it has changed since the event"), CauseOther},
		"nobody answers":   {unreachable(context.DeadlineExceeded), CauseUnreachable},
		"no such resource": {&failure{reason: noResource}, CauseNotServed},
		"discovery":        {&failure{text: "discovery: no", cause: forbidden}, CausePermission},
		"no list":          {&failure{code: 200, text: "the API server's answer is not a list"}, CauseOther},
	} {
		if got := whyFailed(fmt.Errorf("x: %w", c.err)); got != c.want {
			t.Errorf("%s: %s, want %s", why, got, c.want)
		}
	}
}
