package process

import (
	"os"
	"strings"
	"testing"
)

// Another user's directory holds no sockets: that user could replace them.
func TestOthersRunDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give something to another user")
	}
	theirs, ours := t.TempDir(), t.TempDir()
	if err := os.Chown(theirs, 61_299, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := findRunDir(theirs); err == nil || !strings.Contains(err.Error(), "belongs to another user (61299)") {
		t.Error(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", theirs)
	t.Setenv("TMPDIR", ours)
	want := ours
	if len(ours) > maxRunDir {
		want = "/tmp"
	}
	if dir, err := findRunDir(""); err != nil || dir != want {
		t.Errorf("%s, %v; want %s", dir, err, want)
	}
}
