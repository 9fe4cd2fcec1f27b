package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// sizes is a payload with data.size before and after a change.
const sizes = "payload: {size: object.data.size, was: old.data.size}"

// After a restart, handlers get what happened meanwhile: deletions with the last state, updates
// with the real old, and nothing about objects that did not change. If the API server has lost its
// history, states in between are lost, too.
func TestChangesWhileInformdIsDown(t *testing.T) {
	for _, history := range []bool{true, false} {
		t.Run(fmt.Sprintf("history %v", history), func(t *testing.T) {
			t.Parallel()
			c := cluster.Shared(t)
			if !history {
				c = cluster.New(t)
			}
			k := harness.NewKube(t, c)
			gone, changed := k.Create(harness.ConfigMap("gone", "{team: red, size: '1'}")), k.Create(harness.ConfigMap("changed", "{team: red, size: '1'}"))
			k.Create(harness.ConfigMap("same", "{team: red, size: '1'}"))
			leaves, enters := k.Create(harness.ConfigMap("leaves", "{team: red, size: '1'}")), k.Create(harness.ConfigMap("enters", "{team: blue, size: '1'}"))
			again := k.Create(harness.ConfigMap("again", "{team: red, size: '1'}"))

			state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
			rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
				harness.Rule("all", "source: configmaps, handler: log, delivery: every, "+sizes) +
				harness.Rule("red", "source: configmaps, handler: log, where: object.data.team == 'red', "+sizes))
			d := state.Settled(rules)
			k.Sees(d, "all NS/gone synced")
			k.Patch(gone, "data: {size: '2'}")
			k.Sees(d, "red NS/gone updated")
			k.Sees(d, "all NS/gone updated")
			d.AwaitWritten()
			d.Kill()

			k.Delete(gone)
			k.Patch(changed, "data: {size: '2'}")
			k.Patch(changed, "data: {size: '3'}")
			k.Patch(leaves, "data: {team: blue, size: '2'}")
			k.Patch(enters, "data: {team: red, size: '2'}")
			k.Delete(again)
			k.Create(harness.ConfigMap("again", "{team: red, size: '2'}"))
			k.Create(harness.ConfigMap("new", "{team: red, size: '1'}"))
			if !history {
				if err := c.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}

			want := []string{
				`all NS/gone deleted {"size":"2","was":null}`, `red NS/gone deleted {"size":"2","was":null}`,
				`all NS/changed updated {"size":"2","was":"1"}`, `all NS/changed updated {"size":"3","was":"2"}`,
				`red NS/changed updated {"size":"3","was":"1"}`, // latest, of which what waits is merged; or else:
				`all NS/leaves updated {"size":"2","was":"1"}`, `red NS/leaves deleted {"size":"1","was":null}`,
				`all NS/enters updated {"size":"2","was":"1"}`, `red NS/enters added {"size":"2","was":null}`,
				`all NS/again deleted {"size":"1","was":null}`, `red NS/again deleted {"size":"1","was":null}`,
				`all NS/again added {"size":"2","was":null}`, `red NS/again added {"size":"2","was":null}`,
				`all NS/new added {"size":"1","was":null}`, `red NS/new added {"size":"1","was":null}`,
				`all NS/last added {"size":"1","was":null}`, `red NS/last added {"size":"1","was":null}`,
			}
			if !history {
				want[2], want[3] = `all NS/changed updated {"size":"3","was":"1"}`, ""
			}
			d = state.Settled(rules)
			k.Create(harness.ConfigMap("last", "{team: red, size: '1'}"))
			k.Sees(d, "red NS/last added")
			k.Sees(d, "all NS/last added")
			d.AwaitDelivered()
			d.Stop()
			harness.Compare(t, slices.DeleteFunc(want, func(s string) bool { return s == "" }), mergedChange(k.Briefs(d.Events)))
		})
	}
}

// mergedChange merges the two updates of "changed": whether informd merges them depends on who is
// faster.
func mergedChange(lines []string) []string {
	one, two := `red NS/changed updated {"size":"2","was":"1"}`, `red NS/changed updated {"size":"3","was":"2"}`
	if i := slices.Index(lines, one); i >= 0 && slices.Contains(lines[i:], two) {
		lines[i] = `red NS/changed updated {"size":"3","was":"1"}`
		return slices.DeleteFunc(lines, func(s string) bool { return s == two })
	}
	return lines
}

// A daemon that starts again requests and delivers no object that it knows. Its indexes are
// complete.
func TestUnchangedObjectsCauseNothing(t *testing.T) {
	t.Parallel()
	const objects, perNode = 3000, 10
	stub, kubeconfig := harness.NewStub(t)
	stub.Load(harness.ConfigMapResource, objects, func(i int) any {
		return fmt.Sprintf(`{"metadata":{"name":"cm-%04d","namespace":"shop"},"data":{"node":"node-%d"}}`, i, i/perNode)
	})
	state := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	rules := harness.Source("configmaps", "resource: v1/configmaps, indexes: {byNode: object.data.node}") + harness.Handler("log", "builtin: log") +
		harness.Rule("rule", `source: configmaps, handler: log, payload: {same: 'len(byIndex("byNode", object.data.node))'}`)
	d := state.Run(rules)
	d.Await("all objects", func(events []handler.Event) bool { return len(events) == objects })
	d.AwaitWritten()
	d.Kill()

	asked := watchRequests(stub)
	d = state.Run(rules)
	d.AwaitReady()
	if got := d.Metric(`informd_source_objects{source="configmaps"}`); got != fmt.Sprint(objects) {
		t.Errorf("%s objects in the cache, want %d", got, objects)
	}
	for _, query := range asked() {
		t.Errorf("objects were asked for: %s", query)
	}
	stub.Apply(harness.ConfigMapResource, `{"metadata":{"name":"new","namespace":"shop"},"data":{"node":"node-3"}}`)
	events := d.Await("the new object", func(events []handler.Event) bool { return len(events) > 0 })
	d.Stop()
	if got := harness.Brief(events[0]); len(d.Events) != 1 || got != fmt.Sprintf(`rule shop/new added {"same":%d}`, perNode+1) {
		t.Errorf("%d events, the first %s; want one, of the new object", len(d.Events), got)
	}
}

// watchRequests records the requests for configmaps that the stub answers with objects, from now
// on.
func watchRequests(stub *apistub.Server) func() []string {
	var mu sync.Mutex
	var asked []string
	stub.Fail(func(r *http.Request) *metav1.Status {
		q := r.URL.Query()
		isWatch, initial := q.Get("watch") != "", q.Get("sendInitialEvents") == "true"
		if strings.HasSuffix(r.URL.Path, "/configmaps") && (initial || !isWatch && !strings.Contains(q.Get("fieldSelector"), "metadata.name=")) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.URL.String())
		}
		return nil
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

// A new rule gets all objects. A rule with another where gets the objects that no longer match as
// deleted, and its members. A rule that did not change gets nothing, whatever the others do.
func TestRulesChangeBetweenRuns(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("a", "{team: red, size: '1'}"))
	k.Create(harness.ConfigMap("b", "{team: blue, size: '1'}"))
	k.Create(harness.ConfigMap("c", "{team: both, size: '1'}"))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	base := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("same", "source: configmaps, handler: log, where: object.data.team != 'blue', "+sizes))
	moves := func(where string) string {
		return harness.Rule("moves", "source: configmaps, handler: log, where: "+where+", "+sizes)
	}
	first := base + moves("object.data.team != 'blue'") + harness.Rule("goes", "source: configmaps, handler: log")
	d := state.Settled(first)
	for _, want := range []string{"same NS/a synced", "same NS/c synced", "moves NS/a synced", "moves NS/c synced", "goes NS/c synced"} {
		k.Sees(d, want)
	}
	d.AwaitWritten()
	d.Kill()

	second := base + moves("object.data.team != 'red'") + harness.Rule("new", "source: configmaps, handler: log, "+sizes)
	d = state.Settled(second)
	k.Create(harness.ConfigMap("last", "{team: both, size: '1'}"))
	for _, rule := range []string{"same", "moves", "new"} {
		k.Sees(d, rule+" NS/last added")
	}
	d.AwaitWritten()
	d.AwaitDelivered()
	d.Kill()
	harness.Compare(t, []string{
		`same NS/last added {"size":"1","was":null}`,
		`moves NS/a deleted {"size":"1","was":null}`, `moves NS/b synced {"size":"1","was":null}`,
		`moves NS/c synced {"size":"1","was":null}`, `moves NS/last added {"size":"1","was":null}`,
		`new NS/a synced {"size":"1","was":null}`, `new NS/b synced {"size":"1","was":null}`, `new NS/c synced {"size":"1","was":null}`,
		`new NS/last added {"size":"1","was":null}`,
	}, k.Briefs(d.Events))

	d = state.Settled(second)
	k.Create(harness.ConfigMap("finally", "{team: both, size: '2'}"))
	for _, rule := range []string{"same", "moves", "new"} {
		k.Sees(d, rule+" NS/finally added")
	}
	d.AwaitDelivered()
	d.Stop()
	harness.Compare(t, []string{
		`same NS/finally added {"size":"2","was":null}`, `moves NS/finally added {"size":"2","was":null}`,
		`new NS/finally added {"size":"2","was":null}`,
	}, k.Briefs(d.Events))
}

// With keep: needed, the state may lack what a changed rule reads. Objects that did not change
// still cause nothing. Changed ones come as synced, and deleted ones as deleted.
func TestKeptPathsChangeBetweenRuns(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	changed, gone := k.Create(harness.ConfigMap("changed", "{size: '1', color: blue}")), k.Create(harness.ConfigMap("gone", "{size: '1', color: blue}"))
	k.Create(harness.ConfigMap("same", "{size: '1', color: blue}"))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	rules := func(payload string) string {
		return k.Text(harness.Source("configmaps", harness.ConfigMaps+", keep: needed") + harness.Handler("log", "builtin: log") +
			harness.Rule("rule", "source: configmaps, handler: log, payload: {"+payload+"}"))
	}
	d := state.Settled(rules("size: object.data.size"))
	k.Sees(d, "rule NS/same synced")
	k.Sees(d, "rule NS/gone synced")
	k.Sees(d, "rule NS/changed synced")
	d.AwaitWritten()
	d.Kill()

	k.Patch(changed, "data: {size: '2', color: green}")
	k.Delete(gone)
	k.Create(harness.ConfigMap("new", "{size: '1', color: green}"))
	d = state.Settled(rules("size: object.data.size, color: object.data.color"))
	last := k.Create(harness.ConfigMap("last", "{size: '1', color: green}"))
	k.Sees(d, "rule NS/last added")
	k.Patch(last, "data: {size: '2'}")
	k.Sees(d, "rule NS/last updated")
	d.AwaitDelivered()
	d.Stop()
	harness.Compare(t, []string{
		"rule NS/changed synced", "rule NS/gone deleted", "rule NS/new added", "rule NS/last added", "rule NS/last updated",
	}, harness.Cut(k.Briefs(d.Events)))
	if !slices.Contains(k.Briefs(d.Events), `rule NS/changed synced {"size":"2","color":"green"}`) {
		t.Errorf("what changed lacks what the rule reads now: %q", k.Briefs(d.Events))
	}
}
