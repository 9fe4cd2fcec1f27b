package harness

import (
	"strings"
	"testing"
)

// remembering is daemons that come one after the other and share a state folder.
type remembering struct {
	t          *testing.T
	Kubeconfig string
	Dir        string
}

// NewStateDir names the folder that daemons of this kubeconfig share.
func NewStateDir(t *testing.T, kubeconfig, dir string) remembering {
	return remembering{t, kubeconfig, dir}
}

func (r remembering) Run(manifests string, args ...string) *Daemon {
	r.t.Helper()
	return RunInformd(r.t, r.Kubeconfig, manifests, append([]string{"--state-dir", r.Dir}, args...)...)
}

// Settled runs a daemon until everything is told and on disk, and returns it running.
func (r remembering) Settled(manifests string, args ...string) *Daemon {
	r.t.Helper()
	d := r.Run(manifests, args...)
	d.AwaitReady()
	d.AwaitWritten()
	return d
}

// Command asks the daemon that runs on the state folder.
func (r remembering) Command(args ...string) string {
	r.t.Helper()
	code, stdout, stderr := Informd(r.t, append(args, "--state-dir", r.Dir)...)
	if code != 0 {
		r.t.Fatalf("informd %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}
