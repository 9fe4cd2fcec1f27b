package daemon

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/launch"
)

// unread is a writer that nobody reads from.
type unread struct{}

func (unread) Write([]byte) (int, error) { select {} }

// A replica that has to die does so even if its log hangs.
func TestDieWithoutALog(t *testing.T) {
	const variable = "INFORMD_TEST_DIES"
	if os.Getenv(variable) != "" {
		d := &informd{folders: new(launch.Folders), log: slog.New(cli.NewTextLog(unread{}, nil))}
		d.die("something hangs")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestDieWithoutALog$")
	cmd.Env = append(os.Environ(), variable+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	ended, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || ended.ExitCode() != 1 {
		t.Errorf("the process ended with %v, want the exit code 1", ended)
	}
}
