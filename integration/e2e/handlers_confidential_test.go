package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// The last words of a handler that may read Secrets are neither in the status nor in informd's own
// lines of the log. /readyz has nobody's words.
func TestLastWordsOfHandlers(t *testing.T) {
	t.Parallel()
	_, kubeconfig := harness.NewStub(t)
	socket := filepath.Join(harness.ShortDir(t), "control")
	dies := func(word string) string { return `command: [sh, -c, "echo cannot parse ` + word + ` >&2; exit 1"]` }
	d := harness.RunInformd(t, kubeconfig, harness.Source("secrets", "resource: v1/secrets")+
		harness.Source("configmaps", "resource: v1/configmaps")+
		harness.Handler("reads", dies("hunter2")+", access: {read: [secrets]}")+
		harness.Handler("plain", dies("blue"))+
		harness.Rule("one", "source: configmaps, handler: reads, payload: {}")+
		harness.Rule("two", "source: configmaps, handler: plain, payload: {}"), "--control", socket)
	failures := func(handler string) int {
		return harness.Count(d.Logged(), "level=ERROR", `msg="handler failed"`, "handler="+handler+" ")
	}
	d.Poll("both to fail", func() bool { return failures("reads") > 0 && failures("plain") > 0 })
	for _, flags := range [][]string{{}, {"-o", "wide"}, {"-o", "json"}} {
		code, out, errs := harness.Informd(t, append([]string{"status", "--control", socket}, flags...)...)
		if strings.Contains(out, "hunter2") || !strings.Contains(out, "cannot parse blue") {
			t.Errorf("status %q: exit code %d\n%s%s", flags, code, out, errs)
		}
	}
	if _, body := d.Get("/readyz"); strings.Contains(body, "hunter2") || strings.Contains(body, "blue") ||
		!strings.Contains(body, "handler plain: ") {
		t.Errorf("/readyz:\n%s", body)
	}
	for line := range strings.Lines(d.Logged()) {
		if strings.Contains(line, "hunter2") && !strings.Contains(line, " via=stderr") {
			t.Errorf("informd says: %s", line)
		}
	}
}
