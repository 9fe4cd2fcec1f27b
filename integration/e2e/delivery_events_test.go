package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// An event has the documented members, in the log builtin's line and on the standard input of the
// exec builtin's command.
func TestEventAsJSON(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	there := k.Create(harness.ConfigMap("there", `{text: "<a> & \"b\""}`))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("log", "builtin: log")+
		harness.Handler("exec", harness.Script)+
		harness.Rule("whole", "source: configmaps, handler: log")+
		harness.Rule("paid", "source: configmaps, handler: log, payload: {kind: event, name: object.metadata.name, was: old.data.text}")+
		harness.Rule("execs", "source: configmaps, handler: exec")),
		`cat >> "$INFORMD_EVENT"`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	everySees := func(what string) {
		t.Helper()
		k.Sees(d, "whole NS/"+what)
		k.Sees(d, "paid NS/"+what)
		kind := strings.Fields(what)[1]
		k.Eventually("exec's "+kind, func() bool { return len(harness.LinesOf(t, dir, kind)) > 0 })
	}
	everySees("there synced")
	made := k.Create(harness.ConfigMap("web", `{text: "één", big: "9007199254740993"}`))
	everySees("web added")
	changed := k.Patch(made, `data: {text: two}`)
	everySees("web updated")
	k.Delete(made)
	everySees("web deleted")
	d.Stop()

	for _, test := range []struct {
		event       string
		object, old *unstructured.Unstructured
		payload     string
	}{
		{"synced", there, nil, `{"kind":"synced","name":"there","was":null}`},
		{"added", made, nil, `{"kind":"added","name":"web","was":null}`},
		{"updated", changed, made, `{"kind":"updated","name":"web","was":"één"}`},
		{"deleted", changed, nil, `{"kind":"deleted","name":"web","was":null}`},
	} {
		t.Run(test.event, func(t *testing.T) {
			whole := lineOf(t, d.Lines, "whole", test.event)
			checkLine(t, whole, "whole", test.event, test.object, test.old, "")
			checkLine(t, lineOf(t, d.Lines, "paid", test.event), "paid", test.event, test.object, nil, test.payload)
			execs := harness.LinesOf(t, dir, test.event)
			if want := strings.ReplaceAll(whole, `"whole`, `"execs`); len(execs) != 1 || execs[0] != want {
				t.Errorf("a command read\n%s\nwant what log writes\n%s", strings.Join(execs, "\n"), want)
			}
		})
	}
}

func lineOf(t *testing.T, lines []string, rule, event string) string {
	t.Helper()
	var found []string
	for _, line := range lines {
		if strings.Contains(line, `"rule":"`+rule+`","event":"`+event+`"`) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("rule %s had %d events %s, want one: %s", rule, len(found), event, strings.Join(found, "\n"))
	}
	return found[0]
}

// checkLine compares a line literally, except the order of members within objects: the API server
// decides that.
func checkLine(t *testing.T, line, rule, event string, object, old *unstructured.Unstructured, payload string) {
	t.Helper()
	var ev handler.Event
	if err := json.Unmarshal([]byte(line), &ev); err != nil {
		t.Fatal(err)
	}
	version := object.GetResourceVersion()
	if event == handler.Deleted { // the server gives a deletion a version of its own
		if ev.ResourceVersion == version {
			t.Errorf("a deletion has the version of the change before it, %s", version)
		}
		version = ev.ResourceVersion
	}
	want := fmt.Sprintf(`{"id":"%s/%s/%s/%s","rule":"%s","event":"%s","attempt":1,`+
		`"resource":{"group":"","version":"v1","resource":"configmaps"},`+
		`"namespace":"%s","name":"%s","uid":"%s","resourceVersion":"%s"`,
		rule, object.GetUID(), event, version, rule, event,
		object.GetNamespace(), object.GetName(), object.GetUID(), version)
	if payload != "" {
		want += `,"payload":` + payload
	} else {
		want += `,"object":` + string(ev.Object)
		checkObject(t, ev.Object, object, version)
	}
	if old != nil {
		want += `,"old":` + string(ev.Old)
		checkObject(t, ev.Old, old, old.GetResourceVersion())
	}
	if diff := cmp.Diff(want+"}", line); diff != "" {
		t.Errorf("the event (- expected, + came):\n%s", diff)
	}
}

// checkObject compares an object with the API server's, without its managedFields.
func checkObject(t *testing.T, got json.RawMessage, server *unstructured.Unstructured, version string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(got, &o); err != nil {
		t.Fatal(err)
	}
	want := server.DeepCopy()
	want.SetManagedFields(nil)
	want.SetResourceVersion(version)
	if diff := cmp.Diff(want.Object, o); diff != "" {
		t.Errorf("object (- expected, + came):\n%s", diff)
	}
}

// informd delivers the largest object that etcd accepts, whole, to every kind of handler.
func TestLargeObject(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Define("Boulder")
	dir := harness.Folder(t, k.Text(harness.Source("boulders", "resource: informd.test/v1/boulders, namespaces: [NS]")+
		harness.Handler("log", "builtin: log")+
		harness.Handler("exec", harness.Script)+
		harness.Rule("logs", "source: boulders, handler: log")+
		harness.Rule("execs", "source: boulders, handler: exec")),
		`cat > part && mv part "$INFORMD_EVENT"`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.AwaitReady()

	content := strings.Repeat("0123456789", 150_000)
	boulder := &unstructured.Unstructured{}
	boulder.SetUnstructuredContent(map[string]any{
		"apiVersion": "informd.test/v1", "kind": "Boulder",
		"metadata": map[string]any{"namespace": k.Ns, "name": "big"}, "content": content,
	})
	text, err := boulder.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	made := k.Create(string(text))
	k.Sees(d, "logs NS/big added")
	k.Patch(made, `changed: true`) // both states: twice the size
	k.Sees(d, "logs NS/big updated")
	k.Eventually("exec's update", func() bool { return len(harness.LinesOf(t, dir, "updated")) > 0 })
	d.Stop()

	events := d.Events
	for _, name := range []string{"added", "updated"} {
		for _, line := range harness.LinesOf(t, dir, name) {
			var ev handler.Event
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
		}
	}
	harness.Compare(t, []string{"execs NS/big added", "execs NS/big updated", "logs NS/big added", "logs NS/big updated"}, k.Briefs(events))
	for _, ev := range events {
		var o struct{ Content string }
		if err := json.Unmarshal(ev.Object, &o); err != nil || o.Content != content {
			t.Errorf("%s: the object did not arrive whole: %d bytes of content, want %d; %v", harness.Brief(ev), len(o.Content), len(content), err)
		}
	}
}
