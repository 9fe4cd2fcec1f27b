package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// A handler gets a group of Secrets as one event, whole. A rejection makes one dead letter of it,
// which shows no value to people unless they ask for it, and which a retry sends whole again.
func TestGroupOfSecrets(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	dir := harness.Folder(t, k.Text(
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]")+
			harness.Handler("script", harness.Script)+
			harness.Rule("grouped", "source: secrets, handler: script, events: [added], "+
				`group: {by: '"all of them"', wait: 3s}`)),
		"cat >> events\n[ -e done ] && exit 0\nexit 64")
	state := harness.ShortDir(t)
	d := harness.RunInformd(t, c.Kubeconfig(), filepath.Join(dir, "rules.yaml"), "--state-dir", state)
	d.AwaitReady()
	names := []string{"one", "two", "three"}
	for _, name := range names {
		k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `}, stringData: {password: hunter2-` + name + `}}`)
	}
	d.Poll("the dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	received := func(n int) handler.Event {
		t.Helper()
		lines := harness.LinesOf(t, dir, "events")
		if len(lines) != n {
			t.Fatalf("the handler has %d events, want %d:\n%s", len(lines), n, strings.Join(lines, "\n"))
		}
		var ev handler.Event
		if err := json.Unmarshal([]byte(lines[n-1]), &ev); err != nil {
			t.Fatal(err)
		}
		return ev
	}
	ev := received(1)
	wantGroup(t, ev, 1, names)

	informd := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := harness.Informd(t, append(args, "--state-dir", state)...)
		if code != 0 {
			t.Fatalf("informd %s: %d, %s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	const hunter2 = "aHVudGVyMi" // the values begin with this, in base64
	for _, output := range []string{"", "-o=json", "-o=yaml"} {
		args := slices.DeleteFunc([]string{"dead", "show", ev.ID, output}, func(s string) bool { return s == "" })
		text := informd(args...)
		if strings.Contains(text, hunter2) || strings.Count(text, "***") < len(names)+1 {
			t.Errorf("dead show %s does not mask the items:\n%s", output, text)
		}
		if output == "" && !strings.Contains(text, "\nitems      3 (the last is of this object)\n") {
			t.Errorf("dead show does not count the items:\n%s", text)
		}
		if text := informd(append(args, "--show-secrets")...); strings.Count(text, hunter2) != len(names)+1 {
			t.Errorf("dead show %s --show-secrets:\n%s", output, text)
		}
	}

	// The letter survives a crash, and so do its items.
	var values []string
	for _, name := range names {
		values = append(values, "hunter2-"+name)
	}
	d.AwaitWritten()
	d.Kill()
	harness.WantNotOnDisk(t, state, values)
	harness.WriteProgram(t, filepath.Join(dir, "done"), "", os.FileMode(0o600))
	d = harness.RunInformd(t, c.Kubeconfig(), filepath.Join(dir, "rules.yaml"), "--state-dir", state)
	d.AwaitReady()
	informd("dead", "retry", "--all")
	d.Poll("the retry", func() bool { return len(harness.LinesOf(t, dir, "events")) == 2 })
	again := received(2)
	wantGroup(t, again, 2, names)
	if again.ID != ev.ID {
		t.Errorf("the retry has the id %s, and the first attempt %s", again.ID, ev.ID)
	}
	if strings.Contains(d.Logged(), "hunter2") || strings.Contains(d.Logged(), hunter2) {
		t.Error("the log has the values")
	}
	d.Stop()
}

// wantGroup wants an event whose items are Secrets of these names.
func wantGroup(t *testing.T, ev handler.Event, attempt int, names []string) {
	t.Helper()
	if len(ev.Items) != len(names) || ev.Attempt != attempt {
		t.Fatalf("attempt %d has %d items, want attempt %d with %d", ev.Attempt, len(ev.Items), attempt, len(names))
	}
	for i, item := range ev.Items {
		var o struct{ Data struct{ Password []byte } }
		if err := json.Unmarshal(item.Object, &o); err != nil {
			t.Fatal(err)
		}
		if item.Name != names[i] || string(o.Data.Password) != "hunter2-"+item.Name || item.ID == "" || item.Attempt != attempt ||
			item.Rule != ev.Rule || item.Resource != ev.Resource || item.Event != handler.Added || len(item.Items) != 0 {
			t.Errorf("item %d: %+v, want %s", i, item, names[i])
		}
	}
	last := ev.Items[len(ev.Items)-1]
	if last.ID != ev.ID || string(last.Object) != string(ev.Object) {
		t.Errorf("the last item is %s, and the event %s", last.ID, ev.ID)
	}
}
