package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A dry run evaluates rules and writes what it would deliver. It starts the log handler and no
// other.
func TestDryRun(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("exec", harness.Script)+harness.Handler("log", "builtin: log")+
		harness.Rule("execs", "source: configmaps, handler: exec, where: object.data.team == 'red'")+
		harness.Rule("logs", "source: configmaps, handler: log, where: object.data.team == 'red'")),
		`touch started`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir, "--dry-run")
	d.AwaitReady()

	k.Create(harness.ConfigMap("blue", "{team: blue}"))
	k.Create(harness.ConfigMap("red", "{team: red, secret: hush-hush}"))
	k.Sees(d, "logs NS/red added")
	d.Until("what would be delivered", func() bool {
		return harness.Count(d.Log.String(), "would deliver", "handler=exec", "rule=execs", "event=added", "namespace="+k.Ns, "name=red") == 1
	})
	k.Saw(d, "logs NS/red added")
	if n := harness.Count(d.Log.String(), "would deliver"); n != 1 {
		t.Errorf("%d deliveries would be made; want one", n)
	}
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("the command was started")
	}
	if strings.Contains(d.Log.String(), "hush-hush") {
		t.Error("an object's content is in the log")
	}
}

// With --log-format json every line on standard error is a JSON object, whatever library wrote it.
func TestLogAsJSON(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+harness.Source("none", "resource: informd.test/v1/nothings")+
		harness.Handler("exec", harness.Script)+
		harness.Rule("rule", "source: configmaps, handler: exec")+
		harness.Rule("fails", "source: configmaps, handler: exec, when: int(object.data.text)")+
		harness.Rule("waits", "source: none, handler: exec")),
		`printf 'plain words\n"quoted" {json\n'; echo '[WARN] to stderr' >&2; exit 1`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), dir, "--log-format", "json")
	k.Create(harness.ConfigMap("web", "{text: many}"))
	d.AwaitLog("quoted")
	d.AwaitLog("to stderr")
	d.Stop()
	messages := map[string]bool{}
	for line := range strings.Lines(d.Log.String()) {
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
	k := harness.NewKube(t, cluster.Shared(t))
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("log", "builtin: log")+harness.Handler("refuses", "builtin: exec, config: {command: [/no/such/command]}")+
		harness.Rule("rule", "source: configmaps, handler: log")+harness.Rule("waits", "source: configmaps, handler: refuses")))
	d.AwaitReady()
	web := k.Create(harness.ConfigMap("web", "{}"))
	k.Sees(d, "rule NS/web added")
	k.Patch(web, "data: {a: b}")
	k.Sees(d, "rule NS/web updated")
	k.Create(harness.ConfigMap("other", "{}"))
	k.Sees(d, "rule NS/other added")

	if code, body := d.Get("/livez"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/livez: %d %q", code, body)
	}
	d.Poll("the other handler to be refused", func() bool {
		_, body := d.Get("/readyz")
		return strings.Contains(body, "handler refuses: refused")
	})
	// The state of a handler does not make the daemon unready.
	if code, body := d.Get("/readyz"); code != http.StatusOK || !strings.Contains(body, "[+] source configmaps: synced\n") ||
		!strings.Contains(body, "handler log: running") || !strings.HasSuffix(body, "\nready\n") {
		t.Errorf("/readyz: %d\n%s", code, body)
	}
	if code, _ := d.Get("/nothing"); code != http.StatusNotFound {
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
		d.Poll(series+" to be "+want, func() bool { return d.Metric(series) == want })
	}
	d.Stop()
}

// After the first signal informd lets deliveries in flight end and starts no more. It leaves no
// process behind. SIGHUP is not such a signal: it reloads.
func TestSignalDrains(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("exec", harness.Script)+
		harness.Rule("rule", "source: configmaps, handler: exec, delivery: every")),
		`echo "$INFORMD_EVENT started" >> did; until [ -e go ]; do sleep 0.05; done; echo "$INFORMD_EVENT done" >> did`)
	temporary := t.TempDir()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // under nohup, informd would inherit that it is ignored
	defer signal.Stop(hangups)
	d := harness.RunInformdIn(t, []string{"TMPDIR=" + temporary, "XDG_RUNTIME_DIR="}, cluster.Shared(t).Kubeconfig(), dir)
	d.AwaitReady()
	web := k.Create(harness.ConfigMap("web", "{}"))
	k.Eventually("the command to start", func() bool { return len(harness.LinesOf(t, dir, "did")) == 1 })
	k.Patch(web, "data: {a: b}")
	d.Poll("the change to wait", func() bool { return d.Metric(`informd_rule_queue_depth{rule="rule"}`) == "1" })
	if entries := harness.InFolder(t, temporary); len(entries) == 0 {
		t.Error("nothing in the temporary folder while informd runs: the test looks in the wrong place")
	}

	if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	d.AwaitLog("manifests reloaded")
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.AwaitLog("informd is to stop")
	select {
	case <-d.Ended:
		t.Error("ended while a command was running")
	default:
	}
	harness.Touch(t, dir, "go")
	if code := d.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got := strings.Join(harness.LinesOf(t, dir, "did"), ", "); got != "added started, added done" {
		t.Errorf("the command did: %s", got)
	}
	if entries := harness.InFolder(t, temporary); len(entries) > 0 {
		t.Errorf("left in the temporary folder: %q", entries)
	}
}

// The second signal ends informd at once, with its handlers and their commands.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+harness.Handler("exec", harness.Script)+
		harness.Rule("rule", "source: configmaps, handler: exec")),
		`echo "$$ $PPID" > pids.new; mv pids.new pids; exec sleep 1000`)
	temporary := t.TempDir()
	d := harness.RunInformdIn(t, []string{"TMPDIR=" + temporary, "XDG_RUNTIME_DIR="}, cluster.Shared(t).Kubeconfig(), dir)
	k.Create(harness.ConfigMap("web", "{}"))
	k.Eventually("the command to start", func() bool { return len(harness.LinesOf(t, dir, "pids")) == 1 })

	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.AwaitLog("informd is to stop")
	k.Eventually("informd to end", func() bool { // what follows too closely upon the first counts as the same
		_ = d.Cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-d.Ended:
			return true
		default:
			return false
		}
	})
	if code := d.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for i, who := range []string{"the command", "the handler"} {
		pid, err := strconv.Atoi(strings.Fields(harness.LinesOf(t, dir, "pids")[0])[i])
		if err != nil {
			t.Fatal(err)
		}
		k.Eventually(who+" to have ended", func() bool { return harness.HasEnded(pid) })
	}
	k.Eventually("the temporary folder to be empty", func() bool { return len(harness.InFolder(t, temporary)) == 0 })
}
