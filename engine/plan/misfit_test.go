package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/schema"
)

// known has the schemas of two resources, of one group.
type known struct{}

func (known) Of(resource k8s.GroupVersionResource) (schema.Type, bool) {
	text, number := schema.Of(schema.String), schema.Of(schema.Number)
	metadata := schema.Struct(map[string]schema.Type{
		"name": text, "namespace": text, "labels": schema.MapOf(text), "finalizers": schema.ListOf(text),
	})
	switch resource.Resource {
	case "deployments":
		container := schema.Struct(map[string]schema.Type{"name": text, "port": number})
		return schema.Struct(map[string]schema.Type{
			"metadata": metadata,
			"spec": schema.Struct(map[string]schema.Type{
				"replicas": number, "paused": schema.Of(schema.Bool),
				"strategy":   schema.Union(schema.Constant("Recreate"), schema.Constant("Rolling")),
				"containers": schema.ListOf(container),
			}),
			"status": schema.Struct(map[string]schema.Type{"replicas": number}),
		}), true
	case "configmaps":
		return schema.Struct(map[string]schema.Type{
			"apiVersion": text, "kind": text, "metadata": metadata, "data": schema.MapOf(text),
		}), true
	}
	return schema.Type{}, false
}

func (known) HasStatus(resource k8s.GroupVersionResource) (has, known bool) {
	return resource.Resource == "deployments", resource.Resource != "others"
}

func (known) IsNamespaced(resource k8s.GroupVersionResource) (is, known bool) {
	switch resource.Resource {
	case "deployments", "secrets":
		return true, true
	case "namespaces", "nodes", "clusterroles":
		return false, true
	}
	return false, false
}

func (known) Resources(of k8s.GroupVersion) []string {
	if of.Group != "apps" {
		return nil
	}
	return []string{"deployments", "statefulsets"}
}

const sources = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: deployments}
spec: {resource: apps/v1/deployments, indexes: {byName: object.metadata.name}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: others}
spec: {resource: example.com/v1/others, indexes: {byName: object.no.schema}}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: log}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec:
  source: deployments
`

func TestMisfits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ rule, want string }{ // want is what stands at the place, and why
		{`{handler: log, where: object.spec.replica > 1}`, `replica > 1|there is no field spec.replica in apps/v1/deployments`},
		{`{handler: log, where: object.spec.replicas}`, `object.spec.replicas}|spec.replicas of apps/v1/deployments is a number, not true or false`},
		{`{handler: log, when: object.spec.replica > 1}`, `replica > 1|`},
		{`{handler: log, due: time(object.spec.since)}`, `since)|`},
		{`{handler: log, count: {times: 2, within: 1h, by: object.spec.owner}}`, `owner|`},
		{`{handler: log, count: {times: 2, within: 1h, at: time(object.spec.at)}}`, `at)|`},
		{`{handler: log, group: {wait: 1s, by: object.spec.owner}}`, `owner|`},
		{`{handler: log, payload: {a: [object.spec.replica]}}`, `replica]|`},
		{`{handler: log, payload: {a: "x ${object.spec.replica}"}}`, `replica}|`},
		{`{handler: log, attach: {x: 'lookup("deployments.byName", object.metadata.nam)'}}`, `nam)|`},

		{`{actions: [{forEach: object.spec.replicas, event: {reason: X}}]}`, `object.spec.replicas,|spec.replicas of apps/v1/deployments is a number, and forEach needs a list`},
		{`{actions: [{forEach: object.spec.containers, if: item.nam == "x", event: {reason: X}}]}`, `nam ==|there is no field spec.containers[].nam in apps/v1/deployments; did you mean name?`},
		{`{actions: [{if: object.spec.replicas, event: {reason: X}}]}`, `object.spec.replicas,|`},
		{`{actions: [{event: {reason: X, message: "of ${object.spec.owner}"}}]}`, `owner}|`},
		{`{actions: [{patch: {merge: {spec: {replica: 1}}}}]}`, `replica: 1|there is no field spec.replica in apps/v1/deployments; did you mean replicas?`},
		{`{actions: [{patch: {merge: {spec: {replicas: "1"}}}}]}`, `1"|spec.replicas of apps/v1/deployments is a number, not a string`},
		{`{actions: [{patch: {merge: {spec: {replicas: "${object.metadata.name}"}}}}]}`, `${object|spec.replicas of apps/v1/deployments is a number, not a string`},
		{`{actions: [{patch: {merge: {spec: {replicas: true}}}}]}`, `true|spec.replicas of apps/v1/deployments is a number, not true or false`},
		{`{actions: [{patch: {merge: {spec: {replicas: {a: 1}}}}}]}`, `a: 1|spec.replicas of apps/v1/deployments is a number, not a map`},
		{`{actions: [{patch: {merge: {spec: {replicas: [1]}}}}]}`, `1]|spec.replicas of apps/v1/deployments is a number, not a list`},
		{`{actions: [{patch: {merge: {spec: {strategy: recreate}}}}]}`, `recreate|spec.strategy of apps/v1/deployments is never "recreate": it is Recreate or Rolling; did you mean Recreate?`},
		{`{actions: [{patch: {merge: {spec: {containers: [{nam: x}]}}}}]}`, `nam: x|`},
		{`{actions: [{patch: {json: [{op: add, path: /spec/replica, value: 1}]}}]}`, `replica,|there is no field spec.replica`},
		{`{actions: [{patch: {json: [{op: add, path: /spec/replicas, value: x}]}}]}`, `x}|spec.replicas of apps/v1/deployments is a number, not a string`},
		{`{actions: [{patch: {json: [{op: add, path: /spec/containers/-, value: {nam: x}}]}}]}`, `nam: x|`},
		{`{actions: [{patch: {json: [{op: move, path: /spec/replicas, from: /spec/replica}]}}]}`, `replica}|`},
		{`{actions: [{patch: {json: [{op: add, path: /metadata/labels/a~1b, value: "${object.spec.owner}"}]}}]}`, `owner}|`},
		{`{actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: x}, dta: {a: b}}}}]}`, `dta|there is no field dta in v1/configmaps; did you mean data?`},
		{`{actions: [{apply: {resource: apps/v1/deployment, object: {metadata: {name: x}}}}]}`, `apps/v1/deployment,|there is no resource apps/v1/deployment; did you mean apps/v1/deployments?`},
		// what the API server drops
		{`{actions: [{patch: {merge: {status: {replicas: 1}}}}]}`, `status|the API server drops status here, because it is a subresource: write it in an action of its own, with resource: apps/v1/deployments/status`},
		{`{actions: [{patch: {merge: {spec: {replicas: 1}, status: {replicas: 1}}}}]}`, `status|`},
		{`{actions: [{patch: {json: [{op: add, path: /status/replicas, value: 1}]}}]}`, `/status/replicas|the API server drops status here`},
		{`{actions: [{patch: {json: [{path: /status, op: remove}, {op: test, path: /status/replicas, value: 1}]}}]}`, `/status|`},
		{`{actions: [{apply: {resource: apps/v1/deployments, object: {metadata: {name: x, namespace: y}, status: "${object.status}"}}}]}`, `status: "|`},
		{`{actions: [{create: {resource: apps/v1/deployments, object: {metadata: {name: x, namespace: y}, status: {}}}}]}`, `status|the API server drops the status of a new object: patch apps/v1/deployments/status once the object is there`},
		{`{actions: [{patch: {resource: apps/v1/deployments/status, merge: {spec: {replicas: 1}}}}]}`, `spec|the API server drops spec here, because apps/v1/deployments/status is about the status alone: write it in an action of its own, with resource: apps/v1/deployments`},
		{`{actions: [{patch: {resource: apps/v1/deployments/status, json: [{op: add, path: /spec/replicas, value: 1}]}}]}`, `/spec/replicas|`},
		{`{actions: [{apply: {resource: apps/v1/deployments/status, object: {metadata: {name: x, namespace: y}, status: {}, spec: {}}}}]}`, `spec|`},
		{`{actions: [{patch: {resource: v1/configmaps/status, name: x, merge: {metadata: {labels: {a: b}}}}}]}`, `v1/configmaps/status|v1/configmaps has no subresource status: write resource: v1/configmaps`},
		{`{handler: log, group: {wait: 1s}, actions: [{event: {reason: X, message: "${items[0].nam}"}}]}`, `nam}|there is no field nam`},
		// what can be converted
		{`{actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: x}, data: {Running: "${len(object.spec.containers)}"}}}}]}`, `${len|data.Running of v1/configmaps is a string, not a number: write ${string(len(object.spec.containers))}`},
		{`{actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: x}, data: {a: "${object.spec.containers}"}}}}]}`, `${object|data.a of v1/configmaps is a string, not a list: write ${toJSON(object.spec.containers)}`},
		{`{actions: [{patch: {merge: {spec: {replicas: '${object.metadata.labels["n"]}'}}}}]}`, `${object|spec.replicas of apps/v1/deployments is a number, not a string: write ${int(object.metadata.labels["n"])}`},
		{`{actions: [{patch: {merge: {spec: {replicas: '${object.metadata.labels["n"] ?? 1}'}}}}]}`, `${object|spec.replicas of apps/v1/deployments is a number, not a string: write ${int(object.metadata.labels["n"] ?? 1)}`},
		{`{actions: [{patch: {merge: {spec: {replicas: '${object.spec.paused ? "all" : 1}'}}}}]}`, `${object|spec.replicas of apps/v1/deployments is a number, not a string`},
		{`{actions: [{patch: {merge: {spec: {paused: '${object.metadata.labels.p ?? false}'}}}}]}`, `${object|spec.paused of apps/v1/deployments is true or false, not a string`},
		// what is in namespaces, and what is not
		{`{actions: [{apply: {resource: v1/secrets, object: {metadata: {name: x}}}}]}`, `metadata|v1/secrets are in namespaces, and this says none: write metadata.namespace: "${object.metadata.namespace}"`},
		{`{actions: [{create: {apiVersion: v1, kind: Secret, metadata: {name: x, namespace: null}}}]}`, `metadata|v1/secrets are in namespaces`},
		{`{actions: [{delete: {resource: v1/secrets, name: x}}]}`, `v1/secrets|v1/secrets are in namespaces, and this says none: write namespace: "${object.metadata.namespace}"`},
		{`{actions: [{apply: {resource: v1/nodes, object: {metadata: {name: x, namespace: shop}}}}]}`, `shop|v1/nodes are in no namespace: leave metadata.namespace out`},
		{`{actions: [{patch: {resource: v1/nodes, name: x, namespace: "${object.metadata.namespace}", merge: {a: b}}}]}`, `${object|v1/nodes are in no namespace: leave namespace out`},
		// names that no object has
		{`{actions: [{delete: {name: $NAME}}]}`, `$NAME|no object of apps/v1/deployments is named "$NAME": write lower-case letters, digits, - and .; an expression is written ${…}, such as ${object.metadata.name}`},
		{`{actions: [{delete: {resource: example.com/v1/others, name: $NAME}}]}`, `$NAME|no object is named "$NAME"; an expression is written`},
		{`{actions: [{delete: {name: Web_Svc}}]}`, `Web_Svc|no object of apps/v1/deployments is named "Web_Svc"`},
		{`{actions: [{delete: {name: x, namespace: My Shop}}]}`, `My Shop|no namespace is named "My Shop": write lower-case letters, digits and -`},
		// texts that are no base64, and values that are no texts
		{`{actions: [{apply: {resource: v1/secrets, object: {metadata: {name: x, namespace: y}, data: {password: hunter2}}}}]}`, `hunter2|data of v1/secrets has values in base64: write it in stringData, or as "${toBase64(…)}"`},
		{`{actions: [{patch: {resource: v1/secrets, name: x, namespace: y, merge: {data: {password: hunter2}}}}]}`, `hunter2|data of v1/secrets`},
		{`{actions: [{event: {reason: X, message: "of ${object.metadata.labels}"}}]}`, `object.metadata.labels|metadata.labels of apps/v1/deployments is a map within a longer string: use toJSON`},
		{`{handler: log, payload: {a: "of ${filter(object.spec.containers, .port > 1)}"}}`, `filter|this is a list within a longer string`},
		// what other tools evaluate, and lines that end
		{`{actions: [{event: {name: "of-{{ .metadata.name }}", reason: X}}]}`, `{{ .metadata|{{ }} is the syntax of Go and Helm: write object.metadata.name in`},
		{`{actions: [{delete: {name: "deny-{{ .Namespace }}"}}]}`, `{{ .Names|{{ }} is the syntax of Go and Helm: write object.metadata.namespace`},
		{`{actions: [{apply: {resource: example.com/v1/others, object: {metadata: {name: x, namespace: "{{ namespace }}"}}}}]}`, `{{ namespace|{{ }} is the syntax of Go and Helm: write object.metadata.namespace`},
		{`{actions: [{apply: {resource: example.com/v1/others, object: {metadata: {name: "$(NAME)"}}}}]}`, `$(NAME|$( ) is the syntax`},
		{`{actions: [{delete: {namespace: "{{ .metadata.namespace }}", name: x}}]}`, `{{ .metadata|{{ }} is the syntax`},
		{`{actions: [{delete: {name: x, uid: "{{ .metadata.uid }}"}}]}`, `{{ .metadata|{{ }} is the syntax`},
		{`{actions: [{delete: {name: x, resourceVersion: "{{ .metadata.resourceVersion }}"}}]}`, `{{ .metadata|{{ }} is the syntax`},
		{`{actions: [{delete: {name: "{{- .spec.owner.name -}}"}}]}`, `{{- .spec|{{ }} is the syntax of Go and Helm: write object.spec.owner.name in`},
		{`{actions: [{patch: {merge: {spec: {replicas: "${object.spec.replicas}\n"}}}}]}`, `${object|spec.replicas of apps/v1/deployments is a number, not a string: a block below | ends with a line break, and so is text; write |-`},
		{`{where: object.metadata.namespace == "a" and object.metadata.namespace == "b", handler: log}`, `object.metadata.namespace == "a"|the condition is never true: object.metadata.namespace has one value at a time`},
		{`{events: [added], when: 'object.spec.paused and (object.metadata.name in ["a", "b"] and object.metadata.name == "c")', handler: log}`, `object.spec.paused|the condition is never true: object.metadata.name has one value at a time`},
		// what no event of the rule makes true
		{`{events: [updated], when: event == "added" and object.spec.paused, handler: log}`, `event ==|the condition is never true: it is evaluated for updated only; change spec.events, or the condition`},
		{`{events: [updated], when: event == "added" and object.spec.paused == false, handler: log}`, `event ==|the condition is never true`},
		{`{schedule: {cron: "0 * * * *"}, when: event != "synced", handler: log}`, `event|the condition is never true: it is evaluated for synced only`},
		{`{events: [added, synced], actions: [{if: event == "deleted", event: {reason: X}}]}`, `event ==|the condition is never true: it is evaluated for added and synced only`},
		{`{events: [added], actions: [{forEach: object.spec.containers, if: event == "updated" and item.port > 1, event: {reason: X}}]}`, `event ==|`},
		{`{events: [added], group: {wait: 1s}, actions: [{if: len(items) > 1 and event == "deleted", event: {reason: X}}]}`, `event ==|`},
		{`{prune: true, actions: [{if: event == "deleted", apply: {resource: v1/configmaps, object: {metadata: {name: x}}}}]}`, `event ==|the condition is never true: it is evaluated for added, updated and synced only`},
		{`{when: 'event == "added" and object.spec.replicas > old.spec.replicas', handler: log}`, `event ==|the condition is never true, for no type of event`},
		{`{events: [added], when: object.spec.replicas > old.spec.replicas, handler: log}`, `old.spec|old is always nil here: it is the state before an update, and this is evaluated for added only; add updated to spec.events, or leave old out`},
		{`{events: [added], when: object.spec.replicas != old.spec.replicas, handler: log}`, `old.spec|old is always nil here`},
		{`{events: [deleted], payload: {was: [old.spec.replicas]}, handler: log}`, `old.spec|old is always nil here`},
		{`{events: [deleted, synced], actions: [{event: {reason: X, message: "was ${old.spec.replicas}"}}]}`, `old.spec|old is always nil here`},
		{`{events: [added], when: 'any(lookup("others.byName", old.metadata.name), .x == object.spec.replicas)', handler: log}`, `old.metadata|`},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			found := misfits(t, test.rule)
			if len(found) != 1 || found[0].Rule != "r" || found[0].Source != "deployments" {
				t.Fatalf("found %v, want one of the rule", found)
			}
			at, message, _ := strings.Cut(test.want, "|")
			if got := test.rule[found[0].Column-1-len("spec: "):]; !strings.HasPrefix(got, at) {
				t.Errorf("the mistake is at %q, want %q", got, at)
			}
			if !strings.HasPrefix(found[0].Message, message) {
				t.Errorf("%q\nwant %q", found[0].Message, message)
			}
		})
	}
}

// An index of a constant may be meant, unless it is the name of a field.
func TestConstantIndexes(t *testing.T) {
	t.Parallel()
	for index, want := range map[string]string{
		`'"spec.nodeName"'`:            "2:64: the index has every object under this text; for the value of the field write object.spec.nodeName without quotes",
		`"'object.metadata.name'"`:     "2:64: the index has every object under this text; for the value of the field write object.metadata.name without quotes",
		`'".metadata.labels.app"'`:     "2:64: the index has every object under this text; for the value of the field write object.metadata.labels.app without quotes",
		`'"yes"'`:                      "",
		`'"all.objects"'`:              "",
		`'"metadata"'`:                 "",
		`'object.metadata.name + "x"'`: "",
	} {
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte("{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: s}, \n" +
			"spec: {resource: example.com/v1/others, indexes: {byThis:     " + index + "}}}")}})
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		got := ""
		for _, misfit := range plan.Misfits(cfg, known{}) {
			got += strings.TrimPrefix(misfit.Position.String(), "a.yaml:") + ": " + misfit.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", index, got, want)
		}
	}
}

// A comment of YAML cuts off what an author means as text.
func TestTextsCutByComments(t *testing.T) {
	t.Parallel()
	const hint = "# begins a comment of YAML, and the text ends before it: put the whole text in quotes"
	for spec, want := range map[string]string{
		"where: any(object.spec.containers, #.port > 1)":                            hint,
		"when: object.metadata.name == \"x #1\"":                                    hint,
		"when: object.metadata.name != \"a\" and object.metadata.name != \"b #1\"":  hint,
		"payload: {text: \"${any(object.x, #.y)}\"}":                                "",
		"payload:\n    text: of ${len(filter(object.spec.containers, #.port > 1))}": hint,
		"where: object.spec.paused == # the rest is missing":                        hint,
		"where: any(object.spec.containers, .port > 1":                              "unexpected end of the expression",
		"payload:\n    text: Pod restarts #${object.metadata.name}":                 hint,
		"payload:\n    text: restarts #often":                                       hint,
		"payload:\n    text: nothing # of a comment":                                "for the text itself",
		"where: object.spec.paused # and this is a comment":                         "",
		"where: |-\n    any(object.spec.containers, #.port > 1)":                    "",
		"where: >-\n    any(object.spec.containers, #.port > 1":                     "unexpected end of the expression",
	} {
		text := strings.TrimSuffix(sources, "\n") + "\n  handler: log\n  " + spec + "\n"
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(text)}})
		_, more := plan.Compile(cfg)
		got := append(mistakes, more...)
		if len(got) > 1 || len(got) == 1 && (want == "" || !strings.Contains(got[0].Message, want)) || len(got) == 0 && want != "" {
			t.Errorf("%s: %v, want %q", spec, got, want)
		}
	}
}

// A misspelt resource is reported where the manifest names it, without errors about the objects.
func TestMisspeltResources(t *testing.T) {
	t.Parallel()
	const misspelt = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: deployments}
spec: {resource: apps/v1/deploymnts}
`
	cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(misspelt)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	found := plan.Misfits(cfg, known{})
	if len(found) != 1 || found[0].Line != 5 || found[0].Column != len("spec: {resource: ")+1 {
		t.Errorf("found %v, want one at the resource", found)
	}

	// Without its resource, what an action makes is not an object of the source.
	const singular = `{actions: [{apply: {resource: v1/configmap, object: {metadata: {name: x}, data: {a: b}}}}, ` +
		`{apply: {resource: configmaps, object: {apiVersion: v1, metadata: {name: x}}}}]}`
	text := strings.Replace(sources, "spec:\n  source: deployments\n",
		"spec: "+strings.TrimSuffix(singular, "}")+", source: deployments}\n", 1)
	cfg, mistakes = config.Parse([]config.File{{Path: "a.yaml", Data: []byte(text)}})
	if len(mistakes) != 2 {
		t.Errorf("mistakes %v, want those of the two resources", mistakes)
	}
	for _, misfit := range plan.Misfits(cfg, known{}) {
		t.Error(misfit.Mistake)
	}
}

// A resource that Kubernetes no longer serves is named with the group and version that it has now.
func TestMovedResources(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]string{
		"extensions/v1beta1/ingresses":                 "there is no resource extensions/v1beta1/ingresses: write networking.k8s.io/v1/ingresses",
		"autoscaling/v2beta2/horizontalpodautoscalers": "there is no resource autoscaling/v2beta2/horizontalpodautoscalers: write autoscaling/v2/horizontalpodautoscalers",
		"policy/v1beta1/poddisruptionbudgets":          "there is no resource policy/v1beta1/poddisruptionbudgets: write policy/v1/poddisruptionbudgets",
		"batch/v2/jobs":                                "", // some day, perhaps
		"serving.knative.dev/v1/services":              "",
		"example.com/v1/others":                        "",
	} {
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte("{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: s}, " +
			"spec: {resource: " + resource + "}}")}})
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		got := ""
		for _, misfit := range plan.Misfits(cfg, known{}) {
			got += misfit.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
	}
}

// misfits checks a rule about deployments.
func misfits(t *testing.T, rule string) []plan.Misfit {
	t.Helper()
	// The rule begins on a line of its own, so that columns are known.
	text := strings.TrimSuffix(sources, "spec:\n  source: deployments\n") +
		"spec: " + rule
	text = text[:len(text)-1] + ", source: deployments}\n"
	cfg, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(text)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return plan.Misfits(cfg, known{})
}

// What may be right is not reported.
func TestNoMisfits(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		`{handler: log, where: object.spec.replicas > 1, payload: object}`,
		`{actions: [{patch: {merge: {spec: {replicas: null, paused: "${nil}"}}}}]}`,
		`{actions: [{patch: {merge: "${ {spec: {replicas: 1}} }"}}]}`,
		`{actions: [{patch: {merge: "${ {status: {replicas: 1}} }"}}]}`,
		`{actions: [{patch: {resource: apps/v1/deployments/status, merge: {metadata: {labels: {a: b}}, status: {replicas: 1}}}}]}`,
		`{actions: [{patch: {json: [{op: test, path: /status/replicas, value: 1}, {op: add, path: /spec/replicas, value: 1}]}}]}`,
		`{actions: [{patch: {json: [{op: add, path: "/${object.metadata.name}", value: 1}]}}]}`,
		`{actions: [{patch: {resource: example.com/v1/others, name: x, merge: {status: {a: 1}}}}, {patch: {resource: example.com/v1/others/status, name: x, merge: {spec: {a: 1}}}}]}`,
		`{actions: [{patch: {merge: {metadata: {labels: {any: x, "a/b": "${object.metadata.name}"}}}}}]}`,
		`{actions: [{patch: {merge: {spec: {replicas: "${object.spec.replicas + 1}"}}}}]}`,
		`{actions: [{patch: {merge: {spec: {replicas: '${int(get(object.metadata.labels, "n"))}'}}}}]}`,
		`{actions: [{patch: {json: [{op: add, path: "/metadata/labels/${object.metadata.name}", value: x}]}}]}`,
		`{actions: [{patch: {json: [{op: add, path: "/spec/containers/${0}/name", value: x}]}}]}`,
		`{actions: [{patch: {json: [{op: add, path: /metadata/finalizers/-, value: x}]}}]}`,
		`{actions: [{patch: {json: "${[]}"}}]}`,
		`{actions: [{apply: {resource: v1/configmaps, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: "${object.metadata.labels}"}}}]}`,
		`{actions: [{apply: {resource: v1/configmaps, object: "${ {metadata: {name: \"x\"}} }"}}]}`,
		`{actions: [{apply: {resource: example.com/v1/others, object: {metadata: {name: x}, any: {thing: 1}}}}]}`,
		`{actions: [{apply: {resource: v1/secrets, object: {metadata: {name: x, namespace: y}, data: {a: aHVudGVyMg==, b: "${toBase64(object.metadata.name)}", c: "", d: null}, stringData: {e: hunter2}}}}]}`,
		`{actions: [{apply: {resource: v1/nodes, object: {metadata: {name: x, namespace: "${get(object, \"x\")}"}}}}]}`,
		`{actions: [{delete: {name: x}}, {delete: {resource: apps/v1/deployments, name: x}}, {event: {reason: X}}]}`,
		`{actions: [{delete: {resource: rbac.authorization.k8s.io/v1/clusterroles, name: "system:My_Role"}}, {delete: {resource: example.com/v1/others, name: My_Own:x}}]}`,
		`{actions: [{apply: {resource: v1/secrets, object: {metadata: {name: x, namespace: "${object.metadata.namespace}"}}}}]}`,
		`{actions: [{apply: {resource: v1/secrets, object: {metadata: "${object.metadata}"}}}]}`,
		`{actions: [{patch: {merge: {spec: {replicas: '${object.spec.replicas ?? 1}', strategy: '${object.metadata.labels.s ?? "Recreate"}'}}}}]}`,
		`{actions: [{patch: {merge: {spec: {replicas: '${get(object, "x") ?? 1}', paused: '${object.spec.paused ?? nil}'}}}}]}`,
		`{actions: [{create: {resource: apps/v1/reviews, object: {metadata: {name: x}}}}]}`,
		`{actions: [{event: {reason: X, message: "the template {{ .status.phase }} is broken"}}]}`,
		`{events: [updated], actions: [{if: old == nil, event: {reason: X}}]}`, // a Secret after a restart
		`{actions: [{event: {reason: X, message: "write {{ .Values.x }}, {{ name }} or {{"}}]}`,
		`{actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: x}, data: {text: "{{ .metadata.name }}"}}}}]}`,
		`{handler: log, when: event == "added" or object.spec.replicas != old.spec.replicas}`,
		`{handler: log, events: [added, deleted], when: event == "added", payload: {a: 'event == "deleted" ? old.spec : 1'}}`,
		`{handler: log, events: [added], when: '(old ?? object).spec.replicas > 1'}`,
		`{handler: log, events: [added], when: 'object.spec.replicas > (old.spec.replicas ?? 0) and old.spec.paused == nil'}`,
		`{handler: log, events: [added], when: 'object.spec.replicas != old?.spec.replicas'}`,
		`{handler: log, events: [added], payload: {old: old, event: event}}`,
		`{handler: log, events: [added], when: false and event == "deleted"}`,
		`{handler: log, events: [added], when: false}`,
		`{handler: log, where: object.metadata.name == "a" and object.metadata.name == "b" and false}`,
		`{handler: log, where: object.metadata.name == "a" or object.metadata.name == "b"}`,
		`{prune: true, actions: [{if: event != "deleted", apply: {resource: v1/configmaps, object: {metadata: {name: x}}}}, {if: event == "deleted", event: {reason: Gone}}]}`,
		`{actions: [{if: event == "deleted", event: {reason: Gone}}]}`,
		`{handler: log, group: {wait: 1s}, payload: object.spec, actions: [{event: {reason: X, message: "${items[0].payload.x}"}}]}`,
		`{actions: [{forEach: 'lookup("others.byName", "x")', delete: {resource: example.com/v1/others, name: "${item.what.ever}", uid: "${item.metadata.uid}"}}]}`,
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for _, misfit := range misfits(t, rule) {
				t.Error(misfit.Mistake)
			}
		})
	}
}

// What a handler may write is checked, too. The first rule that has the handler tells of it.
func TestMisfitsOfGrants(t *testing.T) {
	t.Parallel()
	const manifests = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec:
  command: [./h]
  access:
    write:
    - {resource: v1/configmaps/status, verbs: [patch]}
    - {resource: apps/v1/deployments/status, verbs: [patch]}
    - {resource: apps/v1/deploymnts, verbs: [patch]}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: cms}
spec: {resource: v1/configmaps}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: a}
spec: {source: cms, handler: h}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: b}
spec: {source: cms, handler: h}
`
	cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(manifests)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	var got []string
	for _, m := range plan.Misfits(cfg, known{}) {
		got = append(got, fmt.Sprint(m.Rule, " ", m.Line, ": ", m.Message))
	}
	want := []string{
		"a 9: v1/configmaps has no subresource status: write resource: v1/configmaps",
		"a 11: there is no resource apps/v1/deploymnts; did you mean apps/v1/deployments?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The namespace of an object that is in none is always nil.
func TestNamespacesOfSourcesWithout(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]string{
		"v1/namespaces": `object.metadata.namespace is always nil: v1/namespaces are in no namespace; write metadata.namespace: "${object.metadata.name}"`,
		"v1/nodes":      `object.metadata.namespace is always nil: v1/nodes are in no namespace; write metadata.namespace: NAME`,
		"v1/things":     "",
	} {
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: ` + resource + `}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec: {source: s, actions: [{apply: {apiVersion: v1, kind: Secret, metadata: {name: x, namespace: "${object.metadata.namespace}"}}}]}
`)}})
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		got := ""
		for _, misfit := range plan.Misfits(cfg, known{}) {
			got += misfit.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
	}
}

// A payload that is a text with a path in it says how to write the two together.
func TestPathsWithinTexts(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		"Pod object.metadata.name restarts": `; a text with values in it is written "Pod ${object.metadata.name} restarts"`,
		"restarts of object.metadata.name.": `; a text with values in it is written "restarts of ${object.metadata.name}."`,
		"object.metadata.name object.kind":  "",
		"let x object.metadata.name":        "",
	} {
		text := strings.TrimSuffix(sources, "\n") + "\n  handler: log\n  payload: {text: " + payload + "}\n"
		cfg, _ := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(text)}})
		_, mistakes := plan.Compile(cfg)
		if len(mistakes) != 1 || !strings.HasSuffix(mistakes[0].Message, want) || want == "" && strings.Contains(mistakes[0].Message, "values in it") {
			t.Errorf("%s: %v, want %q", payload, mistakes, want)
		}
	}
}
