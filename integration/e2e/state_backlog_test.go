package e2e

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

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/harness"
)

const (
	backlogShort = 120_000   // changes; informd keeps fewer in memory for a rule
	backlogLong  = 1_000_000 // in make soak
	backlogBurst = 20_000    // changes at full speed; divides half of both
	// backlogPatience is how long a test waits for a million deliveries.
	backlogPatience = 15 * time.Minute
	// backlogMemory is what a daemon with a backlog of any size may have resident: 256 MiB of
	// deltas, of which Go's collector may hold twice, and 128 MiB for the rest.
	backlogMemory = 640 << 20
)

// While a handler is away, its deliveries take bounded memory; the rest waits on disk. When it
// comes, it gets all of them in order, also if the daemon was killed in between.
func TestBacklog(t *testing.T) {
	t.Parallel()
	if !harness.Soak() {
		backlog(t, backlogShort, true)
		return
	}
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) { backlog(t, backlogLong, restart) })
	}
}

func backlog(t *testing.T, changes int, restart bool) {
	stub, kubeconfig := harness.NewStub(t)
	first := stub.Synthesize(harness.WidgetResource, "Widget", true, harness.Widgets{})
	dir, informd := t.TempDir(), harness.Binary
	command, record := filepath.Join(dir, "handler"), filepath.Join(dir, "record") // the handler is not there yet
	rules := harness.WriteFile(t, "rules.yaml", harness.Source("widgets", "resource: informd.test/v1/widgets")+
		harness.Handler("record", fmt.Sprintf("command: [%q, handler, serve, log], concurrency: 64, config: {path: %q}", command, record))+
		harness.Rule("every", "source: widgets, handler: record, delivery: every")+
		harness.Rule("latest", "source: widgets, handler: record"))
	state := harness.ShortDir(t)
	run := func() *harness.Daemon {
		d := harness.StartDaemon(t, exec.Command(informd, "run", "-f", rules, "--kubeconfig", kubeconfig, "--state-dir", state))
		d.AwaitReady()
		return d
	}

	d := run()
	began := time.Now()
	version := int64(0)
	for made := 0; made < changes; {
		// informd merges changes while the disk does not keep up, so make no more than fit into memory.
		n := min(backlogBurst, changes-made)
		next := stub.Update(harness.WidgetResource, n)
		if version == 0 {
			version = next
		}
		if next != version+int64(made) {
			t.Fatal("other things happen in the cluster; this test cannot tell versions")
		}
		made += n
		d.PollFor(backlogPatience, "all to wait", func() bool { return d.Waiting("every") == harness.WidgetCount+made })
		if restart && made == changes/2 {
			d.Kill()
			d = run()
		}
		d.AwaitWritten()
	}
	// One event of each object waits. After a restart the disk may hold a second one, which is merged
	// on loading.
	if got := d.Waiting("latest"); got < harness.WidgetCount || got > 2*harness.WidgetCount || !restart && got > harness.WidgetCount {
		t.Errorf("under latest %d wait, of %d objects", got, harness.WidgetCount)
	}
	if away := d.Metric(`informd_rule_queue_away{rule="every"}`); away == "0" {
		t.Error("none are on disk alone: the backlog is too short to tell anything")
	}
	waited := time.Since(began)
	resident, _ := harness.Memory(t, d.Cmd.Process.Pid)

	began = time.Now()
	if err := os.Symlink(informd, command); err != nil {
		t.Fatal(err)
	}
	d.PollFor(backlogPatience, "all to be delivered", func() bool { return d.Waiting("every") == 0 && d.Waiting("latest") == 0 })
	took := time.Since(began)
	_, peak := harness.Memory(t, d.Cmd.Process.Pid)
	if n := d.Metric(`informd_rule_queue_shortened_total{rule="every"}`); n != "0" {
		t.Errorf("%s changes were merged under every", n)
	}
	d.AwaitWritten()
	d.Stop()
	t.Logf("%d changes waited after %v, delivered %v after the handler came (with its start); resident %s with the backlog, %s at most",
		changes, waited.Round(time.Millisecond), took.Round(time.Millisecond), harness.Mebibytes(resident), harness.Mebibytes(peak))
	if peak > backlogMemory {
		t.Errorf("%s resident, want %s at most", harness.Mebibytes(peak), harness.Mebibytes(backlogMemory))
	}
	wantBacklog(t, record, first, version, changes)
}

// wantBacklog checks that every got each change of an object once and in order, and that latest got
// its last.
func wantBacklog(t *testing.T, record string, first, version int64, changes int) {
	t.Helper()
	want := make(map[string][]int64, harness.WidgetCount)
	for i := range harness.WidgetCount {
		want[harness.WidgetName(i)] = []int64{first + int64(i)}
	}
	for n := range changes {
		i, _ := apistub.Turn(harness.WidgetCount, n)
		want[harness.WidgetName(i)] = append(want[harness.WidgetName(i)], version+int64(n))
	}
	got, last := told(t, record)
	wrong := 0
	for name, versions := range want {
		if v := last[name]; !slices.Equal(v, versions[len(versions)-1:]) {
			t.Errorf("latest: %s was told of at %v; want %d, once", name, v, versions[len(versions)-1])
		}
		if !slices.Equal(got[name], versions) {
			if wrong++; wrong <= 5 {
				t.Errorf("every: %s was told of %d times, want %d; they are the same up to number %d", name, len(got[name]), len(versions), harness.Same(got[name], versions))
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%d objects are wrong", wrong)
	}
}

var toldLine = regexp.MustCompile(`^\{"id":"[^"]*","rule":"(\w+)","event":"\w+",.*?"name":"([^"]*)","uid":"[^"]*","resourceVersion":"(\d+)"`)

// told returns the resourceVersions of each object that the log builtin wrote, by rule.
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
