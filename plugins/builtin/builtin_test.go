package builtin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/builtin"
	"github.com/informd/informd/plugins/handler"
)

func TestBuiltins(t *testing.T) {
	if diff := cmp.Diff([]string{"exec", "log", "webhook"}, builtin.Names()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, name := range builtin.Names() {
		h, ok := builtin.New(name)
		if !ok {
			t.Fatalf("%s: not there", name)
		}
		if got := h.(handler.Describer).Describe().Name; got != name {
			t.Errorf("%s describes itself as %q", name, got)
		}
		if err := h.(handler.Configurer).Configure(t.Context(), []byte(`{"no-such-field":1}`)); err == nil {
			t.Errorf("%s takes a field that it does not know", name)
		}
		if again, _ := builtin.New(name); again == h {
			t.Errorf("%s: two calls give one handler", name)
		}
	}
	if h, ok := builtin.New("webhok"); ok || h != nil {
		t.Errorf("got %v, %v for a name that is none", h, ok)
	}
}
