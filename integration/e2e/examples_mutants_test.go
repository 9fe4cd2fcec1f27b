package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/informd/informd/cmd/informd/launch"
	checking "github.com/informd/informd/cmd/informd/offline"
	"github.com/informd/informd/cmd/informd/rbac"
	"github.com/informd/informd/cmd/informd/ruletest"
	"github.com/informd/informd/cmd/informd/schemas"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rights"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/builtin"
	"github.com/informd/informd/plugins/handler"
)

// TestHostileInputOfAnyShape checks that no manifest brings informd down, whatever shape its values
// have. It changes the examples, and what docs/ shows, by one to three nodes of YAML, and does with
// the result what the commands and the daemon do. A panic fails it, also one that something recovers
// from: it calls what the net of package manifests is around.
//
// make soak tries a hundred thousand mutants, and every value of others in every simple shape.
func TestHostileInputOfAnyShape(t *testing.T) {
	t.Parallel()
	mutants, of := 3000, 4
	if harness.Soak() {
		mutants, of = 100_000, 1
	}
	seed := harness.Seed(t)
	m := &mutator{random: rand.New(rand.NewPCG(seed, seed)), bases: basesOf(t)}
	m.collect()
	victim := &victim{folder: t.TempDir(), found: make(map[string]bool)}
	try := func(files []config.File) {
		victim.try(t, files)
		if len(victim.found) >= 10 {
			t.Fatal("there are more; the rest is not tried")
		}
	}
	for _, b := range m.bases[len(m.bases)-len(others):] {
		for files := range b.reshaped(func() bool { return m.random.IntN(of) == 0 }) {
			try(files)
		}
	}
	for victim.tried < mutants {
		try(m.mutant())
	}
	t.Logf("of %d mutants %d are valid", victim.tried, victim.valid)
	if victim.valid < victim.tried/50 || victim.valid > victim.tried*9/10 {
		t.Error("the mutator does too little, or too much")
	}
}

// recovered is the last panic that package expr recovered from, and its stack.
var recovered atomic.Pointer[string]

func init() {
	expr.OnPanic = func(cause any) {
		text := fmt.Sprintf("%v\n%s", cause, debug.Stack())
		recovered.Store(&text)
	}
}

// base is what mutants are made of: files that go together, each a list of documents.
type base struct {
	paths []string
	files [][]document
}

// document is a document of YAML. Its text is empty once it is changed.
type document struct {
	root *yaml.Node
	text string
}

var yamlBlocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// basesOf returns the examples, each with its tests, the blocks of docs, and one base of its own
// that has what they lack.
func basesOf(t *testing.T) (bases []base) {
	t.Helper()
	add := func(texts map[string]string) {
		var b base
		for path, text := range texts {
			var documents []document
			decoder := yaml.NewDecoder(strings.NewReader(text))
			for {
				var root yaml.Node
				if decoder.Decode(&root) != nil {
					break
				}
				documents = append(documents, document{&root, encode(clone(&root))})
			}
			if len(documents) > 0 {
				b.paths, b.files = append(b.paths, path), append(b.files, documents)
			}
		}
		if len(b.paths) > 0 {
			bases = append(bases, b)
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	files := 0
	for _, root := range []string{"../../examples", "../../docs"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch ext := filepath.Ext(path); {
			case err != nil || entry.IsDir() && entry.Name() == "node_modules":
				return fs.SkipDir
			case ext == ".md":
				for _, block := range yamlBlocks.FindAllStringSubmatch(read(path), -1) {
					if strings.Contains(block[1], "informd.dev/v1alpha1") {
						add(map[string]string{"a.yaml": block[1]})
					}
				}
			case ext == ".yaml" && !config.IsTestFile(path):
				texts := map[string]string{"a.yaml": read(path)}
				tests := strings.TrimSuffix(path, ".yaml") + "_test.yaml"
				if _, err := os.Stat(tests); err == nil {
					texts["a_test.yaml"] = read(tests)
				}
				files += len(texts)
				add(texts)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 60 {
		t.Fatalf("there are only %d examples", files)
	}
	tests := len(others) - 1
	for _, text := range others[:tests] {
		add(map[string]string{"a.yaml": text})
	}
	add(map[string]string{"a.yaml": others[1], "a_test.yaml": others[tests]})
	return bases
}

// others have fields that no example has. Each is the text of a file; the last is one of tests.
var others = []string{`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s, labels: {a: b}}
spec:
  resource: v1/pods
  namespaces: [a, b]
  labelSelector: tier in (web)
  fieldSelector: status.phase!=Succeeded
  resync: 10m
  indexes: {byNode: object.spec.nodeName}
  metrics: [{name: pods, help: Pods., value: 1, labels: {node: object.spec.nodeName}, series: 10}]
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec:
  source: s
  formerly: q
  handler: h
  where: object.status.phase == "Failed"
  due: time(object.metadata.creationTimestamp) + duration("1h")
  when: event != "synced" and len(byIndex("byNode", object.spec.nodeName)) > 1
  events: [added, updated, deleted]
  delivery: every
  count: {times: 3, within: 1h, by: object.spec.nodeName, at: time(object.metadata.creationTimestamp)}
  group: {by: object.spec.nodeName, wait: 30s, every: 5m}
  payload: {a: object.metadata.name, b: ["x ${object.kind}", {c: old.spec}]}
  attach: {others: 'byIndex("byNode", object.spec.nodeName)'}
  ownChanges: deliver
  metrics:
  - {name: a_total, help: A., type: counter, value: 1, labels: {event: event}}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec: {builtin: webhook, config: {url: "https://example.com/${event.name}", headers: {a: b}, body: {a: "${event.payload}"}}}
`, `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: v1/pods, keep: needed, indexes: {byNode: object.spec.nodeName}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec:
  source: s
  prune: true
  actions:
  - forEach: byIndex("byNode", object.spec.nodeName)
    if: item.spec.nodeName != nil
    patch: {resource: v1/pods/status, namespace: a, name: "${item.metadata.name}", uid: "${item.metadata.uid}", json: [{op: add, path: /status/phase, value: Failed}]}
  - patch: {merge: {metadata: {labels: {a: b}, annotations: {c: "${object.kind}"}}}}
  - event: {reason: Gone, message: "x ${object.metadata.name}", warning: true}
  - create: {resource: batch/v1/jobs, object: {metadata: {name: a, namespace: a}, spec: {template: {metadata: {labels: {a: b}}}}}}
  - delete: {resource: v1/configmaps, name: a, namespace: b, resourceVersion: "${object.metadata.resourceVersion}"}
  - apply: {resource: v1/configmaps, object: {metadata: {name: a, namespace: b}, data: {a: "1", b: "${object.kind}"}}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: alone}
spec:
  handler: h
  schedule: {cron: ["0 3 * * MON-FRI", "@start"], zone: Europe/Berlin}
  payload: len(lookup("s.byNode", "a"))
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec: {builtin: log}
`, `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec:
  command: [./h, -v]
  sha256: 0000000000000000000000000000000000000000000000000000000000000000
  env: [A]
  config: {a: {b: [1, 2.5, ~, true, x]}}
  concurrency: 3
  timeout: 5s
  retry: {attempts: 3, backoff: 1s, maxBackoff: 1m}
  logLevel: debug
  user: "1000:1000"
  limits: {memory: 64Mi, cpu: 500m, files: 100, processes: 10}
  sandbox: true
  files: {read: [/etc/ssl], write: [/tmp/x]}
  network: [443]
  access: {read: [s], write: [{resource: v1/pods/status, verbs: [patch], namespaces: [a], names: ["a*"]}]}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: remote}
spec:
  address: dns:///h.a.svc:8443
  tls: {ca: ca.pem, cert: cert.pem, key: key.pem, serverName: h}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: example.com/v1/tests}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec: {source: s, where: object.status.a == object.n, handler: h}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tests.example.com}
spec:
  group: example.com
  names: {plural: tests, kind: Test}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, additionalProperties: {type: string}}, status: {x-kubernetes-preserve-unknown-fields: true}, n: {anyOf: [{type: integer}, {type: string}], enum: [1, a]}}}}
`, `
apiVersion: informd.dev/v1alpha1
kind: Test
metadata: {name: a}
spec:
  start: 2026-01-02T03:00:00Z
  rules: [r, alone]
  steps:
  - apply: {source: s, object: {metadata: {name: a, namespace: a, labels: {tier: web}}, status: {phase: Failed}}}
  - {patch: {source: s, namespace: a, name: a, merge: {spec: {nodeName: n}}}, expect: []}
  - {after: 5m, expect: [], exact: true}
  - restart: {down: 1s, state: lost, history: lost, clock: -1h, meanwhile: [{delete: {source: s, namespace: a, name: a}}]}
  - relist: {history: lost, meanwhile: [{apply: {source: s, object: {metadata: {name: b, namespace: a}}}}]}
  - answer: {rule: r, times: 2, retry: {after: 5s, reason: x}}
  - answer: {handler: h, actions: [{patch: {merge: {a: b}}}]}
  - {after: 1h, expect: [{rule: r, event: added, name: a, namespace: a, attempt: 2, object: {}, payload: {a: 1}, items: [{name: a}], actions: [{patch: {name: a}}], dead: x}]}
`}

// mutator makes mutants.
type mutator struct {
	random *rand.Rand
	bases  []base
	// values that stand in the bases, by the names of the fields around them, and by their own names
	known map[string]map[string][]*yaml.Node
	all   []*yaml.Node
}

func (m *mutator) collect() {
	m.known = make(map[string]map[string][]*yaml.Node)
	for _, b := range m.bases {
		for _, documents := range b.files {
			for _, document := range documents {
				for _, p := range placesIn(document.root) {
					if p.isMapping() {
						in := m.known[p.path]
						if in == nil {
							in = make(map[string][]*yaml.Node)
							m.known[p.path] = in
						}
						in[p.key().Value] = append(in[p.key().Value], p.node())
					}
					m.all = append(m.all, p.node())
				}
			}
		}
	}
}

// reshaped yields the files with one value after the other in another shape, and without it. It asks
// wants before each.
func (b base) reshaped(wants func() bool) iter.Seq[[]config.File] {
	return func(yield func([]config.File) bool) {
		for i, documents := range b.files {
			for j, document := range documents {
				for k := range placesIn(document.root) {
					for _, v := range append(slices.Clip(shapes), nil) {
						if !wants() {
							continue
						}
						mutant := b.clone()
						p := placesIn(mutant.open(i, j))[k]
						if v != nil {
							p.parent.Content[p.at] = clone(v)
						} else {
							p.remove()
						}
						if !yield(mutant.texts()) {
							return
						}
					}
				}
			}
		}
	}
}

func (b base) clone() base {
	out := base{b.paths, make([][]document, len(b.files))}
	for i, documents := range b.files {
		out.files[i] = slices.Clone(documents)
	}
	return out
}

// open returns the root of a document that is about to be changed.
func (b base) open(file, at int) *yaml.Node {
	d := &b.files[file][at]
	if d.text != "" {
		*d = document{root: clone(d.root)}
	}
	return d.root
}

// mutant returns files that are changed in one to three places.
func (m *mutator) mutant() (files []config.File) {
	b := oneOf(m.random, m.bases).clone()
	for range 1 + m.random.IntN(3)*m.random.IntN(2) {
		file := m.random.IntN(len(b.files))
		m.change(b.open(file, m.random.IntN(len(b.files[file]))))
	}
	return b.texts()
}

func (b base) texts() (files []config.File) {
	for i, documents := range b.files {
		var text strings.Builder
		for _, d := range documents {
			text.WriteString("---\n")
			if d.text == "" {
				d.text = encode(d.root)
			}
			text.WriteString(d.text)
		}
		files = append(files, config.File{Path: b.paths[i], Data: []byte(text.String())})
	}
	return files
}

// encode returns the text of a document, or "" if it has none. The encoder panics where a node has
// no style that fits.
func encode(root *yaml.Node) string {
	defer func() { _ = recover() }()
	text, _ := yaml.Marshal(root)
	return string(text)
}

// place is a node's place in its parent.
type place struct {
	parent *yaml.Node
	at     int    // in Content
	path   string // the names of the fields around it
}

func (p place) node() *yaml.Node { return p.parent.Content[p.at] }
func (p place) isMapping() bool  { return p.parent.Kind == yaml.MappingNode }
func (p place) key() *yaml.Node  { return p.parent.Content[p.at-1] }

func (p place) remove() {
	first := p.at
	if p.isMapping() {
		first--
	}
	p.parent.Content = slices.Delete(slices.Clone(p.parent.Content), first, p.at+1)
}

// placesIn returns the places of all values in a document.
func placesIn(document *yaml.Node) (all []place) {
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		step, first := 1, 0
		if n.Kind == yaml.MappingNode {
			step, first = 2, 1
		}
		for i := first; i < len(n.Content); i += step {
			all = append(all, place{n, i, path})
			in := path
			if step == 2 {
				in += "." + n.Content[i-1].Value
			}
			walk(n.Content[i], in)
		}
	}
	walk(document, "")
	return all
}

func clone(n *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style, Anchor: n.Anchor}
	for _, in := range n.Content {
		out.Content = append(out.Content, clone(in))
	}
	return out
}

// shapes are a value of each type. values are more of them, and keys of a mapping that are no strings.
var (
	shapes = append(parsed("~", `""`, "[]", "[x]", "{}", "{a: b}", "1", "true"), nothing)
	values = append(parsed(
		"~", `""`, "' '", "[]", "[~]", "[x]", "[[]]", "{}", "{a: }", "{a: b}", "{a: b, a: c}", "{1: a}", "{~: a}",
		"{[a]: b}", "true", "1", "0", "-1", "1.5", "99999999999999999999999", "1e999999999", ".nan", "-.inf", "0x10",
		"2026-01-02", "2026-01-02T03:00:00Z", "x", "x y", "object", "object.spec", "old", "item", "event", "evnt",
		"'${object}'", "'${item.a}'", "'${'", "'x ${1}'", "'lookup(\"s.a\", 1)'", "'byIndex(\"a\", x)'", "nil", "'['",
		"'a.b/c'", "v1/pods", "v1/pods/status", "a/b/c/d", "5m", "-5m", "1000000h", "0", "'*'", "'* * * * *'", "'@start'",
		"!x y", "!!binary aGk=", "&a x", "<<", "\"\\0\"", "'"+strings.Repeat("a", 300)+"'",
		"'"+strings.Repeat("x.", 5000)+"y'", strings.Repeat("[", 80)+strings.Repeat("]", 80),
	), nothing)
)

// nothing stands behind the colon of a key without a value.
var nothing = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}

func parsed(texts ...string) (all []*yaml.Node) {
	for _, text := range texts {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			panic(err)
		}
		all = append(all, n.Content[0])
	}
	return all
}

func (m *mutator) value() *yaml.Node {
	if m.random.IntN(4) == 0 {
		return clone(oneOf(m.random, m.all))
	}
	return clone(oneOf(m.random, values))
}

func oneOf[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

// add adds a field that such a mapping has elsewhere, with a value from there or any.
func (m *mutator) add(p place) {
	in := m.known[p.path]
	name := oneOf(m.random, slices.Sorted(maps.Keys(in)))
	v := m.value()
	if m.random.IntN(2) == 0 {
		v = clone(oneOf(m.random, in[name]))
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
	p.parent.Content = append(p.parent.Content, key, v)
}

// change changes one node of a document.
func (m *mutator) change(document *yaml.Node) {
	places := placesIn(document)
	if len(places) == 0 {
		return
	}
	p := oneOf(m.random, places)
	switch op := m.random.IntN(10); {
	case op < 4 || p.parent.Kind == yaml.DocumentNode:
		p.parent.Content[p.at] = m.value()
	case op == 4:
		p.remove()
	case op < 8 && p.isMapping() && m.known[p.path] != nil:
		m.add(p)
	case op == 8 && p.isMapping():
		p.parent.Content[p.at-1] = m.value() // another key
	case p.isMapping(): // the same key again, with another value
		p.parent.Content = append(p.parent.Content, clone(p.key()), m.value())
	case op < 8:
		p.parent.Content = slices.Insert(slices.Clone(p.parent.Content), p.at, m.value())
	default:
		p.parent.Content = append(p.parent.Content, clone(p.node()))
	}
}

// victim does with mutants what informd does with manifests.
type victim struct {
	folder string
	found  map[string]bool // where it panicked
	tried  int
	valid  int
}

// try fails t if something panics, once for each place.
func (v *victim) try(t *testing.T, files []config.File) {
	t.Helper()
	v.tried++
	fail := func(what string) {
		if where := panicked(what); !v.found[where] {
			v.found[where] = true
			t.Errorf("%s\n%s", what, textOf(files))
		}
	}
	defer func() {
		if cause := recover(); cause != nil {
			fail(fmt.Sprintf("%v\n%s", cause, debug.Stack()))
		}
		if was := recovered.Swap(nil); was != nil {
			fail(*was)
		}
	}()
	said := v.do(files, v.tried%50 == 0)
	for _, sign := range []string{"PANIC=", "panic", "cannot be parsed", "cannot be compiled"} {
		if strings.Contains(said, sign) {
			fail("something recovered from a panic: " + said)
		}
	}
}

// panicked returns the place at which a panic began.
func panicked(stack string) string {
	_, below, _ := strings.Cut(stack, "\npanic(")
	for line := range strings.Lines(below) {
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "/src/runtime/") {
			place, _, _ := strings.Cut(line, " +0x")
			return place
		}
	}
	return stack
}

func textOf(files []config.File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "# %s\n%s\n", f.Path, f.Data)
	}
	return b.String()
}

// do returns what informd says about the files.
func (v *victim) do(files []config.File, commands bool) string {
	cfg, mistakes := config.Parse(files)
	compiled, more := plan.Compile(cfg)
	watch := func(config.Text, expr.Branch) func(bool) { return func(bool) {} }
	if v.tried%4 == 0 {
		_, _ = plan.CompileWatched(cfg, watch)
	}
	mistakes = append(mistakes, more...)
	misfits, _ := schemas.Check(cfg, nil, mistakes)
	config.Changes(cfg, cfg)
	for _, f := range files {
		config.KindBesideTests(f.Data)
	}
	for _, h := range cfg.Handlers {
		h.ConfigAt.Find("a.b[0]")
		if h.Builtin != "" || len(h.Command) > 0 { // as informd check does it
			_, _ = launch.Spec(h)
		}
		if h.Builtin == "webhook" {
			b, _ := builtin.New(h.Builtin)
			if configurer, ok := b.(handler.Configurer); ok {
				_ = configurer.Configure(context.Background(), h.Config)
			}
		}
	}
	if len(mistakes) == 0 {
		v.valid++
		needs := rights.Of(compiled, true)
		rights.Unknown(compiled)
		rights.Manifests(rights.Lines(needs), rights.Account{Namespace: "a", Name: "b"})
	}
	said := mistakes.Error() + misfits.Error()
	if commands {
		said += v.run(files)
	}
	return said
}

// run runs commands on the files. check would start handlers that are built in.
func (v *victim) run(files []config.File) (said string) {
	for _, f := range files {
		text := bytes.ReplaceAll(f.Data, []byte("builtin: "), []byte("command: [./x] # "))
		if os.WriteFile(filepath.Join(v.folder, f.Path), text, 0o600) != nil {
			panic("the folder cannot be written")
		}
	}
	defer func() {
		for _, f := range files {
			_ = os.Remove(filepath.Join(v.folder, f.Path))
		}
	}()
	for _, c := range []*cobra.Command{
		checking.NewCheckCommand("v0"), rbac.NewCommand("v0"), ruletest.NewCommand(),
	} {
		var out bytes.Buffer
		c.SetArgs([]string{"-f", v.folder})
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage = true
		if err := c.Execute(); err != nil {
			fmt.Fprintln(&out, err)
		}
		said += out.String()
	}
	return said
}
