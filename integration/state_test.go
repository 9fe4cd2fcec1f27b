package integration

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// remembering is daemons that come one after the other and share a state folder.
type remembering struct {
	t          *testing.T
	kubeconfig string
	dir        string
}

// newStateDir names the folder that daemons of this kubeconfig share.
func newStateDir(t *testing.T, kubeconfig, dir string) remembering {
	return remembering{t, kubeconfig, dir}
}

func (r remembering) run(manifests string, args ...string) *daemon {
	r.t.Helper()
	return runInformd(r.t, r.kubeconfig, manifests, append([]string{"--state-dir", r.dir}, args...)...)
}

// settled runs a daemon until everything is told and on disk, and returns it running.
func (r remembering) settled(manifests string, args ...string) *daemon {
	r.t.Helper()
	d := r.run(manifests, args...)
	d.awaitReady()
	d.awaitWritten()
	return d
}

// sizes tells of each change what data.size was before, and is.
const sizes = "payload: {size: object.data.size, was: old.data.size}"

// What happens while nobody looks is told afterwards: deletions with the last state, updates with the real old, and
// nothing of what did not change. Where the API server has no history any more, states in between are gone with it.
func TestWhatHappensMeanwhile(t *testing.T) {
	for _, history := range []bool{true, false} {
		t.Run(fmt.Sprintf("history %v", history), func(t *testing.T) {
			t.Parallel()
			c := cluster.Shared(t)
			if !history {
				c = cluster.New(t)
			}
			k := newKube(t, c)
			gone, changed := k.create(configMap("gone", "{team: red, size: '1'}")), k.create(configMap("changed", "{team: red, size: '1'}"))
			k.create(configMap("same", "{team: red, size: '1'}"))
			leaves, enters := k.create(configMap("leaves", "{team: red, size: '1'}")), k.create(configMap("enters", "{team: blue, size: '1'}"))
			again := k.create(configMap("again", "{team: red, size: '1'}"))

			state := newStateDir(t, c.Kubeconfig(), shortDir(t))
			rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") +
				ruleFor("all", "source: configmaps, handler: log, delivery: every, "+sizes) +
				ruleFor("red", "source: configmaps, handler: log, where: object.data.team == 'red', "+sizes))
			d := state.settled(rules)
			k.sees(d, "all NS/gone synced")
			k.patch(gone, "data: {size: '2'}")
			k.sees(d, "red NS/gone updated")
			k.sees(d, "all NS/gone updated")
			d.awaitWritten()
			d.kill()

			k.delete(gone)
			k.patch(changed, "data: {size: '2'}")
			k.patch(changed, "data: {size: '3'}")
			k.patch(leaves, "data: {team: blue, size: '2'}")
			k.patch(enters, "data: {team: red, size: '2'}")
			k.delete(again)
			k.create(configMap("again", "{team: red, size: '2'}"))
			k.create(configMap("new", "{team: red, size: '1'}"))
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
			d = state.settled(rules)
			k.create(configMap("last", "{team: red, size: '1'}"))
			k.sees(d, "red NS/last added")
			k.sees(d, "all NS/last added")
			d.awaitDelivered()
			d.stop()
			compare(t, slices.DeleteFunc(want, func(s string) bool { return s == "" }), mergedChange(k.briefs(d.events)))
		})
	}
}

// mergedChange makes of the two updates of "changed" one: whether they are merged is a matter of who is faster.
func mergedChange(lines []string) []string {
	one, two := `red NS/changed updated {"size":"2","was":"1"}`, `red NS/changed updated {"size":"3","was":"2"}`
	if i := slices.Index(lines, one); i >= 0 && slices.Contains(lines[i:], two) {
		lines[i] = `red NS/changed updated {"size":"3","was":"1"}`
		return slices.DeleteFunc(lines, func(s string) bool { return s == two })
	}
	return lines
}

// A daemon that comes back asks for no object that it knows, and tells of none. Its indexes are complete.
func TestUnchangedObjectsCauseNothing(t *testing.T) {
	t.Parallel()
	const objects, perNode = 3000, 10
	stub, kubeconfig := newStub(t)
	stub.Load(stubConfigMaps, objects, func(i int) any {
		return fmt.Sprintf(`{"metadata":{"name":"cm-%04d","namespace":"shop"},"data":{"node":"node-%d"}}`, i, i/perNode)
	})
	state := newStateDir(t, kubeconfig, shortDir(t))
	rules := source("configmaps", "resource: v1/configmaps, indexes: {byNode: object.data.node}") + toldBy("log", "builtin: log") +
		ruleFor("rule", `source: configmaps, handler: log, payload: {same: 'len(byIndex("byNode", object.data.node))'}`)
	d := state.run(rules)
	d.await("all objects", func(events []handler.Event) bool { return len(events) == objects })
	d.awaitWritten()
	d.kill()

	asked := watchRequests(stub)
	d = state.run(rules)
	d.awaitReady()
	if got := d.metric(`informd_source_objects{source="configmaps"}`); got != fmt.Sprint(objects) {
		t.Errorf("%s objects in the cache, want %d", got, objects)
	}
	for _, query := range asked() {
		t.Errorf("objects were asked for: %s", query)
	}
	stub.Apply(stubConfigMaps, `{"metadata":{"name":"new","namespace":"shop"},"data":{"node":"node-3"}}`)
	events := d.await("the new object", func(events []handler.Event) bool { return len(events) > 0 })
	d.stop()
	if got := brief(events[0]); len(d.events) != 1 || got != fmt.Sprintf(`rule shop/new added {"same":%d}`, perNode+1) {
		t.Errorf("%d events, the first %s; want one, of the new object", len(d.events), got)
	}
}

var stubConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// newStub is an API server that serves configmaps and namespaces, of which kube-system is one.
func newStub(t *testing.T) (*apistub.Server, string) {
	t.Helper()
	stub := apistub.New(t)
	stub.Serve(stubConfigMaps, "ConfigMap", true)
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	stub.Serve(namespaces, "Namespace", false)
	stub.Apply(namespaces, fmt.Sprintf(`{"metadata":{"name":"kube-system","uid":%q}}`, rand.Text())) // which tells clusters apart
	return stub, writeFile(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: stub, cluster: {server: %s}}]
users: [{name: stub, user: {}}]
contexts: [{name: stub, context: {cluster: stub, user: stub}}]
current-context: stub
`, stub.Config().Host))
}

// watchRequests notes the requests of configmaps that are answered with objects, from now on.
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

// A rule that is new is told of what is there. One whose where changed is told what fell out of it, and what is inside.
// One that did not change is told nothing, whatever the others do.
func TestRulesChangeBetweenRuns(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("a", "{team: red, size: '1'}"))
	k.create(configMap("b", "{team: blue, size: '1'}"))
	k.create(configMap("c", "{team: both, size: '1'}"))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	base := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") +
		ruleFor("same", "source: configmaps, handler: log, where: object.data.team != 'blue', "+sizes))
	moves := func(where string) string {
		return ruleFor("moves", "source: configmaps, handler: log, where: "+where+", "+sizes)
	}
	first := base + moves("object.data.team != 'blue'") + ruleFor("goes", "source: configmaps, handler: log")
	d := state.settled(first)
	for _, want := range []string{"same NS/a synced", "same NS/c synced", "moves NS/a synced", "moves NS/c synced", "goes NS/c synced"} {
		k.sees(d, want)
	}
	d.awaitWritten()
	d.kill()

	second := base + moves("object.data.team != 'red'") + ruleFor("new", "source: configmaps, handler: log, "+sizes)
	d = state.settled(second)
	k.create(configMap("last", "{team: both, size: '1'}"))
	for _, rule := range []string{"same", "moves", "new"} {
		k.sees(d, rule+" NS/last added")
	}
	d.awaitWritten()
	d.awaitDelivered()
	d.kill()
	compare(t, []string{
		`same NS/last added {"size":"1","was":null}`,
		`moves NS/a deleted {"size":"1","was":null}`, `moves NS/b synced {"size":"1","was":null}`,
		`moves NS/c synced {"size":"1","was":null}`, `moves NS/last added {"size":"1","was":null}`,
		`new NS/a synced {"size":"1","was":null}`, `new NS/b synced {"size":"1","was":null}`, `new NS/c synced {"size":"1","was":null}`,
		`new NS/last added {"size":"1","was":null}`,
	}, k.briefs(d.events))

	d = state.settled(second)
	k.create(configMap("finally", "{team: both, size: '2'}"))
	for _, rule := range []string{"same", "moves", "new"} {
		k.sees(d, rule+" NS/finally added")
	}
	d.awaitDelivered()
	d.stop()
	compare(t, []string{
		`same NS/finally added {"size":"2","was":null}`, `moves NS/finally added {"size":"2","was":null}`,
		`new NS/finally added {"size":"2","was":null}`,
	}, k.briefs(d.events))
}

// With keep: needed, what a changed rule reads may not be there any more. What did not change causes nothing all the same;
// what did comes as synced, and what is gone as deleted.
func TestKeptPathsChangeBetweenRuns(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	changed, gone := k.create(configMap("changed", "{size: '1', color: blue}")), k.create(configMap("gone", "{size: '1', color: blue}"))
	k.create(configMap("same", "{size: '1', color: blue}"))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	rules := func(payload string) string {
		return k.text(source("configmaps", configMaps+", keep: needed") + toldBy("log", "builtin: log") +
			ruleFor("rule", "source: configmaps, handler: log, payload: {"+payload+"}"))
	}
	d := state.settled(rules("size: object.data.size"))
	k.sees(d, "rule NS/same synced")
	k.sees(d, "rule NS/gone synced")
	k.sees(d, "rule NS/changed synced")
	d.awaitWritten()
	d.kill()

	k.patch(changed, "data: {size: '2', color: green}")
	k.delete(gone)
	k.create(configMap("new", "{size: '1', color: green}"))
	d = state.settled(rules("size: object.data.size, color: object.data.color"))
	last := k.create(configMap("last", "{size: '1', color: green}"))
	k.sees(d, "rule NS/last added")
	k.patch(last, "data: {size: '2'}")
	k.sees(d, "rule NS/last updated")
	d.awaitDelivered()
	d.stop()
	compare(t, []string{
		"rule NS/changed synced", "rule NS/gone deleted", "rule NS/new added", "rule NS/last added", "rule NS/last updated",
	}, cut(k.briefs(d.events)))
	if !slices.Contains(k.briefs(d.events), `rule NS/changed synced {"size":"2","color":"green"}`) {
		t.Errorf("what changed lacks what the rule reads now: %q", k.briefs(d.events))
	}
}
