package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// where is about membership: what comes to satisfy it is added, what ceases to is deleted, with its last state inside.
func TestWhereIsMembership(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("inside-before", "{team: red, size: '0'}"))
	k.create(configMap("outside-before", "{team: blue, size: '0'}"))
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), k.text(
		source("configmaps", configMaps)+toldBy("log", "builtin: log")+
			ruleFor("red", "source: configmaps, handler: log, where: object.data.team == 'red', "+
				"payload: {size: object.data.size, was: old.data.size}")))
	k.sees(d, "red NS/inside-before synced")

	web := k.create(configMap("web", "{team: blue, size: '1'}")) // outside
	k.patch(web, "data: {size: '2'}")                            // still
	k.patch(web, "data: {team: red, size: '3'}")
	k.sees(d, "red NS/web added")
	k.patch(web, "data: {size: '4'}")
	k.sees(d, "red NS/web updated")
	k.patch(web, "data: {team: blue, size: '5'}")
	k.sees(d, "red NS/web deleted")
	k.delete(web) // outside
	k.create(configMap("last", "{team: red, size: '6'}"))

	k.saw(d,
		`red NS/inside-before synced {"size":"0","was":null}`,
		`red NS/web added {"size":"3","was":null}`,
		`red NS/web updated {"size":"4","was":"3"}`,
		`red NS/web deleted {"size":"4","was":null}`,
		`red NS/last added {"size":"6","was":null}`)
}

// A rule's resync brings what is inside again, with an id per round; another rule of the source has none.
func TestResyncOfOneRule(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	made := k.create(configMap("in", "{team: red}"))
	k.create(configMap("out", "{team: blue}"))
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), k.text(
		source("configmaps", configMaps)+toldBy("log", "builtin: log")+
			ruleFor("again", "source: configmaps, handler: log, where: object.data.team == 'red', resync: 1s")+
			ruleFor("once", "source: configmaps, handler: log, where: object.data.team == 'red'")))
	events := d.await("three rounds", func(events []handler.Event) bool { return len(events) >= 4 })
	d.stop()

	ids := map[string]bool{}
	once := 0
	for _, ev := range events {
		if brief(ev) == k.text("once NS/in synced") {
			once++
			continue
		}
		if brief(ev) != k.text("again NS/in synced") || ev.ResourceVersion != made.GetResourceVersion() {
			t.Errorf("unexpected: %s", brief(ev))
		}
		ids[ev.ID] = true
	}
	if once != 1 || len(ids) != len(events)-1 {
		t.Errorf("%d of the rule without a resync, want one; %d ids for %d rounds", once, len(ids), len(events)-1)
	}
}

// An expression that fails on some objects stops nothing. It does not match them, and is counted.
func TestExpressionsThatFail(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("there", "{size: many}"))
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), k.text(
		source("configmaps", configMaps+", indexes: {bySize: 'string(int(object.data.size))'}")+toldBy("log", "builtin: log")+
			ruleFor("where", "source: configmaps, handler: log, where: int(object.data.size) > 3")+
			ruleFor("when", "source: configmaps, handler: log, when: int(object.data.size) > 3")+
			ruleFor("payload", "source: configmaps, handler: log, payload: {size: int(object.data.size)}")+
			ruleFor("index", `source: configmaps, handler: log, payload: {same: 'len(byIndex("bySize", "7"))'}`)+
			ruleFor("fine", "source: configmaps, handler: log")))
	k.sees(d, "fine NS/there synced")

	bad := k.create(configMap("bad", "{size: lots, secret: hush-hush}"))
	k.sees(d, "fine NS/bad added")
	k.patch(bad, "data: {size: loads}")
	k.sees(d, "fine NS/bad updated")
	k.create(configMap("absent", "{}")) // is nil, which is no failure
	k.create(configMap("good", "{size: '7'}"))
	for _, rule := range []string{"where", "when", "payload", "index"} {
		k.sees(d, rule+" NS/good added")
	}
	// where is asked of an update's old state too.
	for series, want := range map[string]string{
		`informd_rule_evaluation_errors_total{rule="where"}`:                         "3",
		`informd_rule_evaluation_errors_total{rule="when"}`:                          "3",
		`informd_rule_evaluation_errors_total{rule="payload"}`:                       "3",
		`informd_rule_evaluation_errors_total{rule="index"}`:                         "0",
		`informd_rule_evaluation_errors_total{rule="fine"}`:                          "0",
		`informd_rule_matches_total{rule="where"}`:                                   "1",
		`informd_rule_matches_total{rule="fine"}`:                                    "5",
		`informd_source_state{source="configmaps",state="synced"}`:                   "1",
		`informd_handler_deliveries_total{handler="log",result="retry",rule="fine"}`: "",
	} {
		if got := d.metric(series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
	if got := d.metric(`informd_source_index_errors_total{source="configmaps"}`); got == "" || got == "0" {
		t.Errorf("the index's failures are not counted: %q", got)
	}
	k.saw(d,
		"fine NS/there synced", "fine NS/bad added", "fine NS/bad updated", "fine NS/absent added", "fine NS/good added",
		`payload NS/absent added {"size":null}`, `payload NS/good added {"size":7}`,
		`index NS/there synced {"same":0}`, `index NS/bad added {"same":0}`, `index NS/bad updated {"same":0}`,
		`index NS/absent added {"same":0}`, `index NS/good added {"same":1}`,
		"where NS/good added", "when NS/good added")
	if strings.Contains(d.log.String(), "hush-hush") || strings.Contains(d.log.String(), "lots") {
		t.Error("an object's content is in the log")
	}
	for _, rule := range []string{"where", "when", "payload"} {
		if n := count(d.log.String(), "level=WARN", "rule="+rule+" "); n != 1 {
			t.Errorf("rule %s: its failure is logged %d times in a minute; want once", rule, n)
		}
	}
}

// handled are the events that handle.sh has kept in a file.
func handled(t *testing.T, dir string) (events []handler.Event) {
	t.Helper()
	for _, line := range linesOf(t, dir, "handled") {
		var ev handler.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		events = append(events, ev)
	}
	return events
}

// A retry is the same event with the next attempt, and holds up its own object only, also where there is one place.
func TestRetriesHoldUpTheirObjectOnly(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+
		toldBy("exec", script+", concurrency: 1")+
		ruleFor("rule", "source: configmaps, handler: exec, delivery: every, payload: {size: object.data.size}")),
		`cat >> handled; [ "$INFORMD_NAME" != bad ] || [ -e mended ]`)
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.awaitReady()
	has := func(what string) func() bool {
		return func() bool { return slices.Contains(cut(k.briefs(handled(t, dir))), what) }
	}

	bad := k.create(configMap("bad", "{size: '1'}"))
	k.eventually("a second attempt", func() bool { return len(handled(t, dir)) >= 2 })
	k.patch(bad, "data: {size: '2'}") // waits for its turn
	k.create(configMap("good", "{size: '1'}"))
	k.eventually("the other object", has("rule NS/good added"))
	if got := d.metric(`informd_rule_queue_depth{rule="rule"}`); got == "0" {
		t.Errorf("nothing waits, though an object fails")
	}
	touch(t, dir, "mended")
	k.eventually("the change that waited", has("rule NS/bad updated"))
	k.delete(bad)
	k.eventually("the deletion", has("rule NS/bad deleted"))
	d.stop()

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
		got = append(got, brief(ev))
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], k.ns, "NS")
	}
	compare(t, []string{
		`rule NS/bad added {"size":"1"}`, `rule NS/bad updated {"size":"2"}`, `rule NS/bad deleted {"size":"2"}`,
		`rule NS/good added {"size":"1"}`,
	}, got)
}

// What is rejected, or out of attempts, is set aside; the object's later changes go on.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+
		toldBy("exec", strings.Replace(script, "retry: {", "retry: {attempts: 2, ", 1))+
		ruleFor("rule", "source: configmaps, handler: exec, payload: {exits: object.data.exits}")),
		`read -r event; echo "$event" >> handled
case $event in *'"exits":"65"'*) exit 65;; *'"exits":"1"'*) exit 1;; esac`)
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.awaitReady()

	rejected := k.create(configMap("rejected", "{exits: '65'}"))
	failing := k.create(configMap("failing", "{exits: '1'}"))
	d.poll("two dead letters", func() bool { return d.metric("informd_dead_letters") == "2" })
	k.patch(rejected, "data: {exits: '0'}")
	k.patch(failing, "data: {exits: '0'}")
	k.eventually("the later changes", func() bool { return len(handled(t, dir)) >= 5 })
	for result, want := range map[string]string{"reject": "1", "dead": "1", "retry": "1", "done": "2"} {
		series := `informd_handler_deliveries_total{handler="exec",result="` + result + `",rule="rule"}`
		d.poll(series+" to be "+want, func() bool { return d.metric(series) == want })
	}
	d.stop()
	compare(t, []string{
		`rule NS/rejected added {"exits":"65"}`,
		`rule NS/rejected updated {"exits":"0"}`,
		`rule NS/failing added {"exits":"1"}`,
		`rule NS/failing added {"exits":"1"}`,
		`rule NS/failing updated {"exits":"0"}`,
	}, k.briefs(handled(t, dir)))
	if n := count(d.log.String(), "dead letter", "rejected"); n == 0 {
		t.Error("the log does not tell of the dead letter")
	}
}

// While a handler is busy with an object, latest merges the object's changes, and every keeps each.
func TestLatestMergesAndEveryKeeps(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+
		toldBy("exec", script)+toldBy("log", "builtin: log")+
		ruleFor("latest", "source: configmaps, handler: exec, payload: {size: object.data.size, was: old.data.size}")+
		ruleFor("every", "source: configmaps, handler: exec, payload: {size: object.data.size, was: old.data.size}, delivery: every")+
		ruleFor("evaluated", "source: configmaps, handler: log, delivery: every")),
		`cat >> handled; until [ -e go ]; do sleep 0.05; done`)
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), dir)
	d.awaitReady()
	total := func(n int) func() bool { return func() bool { return len(handled(t, dir)) >= n } }

	web := k.create(configMap("web", "{size: '1'}"))
	k.eventually("both rules to be at the handler", total(2))
	for _, n := range []string{"2", "3", "4"} {
		k.patch(web, "data: {size: '"+n+"'}")
	}
	passing := k.create(configMap("passing", "{size: '1'}"))
	k.eventually("both rules to be at the handler with another object", total(4))
	k.delete(passing)
	d.await("all of it to be evaluated", func(events []handler.Event) bool { return len(events) >= 6 })
	touch(t, dir, "go")
	k.eventually("all of it to be handled", total(10))
	d.poll("nothing to wait", func() bool {
		return d.metric(`informd_rule_queue_depth{rule="latest"}`) == "0" && d.metric(`informd_rule_queue_depth{rule="every"}`) == "0"
	})
	d.stop()
	compare(t, []string{
		`latest NS/web added {"size":"1","was":null}`,
		`latest NS/web updated {"size":"4","was":"1"}`,
		`latest NS/passing added {"size":"1","was":null}`,
		`latest NS/passing deleted {"size":"1","was":null}`, // it was sent, so its end is told
		`every NS/web added {"size":"1","was":null}`,
		`every NS/web updated {"size":"2","was":"1"}`,
		`every NS/web updated {"size":"3","was":"2"}`,
		`every NS/web updated {"size":"4","was":"3"}`,
		`every NS/passing added {"size":"1","was":null}`,
		`every NS/passing deleted {"size":"1","was":null}`,
	}, k.briefs(handled(t, dir)))
}
