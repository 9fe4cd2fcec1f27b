package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/cluster"
)

// count tells how many lines of a log hold all of the texts.
func count(log string, texts ...string) int {
	n := 0
	for line := range strings.Lines(log) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			n++
		}
	}
	return n
}

// What RBAC forbids holds up its own source, is said once, makes the daemon unready, and heals without a restart.
func TestForbiddenSourceWaits(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	allow := func(resource string) {
		k.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: NS, name: ` + resource + `}, ` +
			`rules: [{apiGroups: [""], resources: [` + resource + `], verbs: [list, watch]}]}`)
		k.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: NS, name: ` + resource + `}, ` +
			`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + resource + `}, ` +
			`subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]}`)
	}
	denied := k.serverCounts("authorization_attempts_total", `result="no-opinion"`)
	allow("configmaps")
	k.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: there}}`)
	d := runInformd(t, cluster.Shared(t).LimitedKubeconfig(), k.text(
		source("configmaps", configMaps)+source("secrets", "resource: v1/secrets, namespaces: [NS]")+
			toldBy("log", "builtin: log")+
			ruleFor("allowed", "source: configmaps, handler: log")+
			ruleFor("forbidden", "source: secrets, handler: log, payload: {}")))

	d.poll("the other source to have synced", func() bool {
		return d.metric(`informd_source_state{source="configmaps",state="synced"}`) == "1"
	})
	k.create(configMap("first", "{}"))
	k.sees(d, "allowed NS/first added")
	d.awaitLog("source is forbidden")
	d.poll("more attempts", func() bool {
		return k.serverCounts("authorization_attempts_total", `result="no-opinion"`) >= denied+3
	})
	if code, body := d.get("/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "[+] source configmaps: synced") || !strings.Contains(body, "[-] source secrets: forbidden") {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if n := count(d.logged(), "level=WARN", "v1/secrets"); n != 1 {
		t.Errorf("said %d times that the source is forbidden; want once", n)
	}
	if got := d.metric(`informd_source_state{source="secrets",state="forbidden"}`); got != "1" {
		t.Errorf("informd_source_state of forbidden: %q, want 1", got)
	}

	allow("secrets")
	d.awaitReady()
	k.sees(d, "forbidden NS/there synced")
	k.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: new}}`)
	k.saw(d,
		"allowed NS/first added",
		"forbidden NS/there synced {}",
		"forbidden NS/new added {}")
}

// A resource comes and goes with its CRD, and its objects with it. Nobody else notices, and the daemon is ready.
func TestResourceComesAndGoes(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), k.text(
		source("configmaps", configMaps)+source("gizmos", "resource: informd.test/v1/gizmos, namespaces: [NS]")+
			toldBy("log", "builtin: log")+
			ruleFor("configmaps", "source: configmaps, handler: log")+
			ruleFor("gizmos", "source: gizmos, handler: log, payload: {size: object.size}")))
	notServed := func(times int) {
		t.Helper()
		d.until("it to wait for the resource", func() bool {
			return count(d.log.String(), "level=WARN", "does not serve the resource", "gizmos") >= times
		})
		d.awaitReady()
		if _, body := d.get("/readyz"); !strings.Contains(body, "[+] source gizmos: not served") {
			t.Errorf("/readyz:\n%s", body)
		}
	}
	gizmo := func(name, size string) string {
		return `{apiVersion: informd.test/v1, kind: Gizmo, metadata: {namespace: NS, name: ` + name + `}, size: ` + size + `}`
	}

	notServed(1)
	k.create(configMap("meanwhile", "{}"))
	k.sees(d, "configmaps NS/meanwhile added")

	crd := k.define("Gizmo")
	k.create(gizmo("a", "1"))
	k.create(gizmo("b", "2"))
	k.sees(d, "gizmos NS/a added")
	k.sees(d, "gizmos NS/b added")
	k.undefine(t.Context(), crd)
	k.sees(d, "gizmos NS/a deleted")
	k.sees(d, "gizmos NS/b deleted")

	notServed(2)
	k.define("Gizmo")
	k.create(gizmo("a", "3"))
	k.create(gizmo("last", "4"))
	k.saw(d,
		"configmaps NS/meanwhile added",
		`gizmos NS/a added {"size":1}`, `gizmos NS/a deleted {"size":1}`,
		`gizmos NS/b added {"size":2}`, `gizmos NS/b deleted {"size":2}`,
		`gizmos NS/a added {"size":3}`, `gizmos NS/last added {"size":4}`)
	if n := count(d.log.String(), "level=WARN", "gizmos"); n != 2 {
		t.Errorf("said %d times that the resource is not served; want once for each time", n)
	}
}

// Not parallel: a control plane of its own is enough for two cores.
func TestAPIServerComesLater(t *testing.T) {
	c := cluster.New(t)
	k := newKube(t, c)
	k.create(configMap("there", "{}"))
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	d := runInformd(t, c.Kubeconfig(), k.text(
		source("configmaps", configMaps)+source("secrets", "resource: v1/secrets")+
			toldBy("log", "builtin: log")+ruleFor("rule", "source: configmaps, handler: log")+
			ruleFor("other", "source: secrets, handler: log")))
	d.awaitLog("waiting for the API server")
	if code, body := d.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	d.poll("/readyz to say why", func() bool {
		code, body := d.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "connection refused")
	})

	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.awaitReady()
	k.sees(d, "rule NS/there synced")
	k.create(configMap("new", "{}"))
	k.saw(d, "rule NS/there synced", "rule NS/new added")
	if n := count(d.log.String(), "level=WARN", "API server"); n != 1 {
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

// A kubeconfig that leads nowhere is an error at once, which names what is wrong.
func TestKubeconfigOfNoUse(t *testing.T) {
	t.Parallel()
	good := cluster.Shared(t).Kubeconfig()
	file := writeFile(t, "rules.yaml", anyRules)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"missing", []string{"--kubeconfig", "/no/such/kubeconfig"}, `/no/such/kubeconfig: no such file`},
		{"garbage", []string{"--kubeconfig", writeFile(t, "config", "\x00\x01{{{")}, `load kubeconfig`},
		{"a folder", []string{"--kubeconfig", t.TempDir()}, `is a directory`},
		{"empty", []string{"--kubeconfig", writeFile(t, "config", "")}, `no cluster to connect to`},
		{"no such context", []string{"--kubeconfig", good, "--context", "elsewhere"}, `context "elsewhere" does not exist`},
		{"a CA file that is missing", []string{"--kubeconfig", edited(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, "/no/such/ca"
		})}, `/no/such/ca`},
		{"a certificate that is none", []string{"--kubeconfig", edited(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
			a.ClientCertificateData = []byte("no PEM")
		})}, `PEM`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := informd(t, append([]string{"run", "-f", file}, test.args...)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, want 1; output %q; want an error with %q:\n%s", code, stdout, test.want, stderr)
			}
			if strings.Contains(stderr, "panic") || strings.Count(stderr, "\n") > 2 {
				t.Errorf("want one clear error:\n%s", stderr)
			}
		})
	}
}

// A kubeconfig with which the API server cannot be talked to may become right: informd says so, once, and waits.
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
			c.Server = "https://" + freeAddress(t)
		}, `connection refused`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := runInformd(t, edited(t, test.edit), anyRules)
			d.awaitLog("level=WARN")
			if !regexp.MustCompile(`level=WARN.*reason=.*`+test.want).MatchString(d.logged()) || count(d.logged(), "level=WARN") != 1 {
				t.Errorf("the log does not say once why:\n%s", d.logged())
			}
			d.poll("/readyz to say why", func() bool {
				code, body := d.get("/readyz")
				return code == http.StatusServiceUnavailable && regexp.MustCompile(test.want).MatchString(body)
			})
			if strings.Contains(d.logged(), "not-a-token") {
				t.Error("a token is in the log")
			}
			d.stop()
		})
	}
}

// edited is the shared cluster's kubeconfig with a change.
func edited(t *testing.T, edit func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	context := config.Contexts[config.CurrentContext]
	edit(config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo])
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
