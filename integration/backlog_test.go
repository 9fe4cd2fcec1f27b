package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/apistub"
)

const (
	backlogObjects = 1000
	// backlogShort is more than is kept in memory for a rule.
	backlogShort = 120_000
	backlogLong  = 1_000_000
	// backlogPatience is how long a test waits for a million deliveries.
	backlogPatience = 15 * time.Minute
	// backlogMemory is what a daemon with a backlog of any size may have resident: 256 MiB of deltas, of which Go's
	// collector may hold twice, and 128 MiB for the rest of it.
	backlogMemory = 640 << 20
)

// A handler that is away costs bounded memory: what is beyond goes on on disk, and all of it is delivered when the handler
// comes, in order; whether the daemon was killed in between or not.
func TestBacklog(t *testing.T) {
	if !soak() {
		backlog(t, backlogShort, true)
		return
	}
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) { backlog(t, backlogLong, restart) })
	}
}

func backlog(t *testing.T, changes int, restart bool) {
	stub, kubeconfig := newStub(t)
	first := stub.Synthesize(stubWidgets, "Widget", true, widgets{})
	dir, informd := t.TempDir(), plainInformd(t)
	command, record := filepath.Join(dir, "handler"), filepath.Join(dir, "record") // the handler is not there yet
	rules := writeFile(t, "rules.yaml", source("widgets", "resource: informd.test/v1/widgets")+
		toldBy("record", fmt.Sprintf("command: [%q, handler, serve, log], concurrency: 64, config: {path: %q}", command, record))+
		ruleFor("every", "source: widgets, handler: record, delivery: every")+
		ruleFor("latest", "source: widgets, handler: record"))
	state := shortDir(t)
	run := func() *daemon {
		d := startDaemon(t, exec.Command(informd, "run", "-f", rules, "--kubeconfig", kubeconfig, "--state-dir", state))
		d.awaitReady()
		return d
	}

	d := run()
	began := time.Now()
	version := stub.Update(stubWidgets, changes/2)
	if restart {
		d.pollFor(backlogPatience, "half of it to wait", func() bool { return d.waiting("every") == backlogObjects+changes/2 })
		d.kill()
		d = run()
	}
	if next := stub.Update(stubWidgets, changes-changes/2); next != version+int64(changes/2) {
		t.Fatal("other things happen in the cluster; this test cannot tell versions")
	}
	d.pollFor(backlogPatience, "all to wait", func() bool { return d.waiting("every") == backlogObjects+changes })
	// One of each object; behind a restart what waits on disk from before is merged when it is loaded, which is not yet.
	if got := d.waiting("latest"); got < backlogObjects || got > 2*backlogObjects || !restart && got > backlogObjects {
		t.Errorf("under latest %d wait, of %d objects", got, backlogObjects)
	}
	if away := d.metric(`informd_rule_queue_away{rule="every"}`); away == "0" {
		t.Error("none are on disk alone: the backlog is too short to tell anything")
	}
	waited := time.Since(began)
	resident, _ := memory(t, d.cmd.Process.Pid)

	began = time.Now()
	if err := os.Symlink(informd, command); err != nil {
		t.Fatal(err)
	}
	d.pollFor(backlogPatience, "all to be delivered", func() bool { return d.waiting("every") == 0 && d.waiting("latest") == 0 })
	took := time.Since(began)
	_, peak := memory(t, d.cmd.Process.Pid)
	if n := d.metric(`informd_rule_queue_shortened_total{rule="every"}`); n != "0" {
		t.Errorf("%s changes were merged under every", n)
	}
	d.awaitWritten()
	d.stop()
	t.Logf("%d changes waited after %v, delivered %v after the handler came (with its start); resident %s with the backlog, %s at most",
		changes, waited.Round(time.Millisecond), took.Round(time.Millisecond), mebibytes(resident), mebibytes(peak))
	if peak > backlogMemory {
		t.Errorf("%s resident, want %s at most", mebibytes(peak), mebibytes(backlogMemory))
	}
	wantBacklog(t, record, first, version, changes)
}

// wantBacklog checks that each object's every change came once, in order, under every; and its last under latest.
func wantBacklog(t *testing.T, record string, first, version int64, changes int) {
	t.Helper()
	want := make(map[string][]int64, backlogObjects)
	for i := range backlogObjects {
		want[widgetName(i)] = []int64{first + int64(i)}
	}
	for n := range changes {
		i, _ := apistub.Turn(backlogObjects, n)
		want[widgetName(i)] = append(want[widgetName(i)], version+int64(n))
	}
	got, last := told(t, record)
	wrong := 0
	for name, versions := range want {
		if v := last[name]; !slices.Equal(v, versions[len(versions)-1:]) {
			t.Errorf("latest: %s was told of at %v; want %d, once", name, v, versions[len(versions)-1])
		}
		if !slices.Equal(got[name], versions) {
			if wrong++; wrong <= 5 {
				t.Errorf("every: %s was told of %d times, want %d; they are the same up to number %d", name, len(got[name]), len(versions), same(got[name], versions))
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%d objects are wrong", wrong)
	}
}

func same(a, b []int64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

var toldLine = regexp.MustCompile(`^\{"id":"[^"]*","rule":"(\w+)","event":"\w+",.*?"name":"([^"]*)","uid":"[^"]*","resourceVersion":"(\d+)"`)

// told are the versions of each object that the log builtin wrote, by rule. Of a line no more is read than that.
func told(t *testing.T, record string) (every, latest map[string][]int64) {
	t.Helper()
	every, latest = make(map[string][]int64), make(map[string][]int64)
	file, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		match := toldLine.FindSubmatch(lines.Bytes())
		if match == nil {
			t.Fatalf("no event: %.200s", lines.Bytes())
		}
		version, err := strconv.ParseInt(string(match[3]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		to := every
		if string(match[1]) == "latest" {
			to = latest
		}
		to[string(match[2])] = append(to[string(match[2])], version)
	}
	return every, latest
}

var stubWidgets = schema.GroupVersionResource{Group: "informd.test", Version: "v1", Resource: "widgets"}

// widgets are small objects that change all the time.
type widgets struct{}

func widgetName(i int) string { return fmt.Sprintf("widget-%04d", i) }

func (widgets) Len() int { return backlogObjects }

func (widgets) Identity(i int) (namespace, name string, labels labels.Set) {
	return "shop", widgetName(i), nil
}

func (widgets) Append(b []byte, i, updates int, version int64) []byte {
	return fmt.Appendf(b, `{"metadata":{"name":%q,"namespace":"shop","uid":"uid-%d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},`+
		`"spec":{"replicas":%d,"selector":{"app":"widget-%d","tier":"backend"},"image":"registry.example/widget@sha256:%064x"},`+
		`"status":{"observed":%d,"conditions":[{"type":"Ready","status":"True","reason":"AllIsWell","message":"update %d"}]}}`,
		widgetName(i), i, version, updates%7, i, uint64(version)*0x9E3779B97F4A7C15, updates, updates)
}
