package rights_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/engine/rights"
)

func TestCommentsAreWrapped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, indent, text, want string }{
		{"short", "", "Source pods: list", "# Source pods: list\n"},
		{"long", "", strings.Repeat("ab ", 33) + "end",
			"# " + strings.TrimSpace(strings.Repeat("ab ", 33)) + "\n#   end\n"},
		{"indented twice", "  ", "  WIDE: " + strings.Repeat("äb ", 30) + "end",
			"  #   WIDE: " + strings.TrimSpace(strings.Repeat("äb ", 29)) + "\n  #     äb end\n"},
		{"one long word", "", strings.Repeat("x", 200), "# " + strings.Repeat("x", 200) + "\n"},
		{"an expression keeps its blanks", "", `within ${"a  b"}`, "# within ${\"a  b\"}\n"},
	} {
		if got := rights.Comment(test.indent, test.text); got != test.want {
			t.Errorf("%s: got\n%swant\n%s", test.why, got, test.want)
		}
	}
}
