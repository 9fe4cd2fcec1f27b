package exec

import (
	"os/exec"
	"testing"

	"github.com/informd/informd/internal/procfs"
)

// The number of a group belongs to it as long as its leader is not reaped. A signal that came later
// could hit a stranger.
func TestAwaitEndDoesNotReap(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(cmd.Process)
	if p, err := procfs.Read(cmd.Process.Pid); err != nil || p.State != 'Z' {
		t.Errorf("the command is not a zombie: %+v, %v", p, err)
	}
	if err := cmd.Wait(); err != nil || !cmd.ProcessState.Success() {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}
