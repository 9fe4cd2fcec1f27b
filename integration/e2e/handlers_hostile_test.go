package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// hostileObjects is how many objects the tests in this file write.
const hostileObjects = 20

// hostileHandlers has every way to be a bad handler, and what the operator reads about it.
var hostileHandlers = []struct {
	name    string
	script  string // for sh; if empty, badHandler plays the vice of that name
	mode    os.FileMode
	limits  string   // of the manifest
	says    []string // a line of the log has each of these and the handler's name
	answers bool     // it answers its events all the same
}{
	{name: "missing", says: []string{"missing does not exist"}},
	{name: "not-executable", script: "exit 0", mode: 0o600, says: []string{"not-executable is not executable: chmod +x it"}},
	{name: "prints-garbage", script: "echo Welcome to the handler; sleep 86400",
		says: []string{`its first line on standard output is not a handshake but \"Welcome to the handler\"`}},
	{name: "prints-binary", script: "head -c 1000000 /dev/urandom; sleep 86400",
		says: []string{"its first line on standard output is not a handshake"}},
	{name: "exits-at-once", script: "echo no such database >&2; exit 3",
		says: []string{`it exited with status 3; its last line on standard error: \"no such database\"`}},
	{name: "says-nothing", script: "sleep 86400", says: []string{"it was not ready within 10s of its start"}},
	{name: "speaks-other-version", says: []string{`it speaks version \"99\" of the handler protocol, this informd speaks 1`}},
	{name: "hangs-in-describe", says: []string{"it did not answer describe within 5s"}},
	{name: "refuses-config", says: []string{"it refuses its config: routes.0.channel: no such channel; create it first"}},
	{name: "never-answers", says: []string{"no answer within the time limit of 1s", "it left more than 16 events without an answer"}},
	{name: "does-not-end", says: []string{"no answer within the time limit of 1s"}},
	{name: "answers-too-much", says: []string{"handler answered events that it does not have: ignored"}, answers: true},
	{name: "floods-its-log", says: []string{"handler log lines dropped"}, answers: true},
	{name: "writes-endless-lines", says: []string{"cut=true"}, answers: true},
	{name: "breaks-log-parsers", says: []string{`"{\"@message\":5}"`}, answers: true},
	{name: "leaves-children", answers: true},
	{name: "dies-of-events", says: []string{"it exited with status 3"}},
	{name: "freezes", limits: "timeout: 1m", says: []string{"it hangs: 2 health checks in a row had no answer within 5s"}},
}

// All of them run at once beside a healthy handler. The daemon lives, the healthy handler gets its
// events, the log names each bad handler and what is wrong with it, and SIGTERM ends them all.
func TestBadHandlers(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	const mark = "INFORMD_TEST_MARK"
	value := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	dir, sockets := t.TempDir(), harness.ShortDir(t)
	var manifests strings.Builder
	manifests.WriteString(hostileSource("bad-handlers", ""))
	for _, h := range hostileHandlers {
		if h.limits == "" {
			h.limits = "timeout: 1s, retry: {backoff: 100ms}"
		}
		command, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		args := []string{strconv.Quote(command), badHandlerCommand, h.name}
		switch {
		case h.script != "":
			path := filepath.Join(dir, h.name)
			mode := h.mode
			if mode == 0 {
				mode = 0o700
			}
			harness.WriteProgram(t, path, "#!/bin/sh\n"+h.script+"\n", mode)
			args = []string{strconv.Quote(path)}
		case h.name == "missing":
			args = []string{strconv.Quote(filepath.Join(dir, h.name))}
		}
		fmt.Fprintf(&manifests, `---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: %[1]s}
spec: {command: [%[2]s], env: [%[3]s], %[4]s}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: %[1]s}
spec: {source: configmaps, handler: %[1]s}
`, h.name, strings.Join(args, ", "), mark, h.limits)
	}
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	harness.CreateNamespace(t, client, "bad-handlers")
	d := harness.RunInformdIn(t, []string{mark + "=" + value, "XDG_RUNTIME_DIR=" + sockets},
		c.Kubeconfig(), manifests.String(), "--log-level", "info")
	d.AwaitReady()
	createConfigMaps(t, client, "bad-handlers", hostileObjects)
	awaitHealthy(d, "added", hostileObjects)
	for _, h := range hostileHandlers {
		for _, text := range h.says {
			line := ""
			d.Until("in the log: handler="+h.name+" "+text, func() (found bool) {
				line, found = harness.FindLine(d.Log.String(), "handler="+h.name+" ", text)
				return found
			})
			t.Logf("%.500s", line)
		}
		if h.answers {
			series := fmt.Sprintf(`informd_handler_deliveries_total{handler=%[1]q,result="done",rule=%[1]q}`, h.name)
			d.Poll(series, func() bool { return d.Metric(series) == strconv.Itoa(hostileObjects) })
		}
	}

	// The bad handlers go on, and do not disturb the healthy one.
	if err := client.CoreV1().ConfigMaps("bad-handlers").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(d, "deleted", hostileObjects)
	if code, body := d.Get("/readyz"); code != 200 || !strings.Contains(body, "handler missing: backing off\n") {
		t.Errorf("/readyz is %d:\n%s", code, body)
	}
	log := d.Logged()
	if limit := 16 << 20; len(log) > limit { // the flood alone writes as much in some seconds
		t.Errorf("the log has %d bytes, more than %d", len(log), limit)
	}
	for line := range strings.Lines(log) {
		if limit := 64 << 10; len(line) > limit {
			t.Errorf("the log has a line of %d bytes, more than %d: %.200s", len(line), limit, line)
		}
	}
	if strings.ContainsAny(log, "\x1b\x00\a") {
		t.Error("control characters went through to the log")
	}
	_, peak := harness.Memory(t, d.Cmd.Process.Pid)
	if limit := int64(768 << 20); peak > limit {
		t.Errorf("informd took %s, more than %s", harness.Mebibytes(peak), harness.Mebibytes(limit))
	}

	began := time.Now()
	d.Stop()
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("ended within %v; %d bytes of log; %s at most", took, len(log), harness.Mebibytes(peak))
	// Deliveries in flight have 30 s, and some never get an answer. Then a handler has 7 s to drain
	// and end.
	if limit := time.Minute; took > limit {
		t.Errorf("informd took %v to end, more than %v", took, limit)
	}
	if left := harness.Marked(mark + "=" + value); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(sockets, "*")); err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v, %v", left, err)
	}
}

// greedyRules would each take gigabytes or minutes per object, if they had no budget.
var greedyRules = map[string]string{
	"repeats":      `when: 'len(repeat("x", 1000000000)) > 3'`,
	"doubles":      `when: '` + doubling(60) + `'`,
	"nested-loops": `when: 'let a = 1..900; any(a, any(a, any(a, any(a, false))))'`,
	"nested-lists": `when: 'len(map(1..900, map(1..900, map(1..900, #)))) > 0'`,
	"huge-range":   `when: 'len(1..999999999) > 0'`,
	"where":        `where: 'len(map(1..900, map(1..900, map(1..900, #)))) > 0'`,
	"payload":      `payload: {x: 'repeat(object.metadata.name, 1000000000)', y: ['1..999999999']}`,
}

// doubling returns an expression that doubles a text n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`let a0 = "xxxxxxxx"; `)
	for i := range n {
		fmt.Fprintf(&b, "let a%d = a%d + a%d; ", i+1, i, i)
	}
	fmt.Fprintf(&b, "len(a%d) > 0", n)
	return b.String()
}

func TestGreedyExpressions(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	harness.CreateNamespace(t, client, "greedy")
	var manifests strings.Builder
	manifests.WriteString(hostileSource("greedy", `{greedy: 'map(1..99999999, "x")'}`))
	for name, spec := range greedyRules {
		fmt.Fprintf(&manifests, `---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: %s}
spec:
  source: configmaps
  handler: stdout
  %s
`, name, spec)
	}
	d := harness.RunInformd(t, c.Kubeconfig(), manifests.String(), "--log-level", "info")
	d.AwaitReady()
	began, cpu := time.Now(), harness.CPUTime(t, d.Cmd.Process.Pid)
	createConfigMaps(t, client, "greedy", hostileObjects)
	awaitHealthy(d, "added", hostileObjects)

	want := strconv.Itoa(hostileObjects)
	series := []string{`informd_source_index_errors_total{source="configmaps"}`}
	for name := range greedyRules {
		series = append(series, fmt.Sprintf("informd_rule_evaluation_errors_total{rule=%q}", name))
	}
	for _, s := range series {
		d.Poll(s+" to be "+want, func() bool { return d.Metric(s) == want })
	}
	for name := range greedyRules {
		d.Until("a complaint about rule "+name, func() bool {
			_, found := harness.FindLine(d.Log.String(), "rule="+name+" ", "budget")
			return found
		})
		lines, took := strings.Count(d.Logged(), "rule="+name+" "), time.Since(began)
		if name == "payload" { // the failed expression, and the dead letters
			lines--
		}
		if lines > 1+int(took/time.Minute) {
			t.Errorf("rule %s is complained about %d times within %v; want once a minute", name, lines, took)
		}
	}
	_, peak := harness.Memory(t, d.Cmd.Process.Pid)
	if limit := int64(768 << 20); peak > limit {
		t.Errorf("informd took %s, more than %s", harness.Mebibytes(peak), harness.Mebibytes(limit))
	}
	t.Logf("%d evaluations that were stopped took %v of CPU; %s at most", len(series)*hostileObjects,
		(harness.CPUTime(t, d.Cmd.Process.Pid) - cpu).Round(time.Millisecond), harness.Mebibytes(peak))
	for _, ev := range d.Await("events", func([]handler.Event) bool { return true }) {
		if ev.Rule != "healthy" {
			t.Errorf("rule %s delivered %s", ev.Rule, ev.ID)
		}
	}
	d.Stop()
}

// hostileSource returns manifests of a source of ConfigMaps and of a healthy rule, which writes to
// standard output.
func hostileSource(namespace, indexes string) string {
	if indexes == "" {
		indexes = "{byName: object.metadata.name}"
	}
	return fmt.Sprintf(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: configmaps}
spec:
  resource: v1/configmaps
  namespaces: [%s]
  indexes: %s
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: stdout}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: healthy}
spec: {source: configmaps, handler: stdout}
`, namespace, indexes)
}

func createConfigMaps(t *testing.T, client kubernetes.Interface, namespace string, n int) {
	t.Helper()
	for i := range n {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cm-%d", i)}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitHealthy waits until the healthy rule has delivered so many events of a kind.
func awaitHealthy(d *harness.Daemon, event string, n int) {
	d.T.Helper()
	d.Await(fmt.Sprintf("%d events %s of the rule that is well", n, event), func(events []handler.Event) bool {
		names := make(map[string]bool)
		for _, ev := range events {
			if ev.Rule == "healthy" && ev.Event == event {
				names[ev.Name] = true
			}
		}
		return len(names) == n
	})
}
