package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/harness"
)

// A credential plugin that hangs is the reason that status and the log give. It delays no end, and does
// not outlive informd.
func TestCredentialPluginHangs(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	plugin := filepath.Join(t.TempDir(), "plugin")
	harness.WriteProgram(t, plugin, "#!/bin/sh\necho $$ >>"+pids+"\nexec sleep 600\n", 0o700)
	kubeconfig := harness.Edited(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
		*a = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: plugin, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	})
	socket := filepath.Join(harness.ShortDir(t), "control")
	d := harness.RunInformd(t, kubeconfig, anyRules, "--control", socket)
	const reason = "the credential plugin plugin does not answer"
	d.AwaitLog(reason)
	d.Poll("the status to say so", func() bool {
		_, out, _ := harness.Informd(t, "status", "--control", socket)
		return strings.Contains(out, reason)
	})
	began := time.Now()
	d.Stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("informd took %v to end", took)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if !harness.HasEnded(pid) {
			t.Errorf("the plugin, process %d, outlives informd", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
