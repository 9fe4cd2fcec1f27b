package harness

import (
	"strings"
	"testing"
)

// StateDir is a state directory that daemons use one after the other.
type remembering struct {
	t          *testing.T
	Kubeconfig string
	Dir        string
}

// NewStateDir names the directory for daemons with this kubeconfig. It does not make it.
func NewStateDir(t *testing.T, kubeconfig, dir string) remembering {
	return remembering{t, kubeconfig, dir}
}

func (r remembering) Run(manifests string, args ...string) *Daemon {
	r.t.Helper()
	args = append([]string{"--state-dir", r.Dir}, args...)
	return RunInformd(r.t, r.Kubeconfig, manifests, args...)
}

// Settled runs a daemon, waits until it has delivered everything and written its state, and returns
// it running.
func (r remembering) Settled(manifests string, args ...string) *Daemon {
	r.t.Helper()
	d := r.Run(manifests, args...)
	d.AwaitReady()
	d.AwaitWritten()
	return d
}

// Command runs a command of informd that asks the daemon on this state directory.
func (r remembering) Command(args ...string) string {
	r.t.Helper()
	code, stdout, stderr := Informd(r.t, append(args, "--state-dir", r.Dir)...)
	if code != 0 {
		r.t.Fatalf("informd %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}
