package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// A bug in compiling is a mistake of the file that shows it, and no end of the process.
func TestPanicIsAMistake(t *testing.T) {
	before := compile
	t.Cleanup(func() { compile = before })
	compile = func(files []config.File, k known) (*config.Config, *plan.Plan, config.Mistakes) {
		all := ""
		for _, f := range files {
			all += string(f.Data)
		}
		var none *plan.Source
		if strings.Contains(all, "bad") || strings.Contains(all, "ha") && strings.Contains(all, "lf") {
			_ = none.Name
		}
		return before(files, k)
	}
	const fault = `informd failed when it read this, which is its own mistake: ` +
		`runtime error: invalid memory address or nil pointer dereference, at manifests/net_test\.go:\d+; ` +
		`please report that, with the manifest, at https://github\.com/informd/informd/issues`
	for _, test := range []struct{ a, b, want string }{
		{"# good", "# bad", `^b\.yaml: ` + fault + `$`},
		{"# bad", "# bad", `^a\.yaml: ` + fault + `$`},
		{"# ha", "# lf", `^` + fault + `$`},
		{"# good", "# good", `^no manifest in a\.yaml, b\.yaml$`},
	} {
		t.Chdir(t.TempDir())
		for name, text := range map[string]string{"a.yaml": test.a, "b.yaml": test.b} {
			if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, p, err := Load([]string{"."})
		mistakes, ok := errors.AsType[config.Mistakes](err)
		if !ok || len(mistakes) != 1 || cfg == nil || p != nil ||
			!regexp.MustCompile(test.want).MatchString(err.Error()) {
			t.Errorf("%s, %s: %v, %v, %v; want %s", test.a, test.b, cfg, p, err, test.want)
		}
	}
}
