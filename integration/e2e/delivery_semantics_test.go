package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// where decides membership. An object that begins to match is added. One that ceases to match is
// deleted, with the last state that matched.
func TestWhereIsMembership(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("inside-before", "{team: red, size: '0'}"))
	k.Create(harness.ConfigMap("outside-before", "{team: blue, size: '0'}"))
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("log", "builtin: log")+
			harness.Rule("red", "source: configmaps, handler: log, where: object.data.team == 'red', "+
				"payload: {size: object.data.size, was: old.data.size}")))
	k.Sees(d, "red NS/inside-before synced")

	web := k.Create(harness.ConfigMap("web", "{team: blue, size: '1'}")) // outside
	k.Patch(web, "data: {size: '2'}")                                    // still
	k.Patch(web, "data: {team: red, size: '3'}")
	k.Sees(d, "red NS/web added")
	k.Patch(web, "data: {size: '4'}")
	k.Sees(d, "red NS/web updated")
	k.Patch(web, "data: {team: blue, size: '5'}")
	k.Sees(d, "red NS/web deleted")
	k.Delete(web) // outside
	k.Create(harness.ConfigMap("last", "{team: red, size: '6'}"))

	k.Saw(d,
		`red NS/inside-before synced {"size":"0","was":null}`,
		`red NS/web added {"size":"3","was":null}`,
		`red NS/web updated {"size":"4","was":"3"}`,
		`red NS/web deleted {"size":"4","was":null}`,
		`red NS/last added {"size":"6","was":null}`)
}

// A rule's resync delivers its members again, with a new id each round. Another rule of the source
// gets nothing.
func TestResyncOfOneRule(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	made := k.Create(harness.ConfigMap("in", "{team: red}"))
	k.Create(harness.ConfigMap("out", "{team: blue}"))
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("log", "builtin: log")+
			harness.Rule("again", "source: configmaps, handler: log, where: object.data.team == 'red', resync: 1s")+
			harness.Rule("once", "source: configmaps, handler: log, where: object.data.team == 'red'")))
	events := d.Await("three rounds", func(events []handler.Event) bool {
		again := 0
		for _, ev := range events {
			if ev.Rule == "again" {
				again++
			}
		}
		return again >= 3 && again < len(events)
	})
	d.Stop()

	ids := map[string]bool{}
	once := 0
	for _, ev := range events {
		if harness.Brief(ev) == k.Text("once NS/in synced") {
			once++
			continue
		}
		if harness.Brief(ev) != k.Text("again NS/in synced") || ev.ResourceVersion != made.GetResourceVersion() {
			t.Errorf("unexpected: %s", harness.Brief(ev))
		}
		ids[ev.ID] = true
	}
	if once != 1 || len(ids) != len(events)-1 {
		t.Errorf("%d of the rule without a resync, want one; %d ids for %d rounds", once, len(ids), len(events)-1)
	}
}

// An expression that fails on some objects stops nothing. It does not match them, and informd
// counts the failures.
func TestExpressionsThatFail(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("there", "{size: many}"))
	began := time.Now()
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", indexes: {bySize: 'string(int(object.data.size))'}")+harness.Handler("log", "builtin: log")+
			harness.Rule("where", "source: configmaps, handler: log, where: int(object.data.size) > 3")+
			harness.Rule("when", "source: configmaps, handler: log, when: int(object.data.size) > 3")+
			harness.Rule("payload", "source: configmaps, handler: log, payload: {size: int(object.data.size)}")+
			harness.Rule("index", `source: configmaps, handler: log, payload: {same: 'len(byIndex("bySize", "7"))'}`)+
			harness.Rule("fine", "source: configmaps, handler: log")))
	k.Sees(d, "fine NS/there synced")

	bad := k.Create(harness.ConfigMap("bad", "{size: lots, secret: hush-hush}"))
	k.Sees(d, "fine NS/bad added")
	k.Patch(bad, "data: {size: loads}")
	k.Sees(d, "fine NS/bad updated")
	k.Create(harness.ConfigMap("absent", "{}")) // is nil, which is no failure
	k.Sees(d, "index NS/absent added")          // a cache may be ahead, and have the next object
	k.Create(harness.ConfigMap("good", "{size: '7'}"))
	for _, rule := range []string{"where", "when", "payload", "index"} {
		k.Sees(d, rule+" NS/good added")
	}
	// informd evaluates where for an update's old state, too.
	for series, want := range map[string]string{
		`informd_rule_evaluation_errors_total{rule="where"}`:                         "3",
		`informd_rule_evaluation_errors_total{rule="when"}`:                          "3",
		`informd_rule_evaluation_errors_total{rule="payload"}`:                       "3",
		`informd_rule_evaluation_errors_total{rule="index"}`:                         "0",
		`informd_rule_evaluation_errors_total{rule="fine"}`:                          "0",
		`informd_rule_matches_total{rule="where"}`:                                   "1",
		`informd_rule_matches_total{rule="fine"}`:                                    "5",
		`informd_source_state{source="configmaps",state="synced"}`:                   "1",
		`informd_handler_deliveries_total{handler="log",result="retry",rule="fine"}`: "0",
	} {
		d.Poll(series+" to be "+want, func() bool { return d.Metric(series) == want })
	}
	if got := d.Metric(`informd_source_index_errors_total{source="configmaps"}`); got == "" || got == "0" {
		t.Errorf("the index's failures are not counted: %q", got)
	}
	k.Saw(d,
		"fine NS/there synced", "fine NS/bad added", "fine NS/bad updated", "fine NS/absent added", "fine NS/good added",
		`payload NS/absent added {"size":null}`, `payload NS/good added {"size":7}`,
		`index NS/there synced {"same":0}`, `index NS/bad added {"same":0}`, `index NS/bad updated {"same":0}`,
		`index NS/absent added {"same":0}`, `index NS/good added {"same":1}`,
		"where NS/good added", "when NS/good added")
	if strings.Contains(d.Log.String(), "hush-hush") || strings.Contains(d.Log.String(), "lots") {
		t.Error("an object's content is in the log")
	}
	for _, rule := range []string{"where", "when", "payload"} {
		n, took := harness.Count(d.Log.String(), "level=WARN", "an expression failed", "rule="+rule+" "), time.Since(began)
		if n < 1 || n > 1+int(took/time.Minute) {
			t.Errorf("rule %s: its failure is logged %d times in %v; want once a minute", rule, n, took)
		}
	}
}

// handled returns the events that handle.sh kept in a file.
func handled(t *testing.T, dir string) (events []handler.Event) {
	t.Helper()
	for _, line := range harness.LinesOf(t, dir, "handled") {
		var ev handler.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		events = append(events, ev)
	}
	return events
}

// A retry is the same event with the next attempt number. It delays its own object only, even with
// a concurrency of 1.
func TestRetriesDelayOnlyTheirObject(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("exec", harness.Script+", concurrency: 1")+
		harness.Rule("rule", "source: configmaps, handler: exec, delivery: every, payload: {size: object.data.size}")),
		`cat >> handled; [ "$INFORMD_NAME" != bad ] || [ -e mended ]`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.AwaitReady()
	has := func(what string) func() bool {
		return func() bool { return slices.Contains(harness.Cut(k.Briefs(handled(t, dir))), what) }
	}

	bad := k.Create(harness.ConfigMap("bad", "{size: '1'}"))
	k.Eventually("a second attempt", func() bool { return len(handled(t, dir)) >= 2 })
	k.Patch(bad, "data: {size: '2'}") // waits for its turn
	k.Create(harness.ConfigMap("good", "{size: '1'}"))
	k.Eventually("the other object", has("rule NS/good added"))
	if got := d.Metric(`informd_rule_queue_depth{rule="rule"}`); got == "0" {
		t.Errorf("nothing waits, though an object fails")
	}
	harness.Touch(t, dir, "mended")
	k.Eventually("the change that waited", has("rule NS/bad updated"))
	k.Delete(bad)
	k.Eventually("the deletion", has("rule NS/bad deleted"))
	d.Stop()

	var got []string
	attempt, id := 0, ""
	for _, ev := range handled(t, dir) {
		if ev.Name == "bad" && ev.Event == handler.Added { // again and again
			if attempt++; ev.Attempt != attempt || id != "" && ev.ID != id {
				t.Errorf("attempt %d of %s, want attempt %d of %s", ev.Attempt, ev.ID, attempt, id)
			}
			if id = ev.ID; attempt > 1 {
				continue
			}
		}
		got = append(got, harness.Brief(ev))
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], k.Ns, "NS")
	}
	harness.Compare(t, []string{
		`rule NS/bad added {"size":"1"}`, `rule NS/bad updated {"size":"2"}`, `rule NS/bad deleted {"size":"2"}`,
		`rule NS/good added {"size":"1"}`,
	}, got)
}

// informd sets a rejected event aside, and one without attempts left. The object's later changes go
// on.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("exec", strings.Replace(harness.Script, "retry: {", "retry: {attempts: 2, ", 1))+
		harness.Rule("rule", "source: configmaps, handler: exec, payload: {exits: object.data.exits}")),
		`read -r event; echo "$event" >> handled
case $event in *'"exits":"65"'*) exit 65;; *'"exits":"1"'*) exit 1;; esac`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.AwaitReady()

	rejected := k.Create(harness.ConfigMap("rejected", "{exits: '65'}"))
	failing := k.Create(harness.ConfigMap("failing", "{exits: '1'}"))
	d.Poll("two dead letters", func() bool { return d.Metric("informd_dead_letters") == "2" })
	k.Patch(rejected, "data: {exits: '0'}")
	k.Patch(failing, "data: {exits: '0'}")
	k.Eventually("the later changes", func() bool { return len(handled(t, dir)) >= 5 })
	for result, want := range map[string]string{"reject": "1", "dead": "1", "retry": "1", "done": "2"} {
		series := `informd_handler_deliveries_total{handler="exec",result="` + result + `",rule="rule"}`
		d.Poll(series+" to be "+want, func() bool { return d.Metric(series) == want })
	}
	d.Stop()
	harness.Compare(t, []string{
		`rule NS/rejected added {"exits":"65"}`,
		`rule NS/rejected updated {"exits":"0"}`,
		`rule NS/failing added {"exits":"1"}`,
		`rule NS/failing added {"exits":"1"}`,
		`rule NS/failing updated {"exits":"0"}`,
	}, k.Briefs(handled(t, dir)))
	if n := harness.Count(d.Log.String(), "dead letter", "rejected"); n == 0 {
		t.Error("the log does not tell of the dead letter")
	}
}

// While a handler works on an object, latest merges the object's changes and every keeps each.
func TestLatestMergesAndEveryKeeps(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("exec", harness.Script)+harness.Handler("log", "builtin: log")+
		harness.Rule("latest", "source: configmaps, handler: exec, payload: {size: object.data.size, was: old.data.size}")+
		harness.Rule("every", "source: configmaps, handler: exec, payload: {size: object.data.size, was: old.data.size}, delivery: every")+
		harness.Rule("evaluated", "source: configmaps, handler: log, delivery: every")),
		`cat >> handled; until [ -e go ]; do sleep 0.05; done`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.AwaitReady()
	total := func(n int) func() bool { return func() bool { return len(handled(t, dir)) >= n } }

	web := k.Create(harness.ConfigMap("web", "{size: '1'}"))
	k.Eventually("both rules to be at the handler", total(2))
	for _, n := range []string{"2", "3", "4"} {
		k.Patch(web, "data: {size: '"+n+"'}")
	}
	passing := k.Create(harness.ConfigMap("passing", "{size: '1'}"))
	k.Eventually("both rules to be at the handler with another object", total(4))
	k.Delete(passing)
	d.Await("all of it to be evaluated", func(events []handler.Event) bool { return len(events) >= 6 })
	harness.Touch(t, dir, "go")
	k.Eventually("all of it to be handled", total(10))
	d.Poll("nothing to wait", func() bool {
		return d.Metric(`informd_rule_queue_depth{rule="latest"}`) == "0" && d.Metric(`informd_rule_queue_depth{rule="every"}`) == "0"
	})
	d.Stop()
	harness.Compare(t, []string{
		`latest NS/web added {"size":"1","was":null}`,
		`latest NS/web updated {"size":"4","was":"1"}`,
		`latest NS/passing added {"size":"1","was":null}`,
		`latest NS/passing deleted {"size":"1","was":null}`, // it was sent, so its deletion is, too
		`every NS/web added {"size":"1","was":null}`,
		`every NS/web updated {"size":"2","was":"1"}`,
		`every NS/web updated {"size":"3","was":"2"}`,
		`every NS/web updated {"size":"4","was":"3"}`,
		`every NS/passing added {"size":"1","was":null}`,
		`every NS/passing deleted {"size":"1","was":null}`,
	}, k.Briefs(handled(t, dir)))
}
