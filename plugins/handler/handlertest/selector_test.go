package handlertest

import "testing"

// What a selector selects is what k8s.io/apimachinery/pkg/labels says; the table was compared with
// it.
func TestSelector(t *testing.T) {
	for _, c := range []struct {
		text   string
		labels map[string]string
		want   bool
	}{
		{"", nil, true},
		{"a", map[string]string{"a": ""}, true},
		{"a", nil, false},
		{"!a", nil, true},
		{"! a", map[string]string{"a": "b"}, false},
		{"a=b", map[string]string{"a": "b"}, true},
		{"a==b", map[string]string{"a": "c"}, false},
		{"a=", map[string]string{"a": ""}, true},
		{"a=", nil, false},
		{"a!=b", nil, true},
		{"a!=b", map[string]string{"a": "b"}, false},
		{"a in (b, c)", map[string]string{"a": "c"}, true},
		{"a in (b,c)", nil, false},
		{"a in ()", map[string]string{"a": ""}, true},
		{"a notin (b)", nil, true},
		{"a notin (b),!d", map[string]string{"a": "c", "d": ""}, false},
		{"in in (in,notin)", map[string]string{"in": "notin"}, true},
		{"a>1,a<3", map[string]string{"a": "2"}, true},
		{"a>1", map[string]string{"a": "x"}, false},
		{"app.kubernetes.io/name = web", map[string]string{"app.kubernetes.io/name": "web"}, true},
	} {
		s, err := parseSelector(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if s.matches(c.labels) != c.want {
			t.Errorf("%q selects %v: want %v", c.text, c.labels, c.want)
		}
	}
	for _, text := range []string{
		",", "a,", "a=b,,c", "a b", "!a=b", "a=(b)", "a=b c", "a in b", "a in (b", "a!b", "a>x", "a=!b", "(", "a===b", "a=b=c",
		"!!a", "a in (b))", "-a", "a=-b", "A.b/c", "a/b/c",
	} {
		if s, err := parseSelector(text); err == nil {
			t.Errorf("%q parses as %v", text, s)
		}
	}
}
