package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/plugins/host/confine"
)

// A handler that does not start in its sandbox may lack a file of its command line, or the folder of
// its script: the error says which path to add.
func TestSuspects(t *testing.T) {
	dir := t.TempDir()
	script, program := filepath.Join(dir, "notify.py"), filepath.Join(dir, "oncall")
	for path, text := range map[string]string{script: "#!/usr/bin/python3\n", program: "\x7fELF"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const begins = "; its confinement may keep it from starting: "
	folder := " (to load modules beside notify.py, an interpreter lists its folder: add " + dir + " to files.read)"
	for _, c := range []struct {
		why  string
		path string
		args []string
		spec confine.Spec
		want string
	}{
		{"nothing", program, nil, confine.Spec{}, ""},
		{"limits", program, nil, confine.Spec{Limits: confine.Limits{CPU: 1, Files: 1}}, begins + "limits.cpu, limits.files"},
		{"a program", program, nil, confine.Spec{Sandbox: true}, begins + "sandbox"},
		{"a script", "./notify.py", nil, confine.Spec{Sandbox: true}, begins + "sandbox" + folder},
		{"an argument", "/usr/bin/python3", []string{"-u", "notify.py"}, confine.Spec{Sandbox: true}, begins + "sandbox (add " + script + " to files.read)"},
		{"its file", "/usr/bin/python3", []string{"notify.py"}, confine.Spec{Sandbox: true, Read: []string{script}}, begins + "sandbox" + folder},
		{"its folder", "/usr/bin/python3", []string{script}, confine.Spec{Sandbox: true, Read: []string{dir}}, begins + "sandbox"},
		{"a folder above", "/usr/bin/python3", []string{script}, confine.Spec{Sandbox: true, Write: []string{filepath.Dir(dir)}}, begins + "sandbox"},
		{"a folder whose name goes on", "python3", []string{script}, confine.Spec{Sandbox: true, Read: []string{dir[:len(dir)-1]}}, begins + "sandbox (add " + script + " to files.read)"},
	} {
		if got := suspects(Command{Path: c.path, Args: c.args, Dir: dir, Confine: c.spec}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
}
