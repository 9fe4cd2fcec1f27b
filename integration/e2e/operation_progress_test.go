package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// A list that takes long says how far it is: in /readyz at once, in the log every ten seconds.
func TestListUnderWaySaysHowFarItIs(t *testing.T) {
	t.Parallel()
	stub, kubeconfig := harness.NewStub(t)
	release := stub.HoldLists()
	d := harness.RunInformd(t, kubeconfig, harness.Source("configmaps", "resource: v1/configmaps")+
		harness.Handler("log", "builtin: log")+harness.Rule("all", "source: configmaps, handler: log, payload: {}"))
	d.Poll("/readyz to say how far it is", func() bool {
		code, body := d.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-] source configmaps: listing (no objects yet)\n")
	})
	d.AwaitLog(`msg="source is listing" source=configmaps`)
	if line := d.Logged(); !strings.Contains(line, `progress="no objects yet" took=1`) {
		t.Errorf("log:\n%s", line)
	}
	release()
	d.AwaitReady()
	if _, body := d.Get("/readyz"); !strings.Contains(body, "[+] source configmaps: synced\n") {
		t.Errorf("/readyz:\n%s", body)
	}
}
