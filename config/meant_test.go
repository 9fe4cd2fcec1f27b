package config

import (
	"strings"
	"testing"
)

// A field of another tool's name gets the sentence that helps.
func TestFieldsOfOtherNames(t *testing.T) {
	rule := "kind: Rule\nmetadata: {name: r}\nspec:\n  source: things\n"
	for manifest, want := range map[string]string{
		rule + "  actions:\n  - patch: {merge: {}, subresource: status}\n":                       `"spec.actions[0].patch.subresource"; a status is written by resource: GROUP/VERSION/RESOURCE/status`,
		rule + "  actions:\n  - delete: {}\n  condition: 'true'\n":                               `"spec.condition"; where is about an object, when about a change`,
		rule + "  labelSelector: a=b\n  handler: h\n":                                            `"spec.labelSelector"; it is a field of the Source`,
		rule + "  forEach: object.spec.x\n  handler: h\n":                                        `"spec.forEach"; it stands in an action, beside its apply, create, patch, delete or event`,
		rule + "  match: {}\n  handler: h\n":                                                     `"spec.match"; where is about an object, when about a change`,
		rule + "  namespace: shop\n  handler: h\n":                                               `"spec.namespace"; write where: object.metadata.namespace == "NAME", or give the Source its namespaces`,
		rule + "  actions:\n  - apply: {resource: v1/configmaps, namespace: x, object: {}}\n":    `"spec.actions[0].apply.namespace"; it stands in object, below metadata`,
		rule + "  actions:\n  - create: {resource: v1/configmaps, data: {}, object: {}}\n":       `"spec.actions[0].create.data"; it stands in object`,
		rule + "  actions:\n  - event: {reason: A, type: Warning}\n":                             `"spec.actions[0].event.type"; write warning: true for an Event of type Warning`,
		rule + "  actions:\n  - patch: {strategic: {}}\n":                                        `"spec.actions[0].patch.strategic"; write merge with what is to change, or json with operations`,
		rule + "  actions:\n  - delete: {labelSelector: a=b}\n":                                  `"spec.actions[0].delete.labelSelector"; an action is about one object: use forEach`,
		rule + "  events: [Modified]\n  handler: h\n":                                            `not "Modified"; did you mean "updated"?`,
		"kind: Source\nmetadata: {name: s}\nspec: {resource: v1/pods, selector: a=b}\n":          `"spec.selector"; objects are selected by labelSelector, fieldSelector and where`,
		"kind: Handler\nmetadata: {name: h}\nspec: {command: [./h], args: [x]}\n":                `"spec.args"; the arguments follow the program in command: [PROGRAM, ARGUMENT]`,
		"kind: Handler\nmetadata: {name: h}\nspec: {builtin: webhook, url: https://example.com}": `"spec.url"; builtin: webhook has url in its config, and a remote handler has address`,
		rule + "  actions:\n  - patch: {metadata: {labels: {a: b}}}\n":                           `"spec.actions[0].patch.metadata"; it stands in merge`,
		rule + "  actions:\n  - patch: {spec: {replicas: 0}}\n":                                  `"spec.actions[0].patch.spec"; it stands in merge`,
		"kind: Handler\nmetadata: {name: h}\nspec: {webhook: {url: https://example.com}}":        `"spec.webhook"; write builtin: webhook, and what it needs in config`,
	} {
		_, mistakes := Parse([]File{{Path: "m.yaml", Data: []byte("apiVersion: informd.dev/v1alpha1\n" + manifest)}})
		found := false
		for _, m := range mistakes {
			found = found || strings.Contains(m.Message, want)
		}
		if !found {
			t.Errorf("%s\n%v\nwant …%s", manifest, mistakes, want)
		}
	}
}

// A field under another name is one mistake: the field that it stands for is not reported as missing.
func TestFieldsOfOtherNamesAreNotMissing(t *testing.T) {
	rule := "kind: Rule\nmetadata: {name: r}\nspec:\n  source: things\n"
	for _, manifest := range []string{
		rule + "  actions:\n  - patch: {metadata: {labels: {a: b}}}\n",
		"kind: Handler\nmetadata: {name: h}\nspec: {webhook: {url: https://example.com}}\n",
		"kind: Handler\nmetadata: {name: h}\nspec: {exec: {command: [a]}}\n",
	} {
		_, mistakes := Parse([]File{{Path: "m.yaml", Data: []byte("apiVersion: informd.dev/v1alpha1\n" + manifest)}})
		for _, m := range mistakes {
			if strings.Contains(m.Message, "is missing") {
				t.Errorf("%s\n%v", manifest, m)
			}
		}
	}
}

// A value that should be a mapping, or a string, gets what to write in its place.
func TestValuesOfOtherKinds(t *testing.T) {
	rule := "kind: Rule\nmetadata: {name: r}\nspec:\n  source: things\n  handler: h\n"
	source := "kind: Source\nmetadata: {name: s}\nspec: {resource: v1/pods, "
	for manifest, want := range map[string]string{
		rule + "  schedule: \"19:00\"\n":                              `not a string: write {cron: "0 19 * * *"}`,
		rule + "  schedule: 7:05\n":                                   `write {cron: "5 7 * * *"}`,
		rule + "  schedule: 0 19 * * *\n":                             `not a string: write {cron: "0 19 * * *"}`,
		rule + "  schedule: 7:05pm\n":                                 `write {cron: "0 19 * * *"} for every day at 19:00`,
		rule + "  schedule: nightly\n":                                `not a string: write {cron: "0 19 * * *"} for every day at 19:00`,
		source + "labelSelector: {app: web, tier: db}}\n":             "not a mapping: write app=web,tier=db",
		source + "labelSelector: {matchLabels: {app: web}}}\n":        "not a mapping: write app=web",
		source + "labelSelector: {matchExpressions: [{key: app}]}}\n": "not a mapping: write it as kubectl does, such as app=web",
		rule + "  payload: {was: old.phase ?? \"none\", a: \"b\"}\n":  "put a value that contains , ? { } [ ] in quotes: '…'",
	} {
		_, mistakes := Parse([]File{{Path: "m.yaml", Data: []byte("apiVersion: informd.dev/v1alpha1\n" + manifest)}})
		found := false
		for _, m := range mistakes {
			found = found || strings.Contains(m.Message, want)
		}
		if !found {
			t.Errorf("%s\n%v\nwant …%s", manifest, mistakes, want)
		}
	}
}
