package exec

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The number of a group belongs to it as long as its leader is not reaped. A signal that came later
// could hit a stranger.
func TestAwaitEndDoesNotReap(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(cmd.Process)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the command is not a zombie: %q, %v", stat, err)
	}
	if err := cmd.Wait(); err != nil || !cmd.ProcessState.Success() {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}
