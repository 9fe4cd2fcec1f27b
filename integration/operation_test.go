package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
)

// A dry run evaluates and says what it would deliver. It starts log, and no other handler.
func TestDryRun(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+
		toldBy("exec", script)+toldBy("log", "builtin: log")+
		ruleFor("execs", "source: configmaps, handler: exec, where: object.data.team == 'red'")+
		ruleFor("logs", "source: configmaps, handler: log, where: object.data.team == 'red'")),
		`touch started`)
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), dir, "--dry-run")
	d.awaitReady()

	k.create(configMap("blue", "{team: blue}"))
	k.create(configMap("red", "{team: red, secret: hush-hush}"))
	k.sees(d, "logs NS/red added")
	d.until("what would be delivered", func() bool {
		return count(d.log.String(), "would deliver", "handler=exec", "rule=execs", "event=added", "namespace="+k.ns, "name=red") == 1
	})
	k.saw(d, "logs NS/red added")
	if n := count(d.log.String(), "would deliver"); n != 1 {
		t.Errorf("%d deliveries would be made; want one", n)
	}
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("the command was started")
	}
	if strings.Contains(d.log.String(), "hush-hush") {
		t.Error("an object's content is in the log")
	}
}

// With --log-format json each line on standard error is a JSON object, whoever said it.
func TestLogAsJSON(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+source("none", "resource: informd.test/v1/nothings")+
		toldBy("exec", script)+
		ruleFor("rule", "source: configmaps, handler: exec")+
		ruleFor("fails", "source: configmaps, handler: exec, when: int(object.data.text)")+
		ruleFor("waits", "source: none, handler: exec")),
		`printf 'plain words\n"quoted" {json\n'; echo '[WARN] to stderr' >&2; exit 1`)
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), dir, "--log-format", "json")
	k.create(configMap("web", "{text: many}"))
	d.awaitLog("quoted")
	d.awaitLog("to stderr")
	d.stop()
	messages := map[string]bool{}
	for line := range strings.Lines(d.log.String()) {
		var record struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time.IsZero() || record.Level == "" || record.Msg == "" {
			t.Errorf("no record: %v: %q", err, line)
		}
		messages[record.Msg] = true
	}
	for _, want := range []string{"informd starts", "command output", "informd has stopped"} {
		if !messages[want] {
			t.Errorf("the log does not say %q", want)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	d := runInformd(t, cluster.Shared(t).Kubeconfig(), k.text(source("configmaps", configMaps)+
		toldBy("log", "builtin: log")+toldBy("refuses", "builtin: exec, config: {command: [/no/such/command]}")+
		ruleFor("rule", "source: configmaps, handler: log")+ruleFor("waits", "source: configmaps, handler: refuses")))
	d.awaitReady()
	web := k.create(configMap("web", "{}"))
	k.sees(d, "rule NS/web added")
	k.patch(web, "data: {a: b}")
	k.sees(d, "rule NS/web updated")
	k.create(configMap("other", "{}"))
	k.sees(d, "rule NS/other added")

	if code, body := d.get("/livez"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/livez: %d %q", code, body)
	}
	d.poll("the other handler to be refused", func() bool {
		_, body := d.get("/readyz")
		return strings.Contains(body, "handler refuses: refused")
	})
	// A handler's state is a detail: it does not make the daemon unready.
	if code, body := d.get("/readyz"); code != http.StatusOK || !strings.Contains(body, "[+] source configmaps: synced\n") ||
		!strings.Contains(body, "handler log: running") || !strings.HasSuffix(body, "\nready\n") {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if code, _ := d.get("/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing: %d", code)
	}
	for series, want := range map[string]string{
		`informd_source_objects{source="configmaps"}`:                               "2",
		`informd_source_deltas_total{event="added",source="configmaps"}`:            "2",
		`informd_source_deltas_total{event="updated",source="configmaps"}`:          "1",
		`informd_source_state{source="configmaps",state="synced"}`:                  "1",
		`informd_source_state{source="configmaps",state="failing"}`:                 "0",
		`informd_source_unreadable_total{source="configmaps"}`:                      "0",
		`informd_rule_matches_total{rule="rule"}`:                                   "3",
		`informd_rule_evaluation_errors_total{rule="rule"}`:                         "0",
		`informd_rule_queue_depth{rule="rule"}`:                                     "0",
		`informd_rule_queue_depth{rule="waits"}`:                                    "2", // merged
		`informd_handler_deliveries_total{handler="log",result="done",rule="rule"}`: "3",
		`informd_handler_delivery_latency_seconds_count{handler="log"}`:             "3",
		`informd_handler_attempt_seconds_count{handler="log"}`:                      "3",
		`informd_handler_in_flight{handler="log"}`:                                  "0",
		`informd_handler_restarts_total{handler="log"}`:                             "0",
		`informd_handler_ready{handler="log"}`:                                      "1",
		`informd_handler_ready{handler="refuses"}`:                                  "0",
		`informd_dead_letters`:                                                      "0",
	} {
		d.poll(series+" to be "+want, func() bool { return d.metric(series) == want })
	}
	d.stop()
}

// The first signal lets what is in flight come to its end, and starts nothing more. Nothing is left behind.
func TestSignalDrains(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+toldBy("exec", script)+
		ruleFor("rule", "source: configmaps, handler: exec, delivery: every")),
		`echo "$INFORMD_EVENT started" >> did; until [ -e go ]; do sleep 0.05; done; echo "$INFORMD_EVENT done" >> did`)
	temporary := t.TempDir()
	d := runInformdIn(t, []string{"TMPDIR=" + temporary, "XDG_RUNTIME_DIR="}, cluster.Shared(t).Kubeconfig(), dir)
	d.awaitReady()
	web := k.create(configMap("web", "{}"))
	k.eventually("the command to start", func() bool { return len(linesOf(t, dir, "did")) == 1 })
	k.patch(web, "data: {a: b}")
	d.poll("the change to wait", func() bool { return d.metric(`informd_rule_queue_depth{rule="rule"}`) == "1" })
	if entries := inFolder(t, temporary); len(entries) == 0 {
		t.Error("nothing in the temporary folder while informd runs: the test looks in the wrong place")
	}

	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.awaitLog("informd is to stop")
	select {
	case <-d.ended:
		t.Error("ended while a command was running")
	default:
	}
	touch(t, dir, "go")
	if code := d.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got := strings.Join(linesOf(t, dir, "did"), ", "); got != "added started, added done" {
		t.Errorf("the command did: %s", got)
	}
	if entries := inFolder(t, temporary); len(entries) > 0 {
		t.Errorf("left in the temporary folder: %q", entries)
	}
}

// The second signal ends informd at once, and with it its handlers and their commands.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	dir := folder(t, k.text(source("configmaps", configMaps)+toldBy("exec", script)+
		ruleFor("rule", "source: configmaps, handler: exec")),
		`echo "$$ $PPID" > pids.new; mv pids.new pids; exec sleep 1000`)
	temporary := t.TempDir()
	d := runInformdIn(t, []string{"TMPDIR=" + temporary, "XDG_RUNTIME_DIR="}, cluster.Shared(t).Kubeconfig(), dir)
	k.create(configMap("web", "{}"))
	k.eventually("the command to start", func() bool { return len(linesOf(t, dir, "pids")) == 1 })

	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.awaitLog("informd is to stop")
	k.eventually("informd to end", func() bool { // what follows too closely upon the first counts as the same
		_ = d.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-d.ended:
			return true
		default:
			return false
		}
	})
	if code := d.exitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for i, who := range []string{"the command", "the handler"} {
		pid, err := strconv.Atoi(strings.Fields(linesOf(t, dir, "pids")[0])[i])
		if err != nil {
			t.Fatal(err)
		}
		k.eventually(who+" to have ended", func() bool { return !alive(pid) })
	}
	k.eventually("the temporary folder to be empty", func() bool { return len(inFolder(t, temporary)) == 0 })
}

func inFolder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func alive(pid int) bool {
	fields, err := processStat(pid)
	return err == nil && fields[0] != "Z" // a zombie only waits for its parent to ask
}
