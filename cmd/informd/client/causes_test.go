package client

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
)

// The texts are those of a real API server, see TestAdviceFitsTheCause in integration/e2e.
func TestAdviceFitsTheCause(t *testing.T) {
	const (
		apply    = "actions[0]: apply of v1/configmaps shop/a: "
		rejected = apply + "rejected: "
		quota    = apply + `403 Forbidden: configmaps "a" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0, limited: count/configmaps=0`
		hidden   = "what the API server says is not shown, as it may quote a Secret"
		policy   = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"
	)
	for reason, want := range map[string]string{
		apply + `403 Forbidden: configmaps "a" is forbidden: User "informd" cannot get resource "configmaps" in API group "" in the namespace "shop"`:                                                                                                   "grant the permission",
		"prune: list v1/pods by label, in all namespaces: 403 Forbidden: pods is forbidden: User \"informd\" cannot list":                                                                                                                               "grant the permission",
		`actions[0]: apply of rbac.authorization.k8s.io/v1/roles shop/x: 403 Forbidden: roles.rbac.authorization.k8s.io "x" is forbidden: user "informd" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:`: "grant the permission",
		quota: "raise the quota of the namespace, or free some of it",
		apply + `403 Forbidden: configmaps "a" is forbidden: status unknown for quota: q, resources: count/configmaps`:                                                                                                              "wait until the cluster has counted what the quota covers; if it never does, look at its kube-controller-manager",
		rejected + `400 Bad Request: admission webhook "deny.example.com" denied the request: no`:                                                                                                                                   "change the object, or the rules of the cluster's webhook deny.example.com",
		apply + `403 Forbidden: admission webhook "deny.example.com" denied the request; ` + hidden:                                                                                                                                 "change the object, or the rules of the cluster's webhook deny.example.com",
		apply + `500 Internal Server Error: admission webhook "deny.example.com" denied the request: no`:                                                                                                                            "change the object, or the rules of the cluster's webhook deny.example.com",
		apply + `500 Internal Server Error: Internal error occurred: failed calling webhook "down.example.com": failed to call webhook: Post "https://127.0.0.1:1/x?timeout=1s": dial tcp 127.0.0.1:1: connect: connection refused`: "mend the cluster's webhook down.example.com, which cannot be called",
		apply + `500 Internal Server Error: failed calling webhook "down.example.com"; ` + hidden:                                                                                                                                   "mend the cluster's webhook down.example.com, which cannot be called",
		rejected + `422 Unprocessable Entity: configmaps "a" is forbidden: ` + policy + ": no":                                                                                                                                      "change the object, or the cluster's policy p",
		apply + `403 Forbidden: configmaps "a" is forbidden: ` + policy + ": no":                                                                                                                                                    "change the object, or the cluster's policy p",
		rejected + "422 Unprocessable Entity: " + policy + "; " + hidden:                                                                                                                                                            "change the object, or the cluster's policy p",
		apply + `403 Forbidden: pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`:                                                                                                              "change the Pod, or the level restricted:latest that its namespace enforces",
		apply + `403 Forbidden: pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2`:                                                                                                                        "change the object, or what in the cluster does not admit it",
		apply + `403 Forbidden: configmaps "x" is forbidden: unable to create new content in namespace going because it is being terminated`:                                                                                        "wait until the namespace going is gone, then create it again: nothing can be created in it now",
		"actions[0]: apply of v1/configmaps never/a: namespace never does not exist":                                                                                                                                                "make the namespace never",
		"actions[0]: apply of v1/maps shop/a: the cluster does not serve v1/maps":                                                                                                                                                   "install what serves v1/maps, or mend the resource of the action",
		rejected + "422 Unprocessable Entity: data: Forbidden: field is immutable when `immutable` is set":                                                                                                                          "leave the field as it is, or delete the object: the next apply creates it again",
		rejected + "422 Unprocessable Entity: spec.selector: Invalid value: field is immutable":                                                                                                                                     "leave the field as it is, or delete the object: the next apply creates it again",
		rejected + "422 Unprocessable Entity: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden":                                                                                          "leave the field as it is, or delete the object: the next apply creates it again",
		rejected + "422 Unprocessable Entity: data[/]: Invalid value: a valid config key must consist of alphanumeric characters":                                                                                                   "mend the action: the API server never takes it as it is",
		rejected + "500 Internal Server Error: failed to create typed patch object (shop/a; /v1, Kind=ConfigMap): .data.a: expected string":                                                                                         "mend the action: the API server never takes it as it is",
		rejected + "the object exists and the rule did not apply it, and prune would delete it in the end: choose another name":                                                                                                     "do one of these",
		"actions[0]: create of v1/configmaps shop/a: rejected: it exists already, and the rule did not create it":                                                                                                                   "choose another name, delete the object, or use apply",
		apply + "401 Unauthorized: Unauthorized":                       "renew informd's credentials",
		apply + "503 Service Unavailable":                              "look at the API server",
		apply + "the API server cannot be reached: connection refused": "look at the API server",

		"2 of 3 actions failed: " + quota + "; actions[0]: apply of v1/configmaps never/a: namespace never does not exist; nothing was pruned": "raise the quota of the namespace, or free some of it; make the namespace never",
		"2 of 3 actions failed: " + quota + "; " + strings.ReplaceAll(quota, "shop", "pay"):                                                    "raise the quota of the namespace, or free some of it",

		"not shown, as it may quote a secret":                                    "",
		apply + "403 Forbidden: " + hidden:                                       "",
		"POST https://there: 403 Forbidden":                                      "",
		"POST https://there: 503 Service Unavailable: User \"x\" cannot do that": "",
	} {
		if got := toMend(reason); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// A dead letter is shown with what to do about it, and then with the command that tries it again.
func TestDeadLettersWithAdvice(t *testing.T) {
	var b strings.Builder
	l := control.Letter{ID: "r/1", Rule: "r", Handler: control.OwnActions,
		Reason: "actions[0]: apply of v1/configmaps shop/a: rejected: 422 Unprocessable Entity: type: Invalid value: field is immutable"}
	err := writeLetter(&b, l, &controlFlags{stateDir: "there"}, time.Now())
	const want = "leave the field as it is, or delete the object: the next apply creates it again; then: informd dead retry r/1 --state-dir there\n"
	if err != nil || !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "to do") {
		t.Errorf("%s%v", b.String(), err)
	}
	b.Reset()
	l.Reason = "the handler does not want it"
	if err := writeLetter(&b, l, new(controlFlags), time.Now()); err != nil || strings.Contains(b.String(), "to do") {
		t.Errorf("%s%v", b.String(), err)
	}
}
