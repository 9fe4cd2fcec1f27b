package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStrings(t *testing.T) {
	for _, test := range []struct {
		why, text string
		want      []string
		err       string
	}{
		{"a string", `object.spec.nodeName`, []string{"n1"}, ""},
		{"nothing", `object.spec.missing`, nil, ""},
		{"a list, without duplicates", `map(object.spec.containers, .image)`, []string{"x:1", "y:2"}, ""},
		{"nils are left out", `map(object.spec.containers, .resources.requests.cpu)`, []string{"250m", "1"}, ""},
		{"a list of nothing", `map(object.spec.volumes, .name)`, nil, ""},
		{"numbers and bools are rendered", `[object.spec.replicas, 0.5, true, quantity("1024Mi")]`, []string{"3", "0.5", "true", "1Gi"}, ""},
		{"an empty string is a value", `""`, []string{""}, ""},
		{"a map is not a value", `object.spec`, nil, "an index needs a string or a list of strings, not a map"},
		{"neither is a list of lists", `[object.spec.containers]`, nil, "an index needs a string or a list of strings, not a list with a list in it"},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, err := mustCompile(t, test.text, Options{Scope: Index}).Strings(testEnv(t))
			if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Fatalf("%s: got %v, want %s", test.text, err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", test.text, diff)
			}
		})
	}
}
