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
		"kind: Source\nmetadata: {name: s}\nspec: {resource: v1/pods, selector: a=b}\n":          `"spec.selector"; objects are selected by labelSelector, fieldSelector and where`,
		"kind: Handler\nmetadata: {name: h}\nspec: {command: [./h], args: [x]}\n":                `"spec.args"; the arguments follow the program in command: [PROGRAM, ARGUMENT]`,
		"kind: Handler\nmetadata: {name: h}\nspec: {builtin: webhook, url: https://example.com}": `"spec.url"; builtin: webhook has url in its config, and a remote handler has address`,
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
