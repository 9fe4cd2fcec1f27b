package rights_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rights"
)

var update = flag.Bool("update", false, "write the golden files")

// compiled returns the plan of manifests.
func compiled(t *testing.T, files ...config.File) *plan.Plan {
	t.Helper()
	c, mistakes := config.Parse(files)
	p, more := plan.Compile(c)
	if all := append(mistakes, more...); len(all) > 0 {
		t.Fatal(all)
	}
	return p
}

const header = "apiVersion: informd.dev/v1alpha1\n"

// manifests returns manifests of rules that act, one for each text: the source's spec, then the
// rule's without its source.
func of(t *testing.T, source, rule string) *plan.Plan {
	t.Helper()
	return compiled(t, config.File{Path: "rules.yaml", Data: []byte(
		header + "kind: Source\nmetadata: {name: s}\nspec: {" + source + "}\n---\n" +
			header + "kind: Handler\nmetadata: {name: log}\nspec: {builtin: log}\n---\n" +
			header + "kind: Rule\nmetadata: {name: r}\nspec:\n  source: s\n  " +
			strings.ReplaceAll(rule, "\n", "\n  ") + "\n")})
}

// text returns lines without comments, each before its namespace; "*" is all.
func text(lines []rights.Line) (out []string) {
	for _, l := range lines {
		in := l.Namespace
		if in == "" {
			in = "*"
		}
		line := in + ": " + strings.Join(l.Verbs, ",") + " " + l.Resource
		if l.Group != "" {
			line += "." + l.Group
		}
		if l.Names != nil {
			line += " " + strings.Join(l.Names, ",")
		}
		for _, comment := range l.Comments {
			if strings.HasPrefix(comment, "  ") {
				line += " |" + strings.TrimPrefix(comment, " ")
			}
		}
		out = append(out, line)
	}
	return out
}

func TestSources(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         []string
	}{
		{"everywhere", "resource: v1/pods", []string{"*: list,watch pods"}},
		{"a group", "resource: apps/v1/deployments", []string{"*: list,watch deployments.apps"}},
		{"in namespaces", "resource: v1/pods, namespaces: [a, b]",
			[]string{"a: list,watch pods", "b: list,watch pods"}},
		// The API server takes the name of a list from its field selector.
		{"one name", "resource: v1/configmaps, namespaces: [a], fieldSelector: metadata.name=x",
			[]string{"a: list,watch configmaps x"}},
		{"not a name", `resource: v1/configmaps, fieldSelector: "metadata.name!=x"`,
			[]string{"*: list,watch configmaps"}},
		// The list goes to all namespaces all the same.
		{"a namespace by selector", "resource: v1/pods, fieldSelector: metadata.namespace=a", []string{
			"*: list,watch pods | WIDE: metadata.namespace is in its fieldSelector; in its namespaces a Role would do"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := text(rights.Lines(rights.Of(of(t, test.source, "handler: log"), false)))
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestActions(t *testing.T) {
	const pods, inShop = "resource: v1/pods", "resource: v1/pods, namespaces: [shop]"
	for _, test := range []struct {
		name, source, rule string
		want               []string
	}{
		{"the object itself", pods, "actions:\n- patch: {merge: {metadata: {labels: {a: b}}}}",
			[]string{"*: get,list,watch,patch pods"}},
		{"the object itself, in a namespace", inShop, "actions:\n- delete: {}",
			[]string{"shop: get,list,watch,delete pods"}},
		{"its status", inShop, "actions:\n- patch: {resource: v1/pods/status, merge: {status: {phase: Failed}}}",
			[]string{"shop: get,list,watch pods", "shop: patch pods/status"}},
		// The event has the uid of its object, so informd reads nothing. RBAC has no name for a create.
		{"an Event about the object", inShop, "actions:\n- event: {reason: Seen}",
			[]string{"shop: create events", "shop: list,watch pods"}},
		{"an Event about another object", inShop, "actions:\n- event: {reason: Seen, resource: v1/services, namespace: shop, name: web}",
			[]string{"shop: create events", "shop: list,watch pods", "shop: get services web"}},
		{"an Event about this very object", inShop,
			"actions:\n- event: {reason: Seen, resource: v1/services, namespace: shop, name: web, uid: \"${object.metadata.labels.uid}\"}",
			[]string{"shop: create events", "shop: list,watch pods"}},
		// Events about objects without a namespace are in default.
		{"an Event about a node", "resource: v1/nodes", "actions:\n- event: {reason: Seen}",
			[]string{"*: list,watch nodes", "default: create events"}},
		{"an Event about a custom resource", "resource: example.com/v1/things", "actions:\n- event: {reason: Seen}", []string{
			"*: create events | WIDE: if things have no namespaces, the namespace default is enough", "*: list,watch things.example.com"}},
		// The apply of an object that does not exist is a create, and that one has a name.
		{"apply of a constant", inShop, "actions:\n- apply: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: web}}}",
			[]string{"shop: get,create,patch configmaps web", "shop: list,watch pods"}},
		{"create of a constant", inShop, "actions:\n- create: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: web}}}",
			[]string{"shop: create configmaps", "shop: get configmaps web", "shop: list,watch pods"}},
		{"an object", inShop, "actions:\n- create: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}",
			[]string{"shop: create configmaps", "shop: get configmaps web", "shop: list,watch pods"}},
		{"an object of a kind that nobody serves", inShop, "actions:\n- create: {apiVersion: example.com/v1, kind: Sheep, metadata: {namespace: shop, name: web}}",
			[]string{"shop: list,watch pods"}},
		// A template of the object's own namespace is where the source is.
		{"beside the object", inShop,
			"actions:\n- apply: {resource: v1/configmaps, object: {metadata: {namespace: \"${object.metadata.namespace}\", name: \"x-${object.metadata.name}\"}}}",
			[]string{"shop: get,create,patch configmaps", "shop: list,watch pods"}},
		{"apply of the object itself", inShop,
			"actions:\n- apply: {resource: v1/pods, object: {metadata: {namespace: \"${object.metadata.namespace}\", name: \"${ object.metadata.name }\", labels: {a: b}}}}",
			[]string{"shop: get,list,watch,patch pods"}},
		{"apply of the object that was deleted", inShop, "events: [deleted]\n" +
			"actions:\n- apply: {resource: v1/pods, object: {metadata: {namespace: \"${object.metadata.namespace}\", name: \"${object.metadata.name}\"}}}",
			[]string{"shop: get,list,watch,create,patch pods"}},
		{"a computed namespace", inShop, "actions:\n- delete: {resource: v1/services, namespace: \"${object.metadata.labels.in}\", name: web}", []string{
			"*: get,delete services web | WIDE: its namespace is ${object.metadata.labels.in}, known only at run time", "shop: list,watch pods"}},
		{"a computed object", inShop, "actions:\n- forEach: '[object]'\n  apply: {resource: v1/services, object: \"${item}\"}", []string{
			"*: get,create,patch services | WIDE: its namespace is within ${item}, known only at run time", "shop: list,watch pods"}},
		{"without a namespace", inShop, "actions:\n- patch: {resource: v1/nodes, name: \"${object.spec.nodeName}\", merge: {spec: {unschedulable: true}}}",
			[]string{"*: get,patch nodes", "shop: list,watch pods"}},
		// Members are in these namespaces alone, and so is what the rule does to them.
		{"where names the namespaces", pods, "where: object.metadata.namespace in ['a', 'b'] and object.status.phase == 'Failed'\nactions:\n- delete: {}",
			[]string{"*: list,watch pods", "a: get,delete pods", "b: get,delete pods"}},
		{"where names the object", inShop, "where: object.metadata.name == 'web'\nactions:\n- delete: {}",
			[]string{"shop: list,watch pods", "shop: get,delete pods web"}},
		{"where is in no namespace of the source", inShop, "where: object.metadata.namespace == 'other'\nactions:\n- delete: {}",
			[]string{"shop: get,list,watch,delete pods"}},
		{"two names", inShop, "actions:\n- delete: {resource: v1/services, namespace: shop, name: a}\n- delete: {resource: v1/services, namespace: shop, name: b}",
			[]string{"shop: list,watch pods", "shop: get,delete services a", "shop: get,delete services b"}},
		// prune lists everywhere, and deletes where the rule applies.
		{"prune", inShop, "prune: true\nactions:\n- apply: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: web}}}",
			[]string{"*: list configmaps", "shop: get,create,patch,delete configmaps web", "shop: list,watch pods"}},
		{"a Role", inShop, "actions:\n- apply: {resource: rbac.authorization.k8s.io/v1/roles, object: {metadata: {namespace: shop, name: web}}}", []string{
			"shop: list,watch pods",
			"shop: get,create,patch,escalate roles.rbac.authorization.k8s.io web | escalate is not needed if informd has the rights itself that it grants"}},
		{"a binding", inShop, "actions:\n- apply:\n    resource: rbac.authorization.k8s.io/v1/rolebindings\n    object:\n" +
			"      metadata: {namespace: shop, name: web}\n      roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}", []string{
			"shop: list,watch pods",
			"shop: bind clusterroles.rbac.authorization.k8s.io view | bind is not needed if informd has the rights itself that it grants",
			"shop: get,create,patch rolebindings.rbac.authorization.k8s.io web"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := text(rights.Lines(rights.Of(of(t, test.source, test.rule), false)))
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// What a handler may ask for, informd may need.
func TestGrants(t *testing.T) {
	for _, test := range []struct {
		name, grant string
		want        []string
	}{
		{"everywhere", "resource: v1/pods, verbs: [patch, event]",
			[]string{"*: create events", "*: get,patch pods"}},
		{"in namespaces, with names", "resource: v1/configmaps, verbs: [apply], namespaces: [a], names: [x, y]",
			[]string{"a: get,create,patch configmaps x,y"}},
		{"names of a create", "resource: v1/configmaps, verbs: [create], namespaces: [a], names: [x]", []string{
			"a: create configmaps | WIDE: RBAC cannot tie create to a name: informd itself does",
			"a: get configmaps x | WIDE: RBAC cannot tie create to a name: informd itself does"}},
		{"patterns", "resource: v1/configmaps, verbs: [delete], names: [x, \"web-*\"]",
			[]string{"*: get,delete configmaps | WIDE: RBAC knows no pattern such as web-*: informd itself keeps to the names"}},
		{"a status", "resource: v1/pods/status, verbs: [patch]", []string{"*: get pods", "*: patch pods/status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := compiled(t, config.File{Path: "rules.yaml", Data: []byte(
				header + "kind: Source\nmetadata: {name: s}\nspec: {resource: v1/namespaces}\n---\n" +
					header + "kind: Handler\nmetadata: {name: h}\nspec: {command: [./h], access: {write: [{" + test.grant + "}]}}\n---\n" +
					header + "kind: Handler\nmetadata: {name: unused}\nspec: {command: [./h], access: {write: [{resource: v1/secrets, verbs: [delete]}]}}\n---\n" +
					header + "kind: Rule\nmetadata: {name: r}\nspec: {source: s, handler: h}\n")})
			got := text(rights.Lines(rights.Of(p, false)))
			want := append(test.want, "*: list,watch namespaces")
			less := func(in []string) map[string]bool {
				set := make(map[string]bool)
				for _, line := range in {
					set[line] = true
				}
				return set
			}
			if d := cmp.Diff(less(want), less(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Each example has its rights beside this test. The files are what informd rbac prints.
func TestExamples(t *testing.T) {
	var files []string
	for _, pattern := range []string{"rules/*.yaml", "actions/*.yaml", "exec/*.yaml", "webhook/*.yaml"} {
		found, err := filepath.Glob("../../examples/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 30 {
		t.Fatalf("there are only %d examples", len(files))
	}
	golden := make(map[string]bool)
	for _, file := range files {
		if config.IsTestFile(file) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := compiled(t, config.File{Path: file, Data: data})
		got := rights.Manifests(rights.Lines(rights.Of(p, true)),
			rights.Account{Namespace: "informd", Name: "informd"})
		name := filepath.Join("testdata", filepath.Base(filepath.Dir(file))+"-"+filepath.Base(file))
		golden[name] = true
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (go test -update writes it): %s", name, d)
		}
	}
	left, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if !golden[name] {
			t.Errorf("%s is of no example", name)
		}
	}
}

// What deploy/ grants is the least that its rules need.
func TestDeploy(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/3-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(rules), "failed-pods.yaml: |\n")
	if !ok {
		t.Fatal("deploy/3-rules.yaml has no failed-pods.yaml")
	}
	text = strings.ReplaceAll("\n"+text, "\n    ", "\n")
	p := compiled(t, config.File{Path: "failed-pods.yaml", Data: []byte(text)})
	want := rights.Manifests(rights.Lines(rights.Of(p, true)),
		rights.Account{Namespace: "informd", Name: "informd"})
	permissions, err := os.ReadFile("../../deploy/2-permissions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(permissions), "\n"+want) {
		t.Errorf("deploy/2-permissions.yaml does not end with what informd rbac prints:\n%s", want)
	}
}

// YAML must not take a name for something else, and no text from a manifest may leave its comment.
func TestQuotes(t *testing.T) {
	p := of(t, "resource: v1/pods, namespaces: [\"123\"]",
		"actions:\n- delete: {resource: v1/services, namespace: \"null\", name: \"1e3\"}\n"+
			"- delete: {resource: v1/services, namespace: \"${\\n  object.metadata.labels['a\\tb']\\n}\", name: \"off\"}")
	got := rights.Manifests(rights.Lines(rights.Of(p, false)), rights.Account{Namespace: "a", Name: "b"})
	for _, want := range []string{
		`namespace: "123"}`, `namespace: "null"}`, `resourceNames: ["1e3"]`, `resourceNames: ["off"]`,
		"metadata: {name: a-b}", "${ object.metadata.labels['a b'] }",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
}

func TestSurplus(t *testing.T) {
	p := of(t, "resource: v1/pods, namespaces: [shop]",
		"actions:\n- delete: {resource: v1/services, namespace: shop, name: web}")
	needs := rights.Of(p, true)
	one := func(verbs, groups, resources string, names ...string) rights.Granted {
		return rights.Granted{Verbs: strings.Fields(verbs), Groups: []string{groups}, Resources: strings.Fields(resources), Names: names}
	}
	for _, test := range []struct {
		name, namespace string
		granted         rights.Granted
		want            []string
	}{
		{"enough", "shop", one("list watch", "", "pods"), nil},
		{"what everybody has", "", one("create", "authorization.k8s.io", "selfsubjectaccessreviews"), nil},
		{"kube-system", "", one("get", "", "namespaces", "kube-system"), nil},
		{"all namespaces' names", "", one("get", "", "namespaces"), []string{"get namespaces: needed only for those named kube-system"}},
		{"another verb", "shop", one("list watch delete get", "", "pods"), []string{"delete, get pods in namespace shop"}},
		{"another resource", "shop", one("list", "", "secrets pods"), []string{"list secrets in namespace shop"}},
		{"another group", "shop", one("list", "metrics.k8s.io", "pods"), []string{"list pods.metrics.k8s.io in namespace shop"}},
		{"another name", "shop", one("get delete", "", "services", "web", "db"), []string{"get, delete services named db in namespace shop"}},
		{"any name", "shop", one("delete", "", "services"), []string{"delete services in namespace shop: needed only for those named web"}},
		{"any namespace", "", one("list watch", "", "pods"), []string{"list, watch pods in all namespaces: needed only in shop"}},
		{"all of it", "", one("*", "*", "*"), []string{"every verb of every resource"}},
		{"all verbs", "shop", one("*", "", "pods"), []string{"every verb of pods in namespace shop"}},
		{"a subresource", "shop", one("create", "", "pods/exec"), []string{"create pods/exec in namespace shop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := rights.Surplus(needs, test.namespace, []rights.Granted{test.granted})
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
