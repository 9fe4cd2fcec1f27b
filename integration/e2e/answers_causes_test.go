package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// Whatever refuses an action, informd says what to do about that: in the status while it tries again,
// and with the dead letter once it does not. Of a Secret it says who refuses it, and not what is in it.
func TestAdviceFitsTheCause(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	secret, encoded := harness.RandomSecret()
	admission(t, k, encoded)

	const (
		deny       = "change the object, or the rules of the cluster's webhook deny.example.com"
		down       = "mend the cluster's webhook down.example.com, which cannot be called"
		policy     = "change the object, or the cluster's policy "
		quota      = "raise the quota of the namespace, or free some of it"
		notCounted = "wait until the cluster has counted what the quota covers; if it never does, look at its kube-controller-manager"
		fixed      = "leave the field as it is, or delete the object: the next apply creates it again"
		invalid    = "mend the action: the API server never takes it as it is"
	)
	configMap := func(namespace, name string) string {
		return "apply: {resource: v1/configmaps, object: {metadata: {namespace: NS" + namespace + ", name: " + name + `}, data: {x: "2"}}}`
	}
	pod := func(namespace, resources string) string {
		return "apply: {resource: v1/pods, object: {metadata: {namespace: NS" + namespace + ", name: a}, spec: {containers: [{name: a, image: a" + resources + "}]}}}"
	}
	copied := func(namespace, name string) string {
		return "apply: {resource: v1/secrets, object: {metadata: {namespace: NS" + namespace + ", name: " + name + "}, data: \"${object.data}\"}}"
	}
	labelled := func(namespace, name string) string {
		return "patch: {resource: v1/secrets, namespace: NS" + namespace + ", name: " + name + `, merge: {metadata: {labels: {a: "2"}}}}`
	}
	cases := []struct {
		rule, source, action string
		isDead               bool
		want                 string
	}{
		{"quota", "configmaps", configMap("-full", "a"), false, quota},
		{"not-counted", "configmaps", configMap("-new", "a"), false, notCounted},
		{"deny", "configmaps", configMap("-deny", "deny-400"), true, deny},
		{"deny-forbidden", "configmaps", configMap("-deny", "deny-403"), false, deny},
		{"deny-busy", "configmaps", configMap("-deny", "deny-429"), false, deny},
		{"down", "configmaps", configMap("-down", "a"), false, down},
		{"policy", "configmaps", configMap("-policy", "a"), true, policy + k.Ns},
		{"policy-forbids", "configmaps", configMap("-policy", "forbidden"), false, policy + k.Ns},
		{"pod-security", "configmaps", pod("-restricted", ""), false, "change the Pod, or the level restricted:latest that its namespace enforces"},
		{"limits", "configmaps", pod("-full", `, resources: {limits: {cpu: "2"}}`), false, "change the object, or what in the cluster does not admit it"},
		{"no-namespace", "configmaps", configMap("-never", "a"), false, "make the namespace NS-never"},
		{"immutable", "configmaps", configMap("", "frozen"), true, fixed},
		{"selector", "configmaps", `apply: {resource: apps/v1/deployments, object: {metadata: {namespace: NS, name: frozen}, spec: {selector: {matchLabels: {a: b, c: d}},
			template: {metadata: {labels: {a: b, c: d}}, spec: {containers: [{name: a, image: a}]}}}}}`, true, fixed},
		{"invalid", "configmaps", `apply: {resource: v1/configmaps, object: {metadata: {namespace: NS, name: a}, data: {/: a}}}`, true, invalid},
		{"foreign", "configmaps", configMap("", "theirs"), true, "do one of these"},
		{"exists", "configmaps", strings.Replace(configMap("", "theirs"), "apply", "create", 1), true, "choose another name, delete the object, or use apply"},
		{"not-served", "configmaps", strings.Replace(configMap("", "a"), "v1/configmaps", "example.com/v1/sites", 1), false,
			"install what serves example.com/v1/sites, or mend the resource of the action"},

		// of a rule that sees the Secret, and of one that does not
		{"secret-quota", "secrets", copied("-full", "a"), false, quota},
		{"secret-deny", "secrets", copied("-deny", "deny-400"), true, deny},
		{"secret-deny-forbidden", "secrets", copied("-deny", "deny-403"), false, deny},
		{"secret-deny-invalid", "secrets", copied("-deny", "deny-422"), true, deny},
		{"secret-deny-busy", "secrets", copied("-deny", "deny-429"), false, deny},
		{"secret-down", "secrets", copied("-down", "a"), false, down},
		{"secret-policy", "secrets", copied("-policy", "a"), true, policy + k.Ns},
		{"secret-policy-forbids", "secrets", copied("-policy", "forbidden"), false, policy + k.Ns},
		{"secret-immutable", "secrets", copied("", "frozen"), true, fixed},
		{"blind-deny", "configmaps", labelled("-deny", "deny-400"), true, deny},
		{"blind-deny-invalid", "configmaps", labelled("-deny", "deny-422"), true, deny},
		{"blind-deny-busy", "configmaps", labelled("-deny", "deny-429"), false, deny},
		{"blind-policy", "configmaps", labelled("-policy", "a"), true, policy + k.Ns},
	}
	var rules strings.Builder
	for _, c := range cases {
		prune := ""
		if c.rule == "foreign" {
			prune = ", prune: true"
		}
		rules.WriteString(harness.Rule(c.rule, "source: "+c.source+prune+", actions: [{"+c.action+"}]"))
	}
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Run(k.Text(harness.Source("configmaps", harness.ConfigMaps+", labelSelector: advice=yes") +
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS], labelSelector: advice=yes") + rules.String()))
	d.AwaitReady()
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: o, labels: {advice: "yes"}}}`)
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: o, labels: {advice: "yes"}}, data: {x: ` + encoded + `}}`)

	var said strings.Builder
	for _, c := range cases {
		want := k.Text(c.want)
		if c.isDead {
			var found struct{ Items []struct{ ID string } }
			d.Poll("the dead letter of "+c.rule, func() bool {
				found.Items = nil
				if err := json.Unmarshal([]byte(state.Command("dead", "list", "--rule", c.rule, "-o", "json")), &found); err != nil {
					t.Fatal(err)
				}
				return len(found.Items) == 1
			})
			shown := state.Command("dead", "show", found.Items[0].ID)
			said.WriteString(shown)
			if line := want + "; then: informd dead retry " + found.Items[0].ID; !strings.Contains(shown, line) {
				t.Errorf("%s: no %q in\n%s", c.rule, line, shown)
			}
			continue
		}
		line := "-> " + want + "; informd then goes on by itself, or at once: informd rule retry " + c.rule + " "
		var shown string
		d.Poll(fmt.Sprintf("the advice about %s: %s", c.rule, line), func() bool {
			shown = state.Command("status", "-o", "wide")
			return regexp.MustCompile(`rule ` + c.rule + `: .*\n *` + regexp.QuoteMeta(line)).MatchString(shown)
		})
		said.WriteString(shown)
	}
	said.WriteString(state.Command("dead", "list", "-o", "wide"))
	d.AwaitWritten()
	harness.WantNotOnDisk(t, state.Dir, []string{secret})
	d.Stop()
	said.WriteString(d.Logged())
	for _, text := range []string{secret, encoded} {
		if strings.Contains(said.String(), text) {
			t.Errorf("the Secret is told:\n%s", said.String())
		}
	}
}

// admission prepares namespaces in which the API server refuses objects, each for another reason, and
// waits until it does. What refuses Secrets quotes them.
func admission(t *testing.T, k *harness.Kube, encoded string) {
	t.Helper()
	for _, name := range []string{"-full", "-new", "-deny", "-down", "-policy", "-restricted"} {
		labels := map[string]string{"refuses": k.Ns + name}
		if name == "-restricted" {
			labels["pod-security.kubernetes.io/enforce"] = "restricted"
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Ns + name, Labels: labels}}
		if _, err := k.Typed.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"deny-400", "deny-422", "deny-429"} {
		k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS-deny, name: ` + name + `}, data: {x: ` + encoded + `}}`)
	}
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS-policy, name: a}, data: {x: ` + encoded + `}}`)
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: frozen}, immutable: true, data: {x: ` + encoded[4:] + `}}`)
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: frozen}, immutable: true, data: {x: "1"}}`)
	k.Create(harness.ConfigMap("theirs", `{x: "1"}`))
	k.Create(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: NS, name: frozen}, spec: {selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}`)
	k.Create(`{apiVersion: v1, kind: LimitRange, metadata: {namespace: NS-full, name: limits}, spec: {limits: [{type: Container, max: {cpu: "1"}}]}}`)

	askWebhook(t, k, "deny", denying(t))
	askWebhook(t, k, "down", nil)
	k.Create(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: NS}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, secrets]}]},
		validations: [{expression: "object.metadata.name == 'forbidden'", messageExpression: "'not ' + string(object.data.x)"},
			{expression: "object.metadata.name != 'forbidden'", reason: Forbidden, messageExpression: "'not ' + string(object.data.x)"}]}}`)
	k.Create(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: NS}, spec: {
		policyName: NS, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {refuses: NS-policy}}}}}`)
	for _, name := range []string{"-full", "-new"} { // nothing here counts, so the test does
		none := resource.MustParse("0")
		hard := corev1.ResourceList{"count/configmaps": none, "count/secrets": none}
		quotas := k.Typed.CoreV1().ResourceQuotas(k.Ns + name)
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		q, err := quotas.Create(t.Context(), q, metav1.CreateOptions{})
		if err == nil {
			if q.Status.Hard = hard; name == "-full" {
				q.Status.Used = hard
			}
			_, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, why := range map[string]string{
		"-full": "exceeded quota", "-new": "status unknown for quota", "-deny": "denied the request",
		"-down": "failed calling webhook", "-policy": "denied request",
	} {
		k.Eventually(name+" to refuse objects", func() bool {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Data: map[string]string{"x": "1"}}
			_, err := k.Typed.CoreV1().ConfigMaps(k.Ns+name).Create(t.Context(), m, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), why)
		})
	}
}

// denying returns a webhook that denies everything, and quotes it. The name deny-CODE chooses its code.
func denying(t *testing.T) *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID, Name string
				Object    json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		code := http.StatusForbidden
		_, _ = fmt.Sscanf(review.Request.Name, "deny-%d", &code)
		object := string(review.Request.Object)
		status := metav1.Status{Code: int32(code), Message: "not " + object}
		if code == http.StatusUnprocessableEntity {
			status.Reason = metav1.StatusReasonInvalid
			status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "data", Message: object}}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{"uid": review.Request.UID, "allowed": false, "status": status},
		})
	}))
	t.Cleanup(server.Close)
	return server
}

// askWebhook has the API server ask a webhook about the namespace NS-NAME. Without a server nobody answers.
func askWebhook(t *testing.T, k *harness.Kube, name string, server *httptest.Server) {
	t.Helper()
	none, fail, seconds := admissionv1.SideEffectClassNone, admissionv1.Fail, int32(5)
	url := "https://127.0.0.1:1/"
	var ca []byte
	if server != nil {
		url = server.URL
		ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	hooks := k.Typed.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: k.Ns + "-" + name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name + ".example.com", SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"refuses": k.Ns + "-" + name}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "secrets"}},
			}},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: ca},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hooks.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
