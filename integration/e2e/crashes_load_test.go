package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

const (
	soakObjects      = 10_000 // make soak
	loadObjects      = 1000
	loadObjectsShort = 500 // go test -short
	loadWriters      = 16
	patientKills     = 4 // of the handler, until a test ends the pauses before its starts
	loadNamespace    = "load"
)

const loadManifests = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: configmaps}
spec: {resource: v1/configmaps, namespaces: [load]}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: record}
spec:
  builtin: log
  config: {path: %q}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {source: configmaps, handler: record, delivery: every}
`

func loadSize() int {
	switch {
	case harness.Soak():
		return soakObjects
	case testing.Short():
		return loadObjectsShort
	}
	return loadObjects
}

// A thousand ConfigMaps live their lives at full speed. The record has all of it, once and in
// order. `make soak` has ten thousand of them.
func TestLoad(t *testing.T) {
	t.Parallel()
	l := startLoad(t, cluster.New(t))
	began, cpu := time.Now(), harness.CPUTime(t, l.daemon.Cmd.Process.Pid)
	l.writer.each(func(o *written) {
		l.writer.create(o)
		l.writer.change(o)
		l.writer.remove(o)
	})
	wrote := time.Since(began)
	l.awaitFinalStates()
	l.report(wrote, time.Since(began), harness.CPUTime(t, l.daemon.Cmd.Process.Pid)-cpu)

	for _, o := range l.writer.objects {
		l.record.wantWhole(t, o)
	}
	if n := l.record.repeats + l.record.torn; n > 0 {
		t.Errorf("%d lines are repeats or torn, though nothing was in the way", n)
	}
	l.wantQuiet()
	l.daemon.Stop()
}

// The same while the test kills the handler ten times and restarts the control plane twice, once
// after a crash. Deliveries in flight come again with the same id. Where the API server has lost
// its history, the final state and the deletion come.
func TestLoadThroughCrashes(t *testing.T) {
	t.Parallel()
	controlPlane := cluster.New(t)
	l := startLoad(t, controlPlane)
	n := len(l.writer.objects)
	began, cpu := time.Now(), harness.CPUTime(t, l.daemon.Cmd.Process.Pid)

	// They come after so many writes: the first restart among the changes, the second among the
	// deletions.
	var chaos sync.WaitGroup
	defer chaos.Wait()
	chaos.Go(func() {
		if !l.writer.awaitWrites(3 * n / 2) {
			return
		}
		controlPlane.Kill()
		l.restart(controlPlane)
		if l.writer.awaitWrites(5 * n / 2) {
			l.restart(controlPlane)
		}
	})
	kills := 10
	if testing.Short() {
		kills = 5
	}
	reloads := 0
	chaos.Go(func() {
		last := 0
		for i := range kills {
			if !l.writer.awaitWrites((2*i + 1) * 5 * n / 2 / (2 * kills)) {
				return
			}
			last = l.killHandler(last)
			if i >= patientKills && !harness.Soak() {
				l.endPause(last)
				reloads++
			}
		}
	})

	l.each(l.writer.create)
	// informd must report the deletion of every object that it has seen.
	l.daemon.Poll("the cache to hold all objects", func() bool {
		return l.daemon.Metric(`informd_source_objects{source="configmaps"}`) == strconv.Itoa(n)
	})
	l.each(l.writer.change)
	l.each(l.writer.remove)
	chaos.Wait()
	if t.Failed() {
		return
	}
	wrote := time.Since(began)
	l.awaitFinalStates()
	l.report(wrote, time.Since(began), harness.CPUTime(t, l.daemon.Cmd.Process.Pid)-cpu)

	missing := 0
	for _, o := range l.writer.objects {
		missing += l.record.wantOrdered(t, o)
	}
	t.Logf("%d of %d changes were never seen: the API server had no history of them; %s deliveries were in flight "+
		"at a crash; %d lines are repeats, %d torn", missing, l.writer.writes(),
		l.daemon.Metric(`informd_handler_deliveries_total{handler="record",result="lost",rule="all"}`), l.record.repeats, l.record.torn)
	if l.record.torn > kills {
		t.Errorf("%d lines are torn, by %d kills", l.record.torn, kills)
	}
	restarts := 0
	l.daemon.Poll("the handler to have been restarted each time", func() bool {
		restarts, _ = strconv.Atoi(l.daemon.Metric(`informd_handler_restarts_total{handler="record"}`))
		return restarts >= kills
	})
	// A reload restarts the handler once more if the pause that it was to end has just ended.
	if restarts > kills+reloads {
		t.Errorf("%d restarts, of %d kills and %d reloads", restarts, kills, reloads)
	}
	l.wantQuiet()
	l.daemon.Stop()
}

// load is a daemon that records what a writer writes.
type load struct {
	t      *testing.T
	daemon *harness.Daemon
	writer *writer
	record *record
	client kubernetes.Interface
	state  string // the daemon's directory
}

func startLoad(t *testing.T, c *cluster.Cluster) *load {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	harness.CreateNamespace(t, client, loadNamespace)
	path := filepath.Join(t.TempDir(), "events")
	state := harness.ShortDir(t)
	d := harness.RunInformd(t, c.Kubeconfig(), fmt.Sprintf(loadManifests, path), "--log-level", "info", "--state-dir", state)
	d.AwaitReady()
	return &load{
		t: t, daemon: d, client: client, state: state,
		writer: newWriter(t, client, loadNamespace, loadSize()),
		record: newRecord(path),
	}
}

// each calls do for every object, and ends the test if that failed anywhere.
func (l *load) each(do func(*written)) {
	l.t.Helper()
	if l.writer.each(do); l.t.Failed() {
		l.t.FailNow()
	}
}

// restart brings the control plane back at the same address.
func (l *load) restart(c *cluster.Cluster) {
	if err := c.Restart(l.t.Context()); err != nil {
		l.t.Error(err)
	}
}

// killHandler kills the handler's process, which must be a newer one than last, at its work if
// there is any left. Pauses between starts grow up to half a minute, unless endPause ends them. An
// event that is alone is spared: it may have been in flight at two kills, and a third would make it a
// dead letter. So the handler is stopped before the test looks: what is in flight then stays so.
func (l *load) killHandler(last int) (pid int) {
	l.daemon.Poll("a handler to be killed at work", func() bool {
		pid = l.handler()
		if pid == 0 || pid == last || syscall.Kill(pid, syscall.SIGSTOP) != nil { // it may just have been replaced
			return false
		}
		time.Sleep(50 * time.Millisecond) // what it has answered before arrives
		inFlight, _ := strconv.Atoi(l.daemon.Metric(`informd_handler_in_flight{handler="record"}`))
		if inFlight < 2 && l.daemon.Metric(`informd_rule_queue_depth{rule="all"}`) != "0" {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			return false
		}
		return syscall.Kill(pid, syscall.SIGKILL) == nil
	})
	return pid
}

// handler asks the daemon for its handler's process: 0 if there is none that takes events. The list
// of processes has one more for a moment, while one that ends lets go of its arguments.
func (l *load) handler() int {
	code, stdout, stderr := harness.Informd(l.t, "status", "-o", "json", "--state-dir", l.state)
	var status struct{ Handlers []struct{ PID int } }
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil || len(status.Handlers) != 1 {
		l.t.Errorf("informd status: exit code %d, %v\n%s%s", code, err, stdout, stderr)
		return 0
	}
	return status.Handlers[0].PID
}

// endPause makes the daemon start the killed handler at once, as an operator does who does not want
// to wait for the end of a pause.
func (l *load) endPause(killed int) {
	l.daemon.Poll("the daemon to see the handler's end", func() bool { return l.handler() != killed })
	if code, _, stderr := harness.Informd(l.t, "handler", "reload", "record", "--state-dir", l.state); code != 0 {
		l.t.Errorf("informd handler reload: exit code %d\n%s", code, stderr)
	}
}

// awaitFinalStates waits until the record has the final state of every object. It fails if nothing
// more comes.
func (l *load) awaitFinalStates() {
	l.t.Helper()
	last := time.Now()
	for {
		grew, err := l.record.read()
		if err != nil {
			l.t.Fatal(err)
		}
		open := 0
		for _, o := range l.writer.objects {
			if !l.record.isFinal(o) {
				open++
			}
		}
		switch {
		case open == 0:
			return
		case grew:
			last = time.Now()
		case time.Since(last) > harness.Patience:
			l.t.Fatalf("nothing came for %v, and of %d objects the final state is not there", harness.Patience, open)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-l.daemon.Ended:
			l.t.Fatal("informd has ended")
		}
	}
}

// wantQuiet checks that the cache equals the server's list, and that everything is acknowledged.
func (l *load) wantQuiet() {
	l.t.Helper()
	list, err := l.client.CoreV1().ConfigMaps(loadNamespace).List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range list.Items {
		o := l.writer.byName[list.Items[i].Name]
		if last := l.record.last(o); last.Event == "deleted" || last.ResourceVersion != list.Items[i].ResourceVersion {
			l.t.Errorf("%s: recorded as %s %s, the server has %s", o.name, last.Event, last.ResourceVersion, list.Items[i].ResourceVersion)
		}
	}
	for series, want := range map[string]string{
		`informd_source_objects{source="configmaps"}`:    strconv.Itoa(len(list.Items)),
		`informd_source_pending{source="configmaps"}`:    "0",
		`informd_rule_queue_depth{rule="all"}`:           "0",
		`informd_rule_queue_delayed{rule="all"}`:         "0",
		`informd_handler_in_flight{handler="record"}`:    "0",
		`informd_rule_queue_shortened_total{rule="all"}`: "0",
		`informd_rule_queue_dropped_total{rule="all"}`:   "0",
		`informd_dead_letters`:                           "0",
	} {
		l.daemon.Poll(series+" to be "+want, func() bool { return l.daemon.Metric(series) == want })
	}
}

// report logs measurements. Nothing depends on them.
func (l *load) report(wrote, took, cpu time.Duration) {
	resident, peak := harness.Memory(l.t, l.daemon.Cmd.Process.Pid)
	changes := l.writer.writes()
	l.t.Logf("%d changes of %d objects: written in %v, all delivered after %v, %.0f changes/s; informd: %v of CPU per change, "+
		"%s resident, %s at most; race detector: %v",
		changes, len(l.writer.objects), wrote.Round(time.Millisecond), took.Round(time.Millisecond),
		float64(changes)/took.Seconds(), (cpu / time.Duration(changes)).Round(time.Microsecond),
		harness.Mebibytes(resident), harness.Mebibytes(peak), harness.HasRace)
}
