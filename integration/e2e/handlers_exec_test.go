package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// answeringCommand, as the first argument, makes the test binary a command of exec that answers
// events, a line each. An object's name says what else it does, once: the second argument names a
// folder where it notes that, and every event that it has read.
const answeringCommand = "answering"

func answerLines(dir string) {
	notes, err := os.OpenFile(filepath.Join(dir, "notes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return
		}
		var ev handler.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			panic(err)
		}
		fmt.Fprintln(notes, ev.Name, ev.ResourceVersion)
		done := fmt.Sprintf(`{"id": %q}`, ev.ID)
		if once, err := os.OpenFile(filepath.Join(dir, "once-"+filepath.Base(ev.Name)), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			once.Close()
			switch ev.Name {
			case "crash":
				os.Exit(3)
			case "garbage":
				done = "hunter2"
			case "hang":
				time.Sleep(time.Hour)
			case "twice":
				done += "\n" + done
			case "busy":
				done = fmt.Sprintf(`{"id": %q, "result": "retry", "retryAfter": "50ms", "reason": "busy"}`, ev.ID)
			case "label":
				done = fmt.Sprintf(`{"id": %q, "actions": [{"verb": "patch", "patch": {"metadata": {"labels": {"seen": "yes"}}}}]}`, ev.ID)
			}
		}
		if ev.Name == "reject" { // each time: its first answer may be lost with the process
			done = fmt.Sprintf(`{"id": %q, "result": "reject", "reason": "no team"}`, ev.ID)
		}
		fmt.Println(done)
	}
}

// One process gets all events. Whatever it does to one of them, none is lost, and those of an
// object keep their order.
func TestExecLines(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(harness.Folder(t, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		harness.Handler("lines", "builtin: exec, timeout: 2s, retry: {backoff: 10ms, maxBackoff: 100ms}, "+
			"access: {write: [{resource: v1/configmaps, verbs: [patch]}]}, "+
			"config: {lines: true, command: ["+self+", "+answeringCommand+", "+dir+"]}")+
		harness.Rule("lines", `source: configmaps, events: [added, updated], where: 'object.metadata.name != "kube-root-ca.crt"', handler: lines`)), ""), "rules.yaml")
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), rules)
	d.AwaitReady()
	names := []string{"plain", "crash", "garbage", "hang", "twice", "busy", "label"}
	for i := range 20 {
		names = append(names, fmt.Sprintf("plain-%d", i))
	}
	for _, name := range append(names, "reject") {
		o := k.Create(harness.ConfigMap(name, "{n: '1'}"))
		if strings.HasPrefix(name, "plain") {
			k.Patch(o, `data: {n: "2"}`)
		}
	}
	k.Eventually("the label", func() bool {
		o, err := k.ConfigMap("label")
		return err == nil && o.Labels["seen"] == "yes"
	})
	d.AwaitDelivered()
	last := k.Create(harness.ConfigMap("last", "{}"))
	k.Eventually("the last", func() bool { return len(noted(t, dir, last.GetName())) > 0 })
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "1" {
		t.Errorf("%s dead letters", n)
	}
	for _, name := range names {
		versions := noted(t, dir, name)
		if len(versions) == 0 {
			t.Errorf("%s was lost", name)
		}
		o, err := k.ConfigMap(name)
		if err != nil {
			t.Fatal(err)
		}
		switch newest := versions[len(versions)-1]; {
		case name == "label" && len(versions) != 1:
			t.Errorf("its own change came back: %q", versions)
		case name != "label" && newest != o.ResourceVersion:
			t.Errorf("%s: the newest is %s, not %s", name, newest, o.ResourceVersion)
		}
	}
	d.Stop()
	// Not every failure has a line of its own, but every delivery does.
	for _, name := range []string{"crash", "garbage", "hang", "busy"} {
		again := regexp.MustCompile(`msg=delivered .*/` + name + ` .* attempt=([2-9]|\d\d)`)
		if !again.MatchString(d.Logged()) {
			t.Errorf("%s was not delivered by another attempt", name)
		}
	}
	if !strings.Contains(d.Logged(), "no team") {
		t.Error("the log does not say why the command rejected an event")
	}
	if strings.Contains(d.Logged(), "hunter2") {
		t.Error("what the command printed is in the log")
	}
}

// noted returns the versions of an object that the command has read, in order.
func noted(t *testing.T, dir, name string) (versions []string) {
	for _, line := range harness.LinesOf(t, dir, "notes") {
		if n, version, _ := strings.Cut(line, " "); n == name {
			versions = append(versions, version)
		}
	}
	return versions
}

// A command reads the cache with informd get and the rights of its handler, and asks for actions.
// Its own changes do not come back to it.
func TestExecAnswers(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("zones", "{web: north}"))
	dir := harness.Folder(t, k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", indexes: {byTier: object.metadata.labels.tier}")+
			harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]")+
			harness.Source("pods", "resource: v1/pods, namespaces: [NS]")+
			harness.Handler("answers", "builtin: exec, env: [PATH], retry: {backoff: 10ms, maxBackoff: 100ms}, "+
				"access: {read: [configmaps], write: [{resource: v1/pods, verbs: [patch]}]}, "+
				"config: {answers: true, command: [./handle.sh]}")+
			harness.Rule("answers", "source: pods, events: [added, updated], handler: answers")), `
echo "$INFORMD_EVENT $INFORMD_NAME" >> events
informd=`+harness.Binary+`
$informd get secrets 2> denied
$informd get configmaps "$INFORMD_NAMESPACE/none" 2> none
$informd get configmaps -o name > names
$informd get configmaps -n "$INFORMD_NAMESPACE" --index byTier=front > tier 2>&1
zone=$($informd get configmaps "$INFORMD_NAMESPACE/zones" -o json | sed -n 's/.*"web": "\(.*\)".*/\1/p') || exit 1
echo "about $INFORMD_NAME" >&2
echo "{\"actions\": [{\"verb\": \"patch\", \"patch\": {\"metadata\": {\"labels\": {\"zone\": \"$zone\"}}}}]}"`)
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), filepath.Join(dir, "rules.yaml"))
	d.AwaitReady()
	web := k.Create(harness.Pod("web", "nginx"))
	k.Eventually("the label", func() bool {
		o, err := k.Resource(web).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && o.GetLabels()["zone"] == "north"
	})
	k.Create(harness.Pod("last", "nginx"))
	k.Eventually("the last", func() bool { return len(harness.LinesOf(t, dir, "events")) > 1 })
	d.AwaitDelivered()
	if got := strings.Join(harness.LinesOf(t, dir, "events"), ", "); got != "added web, added last" {
		t.Errorf("events: %s", got)
	}
	for file, want := range map[string]string{
		"denied": "not allowed", "none": "source configmaps has no object \"none\" in namespace " + k.Ns,
		"names": k.Ns + "/zones", "tier": "no objects in namespace " + k.Ns + " with index byTier=front",
	} {
		if got := strings.Join(harness.LinesOf(t, dir, file), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	d.Stop()
	if !strings.Contains(d.Logged(), "about web") || strings.Contains(d.Logged(), "zone") {
		t.Error("the log has an answer, or no standard error")
	}
	if n := len(noAnswers(d.Logged())); n > 0 {
		t.Errorf("%d retries", n)
	}
}

func noAnswers(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "is no answer") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The command's process is one handler like any other: exec with lines passes the suite.
func TestExecLinesConform(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"command": []string{self, answeringCommand, dir}, "lines": true})
	if err != nil {
		t.Fatal(err)
	}
	handlertest.Run(t, handlertest.Options{
		Command: []string{harness.Binary, "handler", "serve", "exec"},
		Env:     []string{"GORACE=" + os.Getenv("GORACE")},
		Config:  config,
		Timeout: 30 * time.Second, // the command parses 8 MB with the race detector
	})
}
