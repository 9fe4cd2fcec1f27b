package engine

import (
	"testing"

	"github.com/informd/informd/integration/apistub"
)

func TestSourceStatus(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]Handler{"record": record})
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	record.await(t, 2)
	if s := e.Status().Sources[0]; s.Resource != "v1/configmaps" || s.ResourceVersion != server.ResourceVersion() {
		t.Errorf("got %+v at %s", s, server.ResourceVersion())
	}
	if e.Status().Rules[0].Paused {
		t.Error("a rule is paused and nobody asked for it")
	}
}

// A source with several informers shows the one that is behind.
func TestIsBehind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"9", "9", false},
		{"", "9", true},
		{"9", "", false},
		{"9", "x", false}, // on a server with other versions nobody can tell
	}
	for _, test := range tests {
		if got := isBehind(test.a, test.b); got != test.want {
			t.Errorf("isBehind(%q, %q) = %v", test.a, test.b, got)
		}
	}
}
