package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// A waiting delivery survives kill -9 with its id, its attempts and its backoff.
func TestWaitingDeliveriesSurvive(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	// Events of team red fail and come again at once. Those of team blue come again after an hour.
	// All succeed once the file ok exists.
	handle := `(cat; echo) > new.$$; cat new.$$ >> events; [ -e ok ] || [ "$INFORMD_NAME" = last ] && exit 0; exit 1`
	exec := func(name, backoff string) string {
		return harness.Handler(name, "builtin: exec, env: [PATH], config: {command: [./handle.sh]}, retry: {backoff: "+backoff+"}")
	}
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+exec("soon", "100ms, maxBackoff: 200ms")+exec("later", "1h, maxBackoff: 1h")+
		harness.Rule("red", "source: configmaps, handler: soon, where: object.data.team == 'red'")+
		harness.Rule("blue", "source: configmaps, handler: later, where: object.data.team == 'blue'")), handle)
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(dir)
	k.Create(harness.ConfigMap("again", "{team: red}"))
	k.Create(harness.ConfigMap("once", "{team: blue}"))
	attempts := func(rule string) (events []handler.Event) {
		for _, line := range harness.LinesOf(t, dir, "events") {
			var ev handler.Event
			if json.Unmarshal([]byte(line), &ev) == nil && ev.Rule == rule {
				events = append(events, ev)
			}
		}
		return events
	}
	k.Eventually("some attempts", func() bool { return len(attempts("red")) >= 4 && len(attempts("blue")) == 1 })
	d.Poll("both to wait", func() bool {
		return d.Metric(`informd_rule_queue_delayed{rule="blue"}`) == "1" && d.Metric(`informd_rule_queue_depth{rule="red"}`) != ""
	})
	// What comes of the attempts before the last is on disk then.
	d.Poll("everything to be written", func() bool { return d.Metric("informd_state_unwritten_records") == "0" })
	d.Kill()
	before := attempts("red")
	was := before[len(before)-1]

	d = state.Run(dir)
	k.Eventually("the next attempt", func() bool { return len(attempts("red")) > len(before) })
	next := attempts("red")[len(before)]
	// An attempt in the last moment before the kill may not be on disk.
	if next.ID != was.ID || next.Attempt < 4 || next.Attempt > was.Attempt+1 {
		t.Errorf("after the restart: %s, attempt %d; before it was %s, attempt %d", next.ID, next.Attempt, was.ID, was.Attempt)
	}
	harness.Touch(t, dir, "ok")
	d.Poll("it to be done", func() bool {
		return d.Metric(`informd_handler_deliveries_total{handler="soon",result="done",rule="red"}`) == "1"
	})
	// informd delivers a later event, and the one that has to wait for an hour waits.
	k.Create(harness.ConfigMap("last", "{team: blue}"))
	k.Eventually("the later one", func() bool { return len(attempts("blue")) > 1 })
	d.AwaitReady()
	if d.Metric(`informd_rule_queue_delayed{rule="blue"}`) != "1" {
		t.Error("nothing waits for its time any more")
	}
	d.Stop()
	if got := attempts("blue"); len(got) != 2 || got[1].Name != "last" {
		t.Errorf("%d attempts, the last of %s; want one of each", len(got), got[len(got)-1].Name)
	}
}

// After a restart, latest goes on merging waiting deliveries, also with what happened meanwhile.
// every keeps all.
func TestWaitingDeliveriesMergeOverRestarts(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	brief := k.Create(harness.ConfigMap("brief", "{size: '0'}"))
	known := k.Create(harness.ConfigMap("known", "{size: '0'}"))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	rules := func(h string) string {
		return k.Text(harness.Source("configmaps", harness.ConfigMaps) + h +
			harness.Rule("latest", "source: configmaps, handler: h, "+sizes) +
			harness.Rule("every", "source: configmaps, handler: h, delivery: every, "+sizes))
	}
	there := rules(harness.Handler("h", "builtin: log"))
	d := state.Settled(there)
	for _, rule := range []string{"latest", "every"} {
		k.Sees(d, rule+" NS/known synced")
		k.Sees(d, rule+" NS/brief synced")
	}
	d.AwaitWritten()
	d.Kill()

	d = state.Settled(rules(harness.Away("h")))
	depth := func(rule string, n int) {
		d.Poll(fmt.Sprint(n, " to wait"), func() bool { return d.Waiting(rule) == n })
	}
	fresh := k.Create(harness.ConfigMap("fresh", "{size: '1'}"))
	k.Patch(fresh, "data: {size: '2'}")
	k.Patch(known, "data: {size: '1'}")
	k.Delete(brief)
	depth("latest", 3)
	depth("every", 4)
	d.AwaitWritten()
	d.Kill()

	k.Patch(fresh, "data: {size: '3'}")
	d = state.Settled(rules(harness.Away("h")))
	k.Patch(known, "data: {size: '2'}")
	depth("latest", 3)
	depth("every", 6)
	d.AwaitWritten()
	d.Kill()

	d = state.Settled(there)
	k.Create(harness.ConfigMap("last", "{size: '1'}"))
	for _, rule := range []string{"latest", "every"} {
		k.Sees(d, rule+" NS/last added")
	}
	d.AwaitDelivered()
	d.Stop()
	harness.Compare(t, []string{
		`latest NS/fresh added {"size":"3","was":null}`, `latest NS/known updated {"size":"2","was":"0"}`,
		`latest NS/brief deleted {"size":"0","was":null}`, `latest NS/last added {"size":"1","was":null}`,
		`every NS/fresh added {"size":"1","was":null}`, `every NS/fresh updated {"size":"2","was":"1"}`, `every NS/fresh updated {"size":"3","was":"2"}`,
		`every NS/known updated {"size":"1","was":"0"}`, `every NS/known updated {"size":"2","was":"1"}`,
		`every NS/brief deleted {"size":"0","was":null}`, `every NS/last added {"size":"1","was":null}`,
	}, k.Briefs(d.Events))
}

// Dead letters survive kill -9, and can be retried.
func TestDeadLettersSurvive(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("exec", harness.Script)+
		harness.Rule("rule", "source: configmaps, handler: exec")),
		`if [ -e ok ]; then (cat; echo) > new.$$; cat new.$$ >> events; else exit 64; fi`)
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(dir)
	k.Create(harness.ConfigMap("one", "{size: '1'}"))
	k.Create(harness.ConfigMap("two", "{size: '1'}"))
	d.Poll("two dead letters", func() bool { return d.Metric("informd_dead_letters") == "2" })
	d.AwaitWritten()
	before := state.Command("dead", "list", "-o", "json")
	for _, want := range []string{"/added/", "exit status 64", "one", "two"} {
		if !strings.Contains(before, want) {
			t.Errorf("informd dead list -o json does not have %q:\n%s", want, before)
		}
	}
	d.Kill()

	d = state.Settled(dir)
	if got := d.Metric("informd_dead_letters"); got != "2" {
		t.Errorf("%s dead letters after the restart, want 2", got)
	}
	if after := state.Command("dead", "list", "-o", "json"); after != before {
		t.Errorf("they are not the same after the restart:\n%s\nbefore:\n%s", after, before)
	}
	harness.Touch(t, dir, "ok")
	state.Command("dead", "retry", "--rule", "rule")
	k.Eventually("both to be delivered", func() bool { return len(harness.LinesOf(t, dir, "events")) == 2 })
	d.Poll("none to be left", func() bool { return d.Metric("informd_dead_letters") == "0" })
	d.AwaitWritten()
	d.Kill()

	d = state.Settled(dir)
	if got := d.Metric("informd_dead_letters"); got != "0" {
		t.Errorf("%s dead letters come back", got)
	}
	d.Stop()
	if got := len(harness.LinesOf(t, dir, "events")); got != 2 {
		t.Errorf("%d deliveries, want two", got)
	}
}
