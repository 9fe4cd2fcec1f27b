package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A source that RBAC forbids delays no other source. informd reports it once, is not ready, and
// recovers without a restart.
func TestForbiddenSourceWaits(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	allow := func(resource string) {
		k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: NS, name: ` + resource + `}, ` +
			`rules: [{apiGroups: [""], resources: [` + resource + `], verbs: [list, watch]}]}`)
		k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: NS, name: ` + resource + `}, ` +
			`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + resource + `}, ` +
			`subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]}`)
	}
	denied := k.ServerCounts("authorization_attempts_total", `result="no-opinion"`)
	allow("configmaps")
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: there}}`)
	d := harness.RunInformd(t, cluster.Shared(t).LimitedKubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps)+harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]")+
			harness.Handler("log", "builtin: log")+
			harness.Rule("allowed", "source: configmaps, handler: log")+
			harness.Rule("forbidden", "source: secrets, handler: log, payload: {}")))

	d.Poll("the other source to have synced", func() bool {
		return d.Metric(`informd_source_state{source="configmaps",state="synced"}`) == "1"
	})
	k.Create(harness.ConfigMap("first", "{}"))
	k.Sees(d, "allowed NS/first added")
	d.AwaitLog("source is forbidden")
	d.Poll("more attempts", func() bool {
		return k.ServerCounts("authorization_attempts_total", `result="no-opinion"`) >= denied+3
	})
	if code, body := d.Get("/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "[+] source configmaps: synced") || !strings.Contains(body, "[-] source secrets: forbidden") {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if n := harness.Count(d.Logged(), "level=WARN", "v1/secrets"); n != 1 {
		t.Errorf("said %d times that the source is forbidden; want once", n)
	}
	if got := d.Metric(`informd_source_state{source="secrets",state="forbidden"}`); got != "1" {
		t.Errorf("informd_source_state of forbidden: %q, want 1", got)
	}

	allow("secrets")
	d.AwaitReady()
	k.Sees(d, "forbidden NS/there synced")
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: new}}`)
	k.Saw(d,
		"allowed NS/first added",
		"forbidden NS/there synced {}",
		"forbidden NS/new added {}")
}

// A resource and its objects come and go with their CRD. Other sources are not affected, and the
// daemon stays ready.
func TestResourceComesAndGoes(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps)+harness.Source("gizmos", "resource: informd.test/v1/gizmos, namespaces: [NS]")+
			harness.Handler("log", "builtin: log")+
			harness.Rule("configmaps", "source: configmaps, handler: log")+
			harness.Rule("gizmos", "source: gizmos, handler: log, payload: {size: object.size}")))
	notServed := func(times int) {
		t.Helper()
		d.Until("it to wait for the resource", func() bool {
			return harness.Count(d.Log.String(), "level=WARN", "does not serve the resource", "gizmos") >= times
		})
		d.AwaitReady()
		d.Poll("/readyz to say so", func() bool {
			_, body := d.Get("/readyz")
			return strings.Contains(body, "[+] source gizmos: not served")
		})
	}
	gizmo := func(name, size string) string {
		return `{apiVersion: informd.test/v1, kind: Gizmo, metadata: {namespace: NS, name: ` + name + `}, size: ` + size + `}`
	}

	notServed(1)
	k.Create(harness.ConfigMap("meanwhile", "{}"))
	k.Sees(d, "configmaps NS/meanwhile added")

	crd := k.Define("Gizmo")
	k.Create(gizmo("a", "1"))
	k.Create(gizmo("b", "2"))
	k.Sees(d, "gizmos NS/a added")
	k.Sees(d, "gizmos NS/b added")
	k.Undefine(t.Context(), crd)
	k.Sees(d, "gizmos NS/a deleted")
	k.Sees(d, "gizmos NS/b deleted")

	notServed(2)
	k.Define("Gizmo")
	k.Create(gizmo("a", "3"))
	k.Create(gizmo("last", "4"))
	k.Saw(d,
		"configmaps NS/meanwhile added",
		`gizmos NS/a added {"size":1}`, `gizmos NS/a deleted {"size":1}`,
		`gizmos NS/b added {"size":2}`, `gizmos NS/b deleted {"size":2}`,
		`gizmos NS/a added {"size":3}`, `gizmos NS/last added {"size":4}`)
	if n := harness.Count(d.Log.String(), "level=WARN", "gizmos"); n != 2 {
		t.Errorf("said %d times that the resource is not served; want once for each time", n)
	}
}

func TestAPIServerComesLater(t *testing.T) {
	t.Parallel()
	c := cluster.New(t)
	k := harness.NewKube(t, c)
	k.Create(harness.ConfigMap("there", "{}"))
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(harness.ShortDir(t), "control")
	d := harness.RunInformd(t, c.Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps)+harness.Source("secrets", "resource: v1/secrets")+
			harness.Handler("log", "builtin: log")+harness.Rule("rule", "source: configmaps, handler: log")+
			harness.Rule("other", "source: secrets, handler: log")), "--control", socket)
	d.AwaitLog("waiting for the API server")
	if code, body := d.Get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	d.Poll("status to say why", func() bool {
		code, _ := d.Get("/readyz")
		_, out, _ := harness.Informd(t, "status", "--control", socket)
		return code == http.StatusServiceUnavailable && strings.Contains(out, "connection refused")
	})

	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.AwaitReady()
	k.Sees(d, "rule NS/there synced")
	k.Create(harness.ConfigMap("new", "{}"))
	k.Saw(d, "rule NS/there synced", "rule NS/new added")
	if n := harness.Count(d.Log.String(), "level=WARN", "API server"); n != 1 {
		t.Errorf("said %d times that the API server is away; want once, whatever the sources", n)
	}
}

const anyRules = `
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: configmaps}, spec: {resource: v1/configmaps}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: log}, spec: {builtin: log}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: rule}, spec: {source: configmaps, handler: log}}
`

// A kubeconfig without a usable cluster is an error at once. The error names what is wrong.
func TestUnusableKubeconfig(t *testing.T) {
	t.Parallel()
	good := cluster.Shared(t).Kubeconfig()
	file := harness.WriteFile(t, "rules.yaml", anyRules)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"missing", []string{"--kubeconfig", "/no/such/kubeconfig"}, `/no/such/kubeconfig: no such file`},
		{"garbage", []string{"--kubeconfig", harness.WriteFile(t, "config", "\x00\x01{{{")}, `load kubeconfig`},
		{"a folder", []string{"--kubeconfig", t.TempDir()}, `is a directory`},
		{"empty", []string{"--kubeconfig", harness.WriteFile(t, "config", "")}, `no cluster to connect to`},
		{"no such context", []string{"--kubeconfig", good, "--context", "elsewhere"}, `context "elsewhere" does not exist`},
		{"a CA file that is missing", []string{"--kubeconfig", harness.Edited(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, "/no/such/ca"
		})}, `/no/such/ca`},
		{"a certificate that is none", []string{"--kubeconfig", harness.Edited(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
			a.ClientCertificateData = []byte("no PEM")
		})}, `PEM`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := harness.Informd(t, append([]string{"run", "-f", file}, test.args...)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, want 1; output %q; want an error with %q:\n%s", code, stdout, test.want, stderr)
			}
			if strings.Contains(stderr, "panic") || strings.Count(stderr, "\n") > 2 {
				t.Errorf("want one clear error:\n%s", stderr)
			}
		})
	}
}

// If the API server refuses a kubeconfig, informd says so once and waits, because that may change.
func TestKubeconfigThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		want string
	}{
		{"another CA", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData = nil // the system's then
		}, `certificate`},
		{"wrong credentials", func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
			*a = clientcmdapi.AuthInfo{Token: "not-a-token"}
		}, `(?i)unauthorized`},
		{"nobody there", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://" + harness.FreeAddress(t)
		}, `connection refused`},
	} {
		t.Run(test.name, func(t *testing.T) {
			socket := filepath.Join(harness.ShortDir(t), "control")
			d := harness.RunInformd(t, harness.Edited(t, test.edit), anyRules, "--control", socket)
			d.AwaitLog("level=WARN")
			if !regexp.MustCompile(`level=WARN.*reason=.*`+test.want).MatchString(d.Logged()) || harness.Count(d.Logged(), "level=WARN") != 1 {
				t.Errorf("the log does not say once why:\n%s", d.Logged())
			}
			d.Poll("status to say why", func() bool {
				code, _ := d.Get("/readyz")
				_, out, _ := harness.Informd(t, "status", "--control", socket)
				return code == http.StatusServiceUnavailable && regexp.MustCompile(test.want).MatchString(out)
			})
			if strings.Contains(d.Logged(), "not-a-token") {
				t.Error("a token is in the log")
			}
			d.Stop()
		})
	}
}

// When a version is no longer served, its objects live on in another one: no rule sees deletions,
// and nothing that was applied for them is pruned.
func TestVersionIsNoLongerServed(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	versions := func(v1 bool) string {
		const open = `schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`
		return `versions: [{name: v1, served: ` + strconv.FormatBool(v1) + `, storage: false, ` + open + `}, ` +
			`{name: v2, served: true, storage: true, ` + open + `}]`
	}
	crd := k.DefineWith(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gears.informd.test}, ` +
		`spec: {group: informd.test, scope: Namespaced, names: {plural: gears, singular: gear, kind: Gear}, ` + versions(true) + `}}`)
	serve := func(v1 bool) { k.Patch(crd, `spec: {`+versions(v1)+`}`) }
	k.Create(`{apiVersion: informd.test/v1, kind: Gear, metadata: {namespace: NS, name: a}, size: 1}`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("gears", "resource: informd.test/v1/gears, namespaces: [NS]")+harness.Handler("log", "builtin: log")+
			harness.Rule("gears", `source: gears, handler: log, payload: {size: object.size}, prune: true, actions: [{apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-made"}, data: {made: "yes"}}}}]`)))
	k.Has("a-made", "made", "yes")
	serve(false)
	d.AwaitLog("only in v2: name that version in the source")
	d.Poll("/readyz to say so", func() bool {
		code, body := d.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-] source gears: not served")
	})
	serve(true)
	d.AwaitReady()
	k.Create(`{apiVersion: informd.test/v1, kind: Gear, metadata: {namespace: NS, name: last}, size: 2}`)
	k.Has("last-made", "made", "yes")
	k.Has("a-made", "made", "yes")
	k.Saw(d, `gears NS/a synced {"size":1}`, `gears NS/last added {"size":2}`)
}
