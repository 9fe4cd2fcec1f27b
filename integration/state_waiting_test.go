package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// away is a handler that never comes: its deliveries wait.
func away(name string) string {
	return toldBy(name, "builtin: exec, config: {command: [/no/such/command]}")
}

// What waits for a handler survives kill -9 with its id, its attempts and its backoff.
func TestWaitingDeliveriesSurvive(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	// Whatever is of team red fails, at once again; blue is tried again in an hour; all is well when the file ok is there.
	handle := `(cat; echo) > new.$$; cat new.$$ >> events; [ -e ok ] || [ "$INFORMD_NAME" = last ] && exit 0; exit 1`
	exec := func(name, backoff string) string {
		return toldBy(name, "builtin: exec, env: [PATH], config: {command: [./handle.sh]}, retry: {backoff: "+backoff+"}")
	}
	dir := folder(t, k.text(source("configmaps", configMaps)+exec("soon", "100ms, maxBackoff: 200ms")+exec("later", "1h, maxBackoff: 1h")+
		ruleFor("red", "source: configmaps, handler: soon, where: object.data.team == 'red'")+
		ruleFor("blue", "source: configmaps, handler: later, where: object.data.team == 'blue'")), handle)
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	d := state.settled(dir)
	k.create(configMap("again", "{team: red}"))
	k.create(configMap("once", "{team: blue}"))
	attempts := func(rule string) (events []handler.Event) {
		for _, line := range linesOf(t, dir, "events") {
			var ev handler.Event
			if json.Unmarshal([]byte(line), &ev) == nil && ev.Rule == rule {
				events = append(events, ev)
			}
		}
		return events
	}
	k.eventually("some attempts", func() bool { return len(attempts("red")) >= 4 && len(attempts("blue")) == 1 })
	d.poll("both to wait", func() bool {
		return d.metric(`informd_rule_queue_delayed{rule="blue"}`) == "1" && d.metric(`informd_rule_queue_depth{rule="red"}`) != ""
	})
	time.Sleep(unwritten) // it is tried again all the time: there is always something to write
	d.kill()
	before := attempts("red")
	was := before[len(before)-1]

	d = state.run(dir)
	k.eventually("the next attempt", func() bool { return len(attempts("red")) > len(before) })
	next := attempts("red")[len(before)]
	// What was attempted within the last unwritten moment may not be counted.
	if next.ID != was.ID || next.Attempt < 4 || next.Attempt > was.Attempt+1 {
		t.Errorf("after the restart: %s, attempt %d; before it was %s, attempt %d", next.ID, next.Attempt, was.ID, was.Attempt)
	}
	touch(t, dir, "ok")
	d.poll("it to be done", func() bool {
		return d.metric(`informd_handler_deliveries_total{handler="soon",result="done",rule="red"}`) == "1"
	})
	// A later one is delivered, and the one that is to wait for an hour does so.
	k.create(configMap("last", "{team: blue}"))
	k.eventually("the later one", func() bool { return len(attempts("blue")) > 1 })
	d.awaitReady()
	if d.metric(`informd_rule_queue_delayed{rule="blue"}`) != "1" {
		t.Error("nothing waits for its time any more")
	}
	d.stop()
	if got := attempts("blue"); len(got) != 2 || got[1].Name != "last" {
		t.Errorf("%d attempts, the last of %s; want one of each", len(got), got[len(got)-1].Name)
	}
}

// Under latest what waits goes on merging after a restart, also with what happened meanwhile; under every all is kept.
func TestWaitingDeliveriesMergeOverRestarts(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	brief := k.create(configMap("brief", "{size: '0'}"))
	known := k.create(configMap("known", "{size: '0'}"))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	rules := func(h string) string {
		return k.text(source("configmaps", configMaps) + h +
			ruleFor("latest", "source: configmaps, handler: h, "+sizes) +
			ruleFor("every", "source: configmaps, handler: h, delivery: every, "+sizes))
	}
	there := rules(toldBy("h", "builtin: log"))
	d := state.settled(there)
	for _, rule := range []string{"latest", "every"} {
		k.sees(d, rule+" NS/known synced")
		k.sees(d, rule+" NS/brief synced")
	}
	d.awaitWritten()
	d.kill()

	d = state.settled(rules(away("h")))
	depth := func(rule string, n int) {
		d.poll(fmt.Sprint(n, " to wait"), func() bool { return d.waiting(rule) == n })
	}
	fresh := k.create(configMap("fresh", "{size: '1'}"))
	k.patch(fresh, "data: {size: '2'}")
	k.patch(known, "data: {size: '1'}")
	k.delete(brief)
	depth("latest", 3)
	depth("every", 4)
	d.awaitWritten()
	d.kill()

	k.patch(fresh, "data: {size: '3'}")
	d = state.settled(rules(away("h")))
	k.patch(known, "data: {size: '2'}")
	depth("latest", 3)
	depth("every", 6)
	d.awaitWritten()
	d.kill()

	d = state.settled(there)
	k.create(configMap("last", "{size: '1'}"))
	for _, rule := range []string{"latest", "every"} {
		k.sees(d, rule+" NS/last added")
	}
	d.awaitDelivered()
	d.stop()
	compare(t, []string{
		`latest NS/fresh added {"size":"3","was":null}`, `latest NS/known updated {"size":"2","was":"0"}`,
		`latest NS/brief deleted {"size":"0","was":null}`, `latest NS/last added {"size":"1","was":null}`,
		`every NS/fresh added {"size":"1","was":null}`, `every NS/fresh updated {"size":"2","was":"1"}`, `every NS/fresh updated {"size":"3","was":"2"}`,
		`every NS/known updated {"size":"1","was":"0"}`, `every NS/known updated {"size":"2","was":"1"}`,
		`every NS/brief deleted {"size":"0","was":null}`, `every NS/last added {"size":"1","was":null}`,
	}, k.briefs(d.events))
}

// Dead letters are there after kill -9, and can be retried then.
func TestDeadLettersSurvive(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+toldBy("exec", script)+
		ruleFor("rule", "source: configmaps, handler: exec")),
		`if [ -e ok ]; then (cat; echo) > new.$$; cat new.$$ >> events; else exit 64; fi`)
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	d := state.settled(dir)
	k.create(configMap("one", "{size: '1'}"))
	k.create(configMap("two", "{size: '1'}"))
	d.poll("two dead letters", func() bool { return d.metric("informd_dead_letters") == "2" })
	d.awaitWritten()
	before := state.command("dead", "list", "-o", "json")
	for _, want := range []string{"/added/", "exit status 64", "one", "two"} {
		if !strings.Contains(before, want) {
			t.Errorf("informd dead list -o json does not have %q:\n%s", want, before)
		}
	}
	d.kill()

	d = state.settled(dir)
	if got := d.metric("informd_dead_letters"); got != "2" {
		t.Errorf("%s dead letters after the restart, want 2", got)
	}
	if after := state.command("dead", "list", "-o", "json"); after != before {
		t.Errorf("they are not the same after the restart:\n%s\nbefore:\n%s", after, before)
	}
	touch(t, dir, "ok")
	state.command("dead", "retry", "--rule", "rule")
	k.eventually("both to be delivered", func() bool { return len(linesOf(t, dir, "events")) == 2 })
	d.poll("none to be left", func() bool { return d.metric("informd_dead_letters") == "0" })
	d.awaitWritten()
	d.kill()

	d = state.settled(dir)
	if got := d.metric("informd_dead_letters"); got != "0" {
		t.Errorf("%s dead letters come back", got)
	}
	d.stop()
	if got := len(linesOf(t, dir, "events")); got != 2 {
		t.Errorf("%d deliveries, want two", got)
	}
}

// waiting is how many deliveries of a rule wait, in memory or on disk alone.
func (d *daemon) waiting(rule string) (n int) {
	for _, of := range []string{"depth", "away"} {
		count, err := strconv.Atoi(d.metric(fmt.Sprintf("informd_rule_queue_%s{rule=%q}", of, rule)))
		if err != nil {
			return -1
		}
		n += count
	}
	return n
}

// command asks the daemon that runs on the state folder.
func (r remembering) command(args ...string) string {
	r.t.Helper()
	code, stdout, stderr := informd(r.t, append(args, "--state-dir", r.dir)...)
	if code != 0 {
		r.t.Fatalf("informd %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// filesOf are the regular files below a folder.
func filesOf(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return nil // what has just gone is no failure
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
