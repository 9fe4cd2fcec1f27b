package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/plugins/handler"
)

// The process of TestDeadlyChild gets these.
const (
	deadlyServer   = "INFORMD_DEADLY_SERVER"
	deadlyDir      = "INFORMD_DEADLY_DIR"
	deadlySuspects = "INFORMD_DEADLY_SUSPECTS" // how often other replicas died of the change
	deadlyResource = "INFORMD_DEADLY_RESOURCE" // in place of configmaps
	deadlyMended   = "INFORMD_DEADLY_MENDED"   // nothing is deadly
	deadlyKills    = "INFORMD_DEADLY_KILLS"    // the process is killed, it does not crash
)

const deadlyRules = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {bySize: object.data.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec: {source: maps, handler: record, when: 'len(byIndex("bySize", object.data.size)) >= 0'}
`

// deadly is a cache that ends the process when somebody looks a value up, as no panic that is
// contained would.
type deadly struct {
	evaluate.Cache
	isKilled bool
}

func (d deadly) ByIndex(index, value string) (object.Bucket, error) {
	if value == "deadly" {
		if d.isKilled {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
		}
		go panic("deadly")
		select {}
	}
	return d.Cache.ByIndex(index, value)
}

// printer is a handler that prints its events.
type printer struct{ recorder }

func (p *printer) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	fmt.Printf("EVENT %s %s %s→%s\n", ev.Event, ev.Name, sizeIn(ev.Old), sizeIn(ev.Object))
	return handler.Answer{}, nil
}

// TestDeadlyChild is a process of the tests below: a daemon that answers questions on standard input
// and ends with it.
func TestDeadlyChild(t *testing.T) {
	if os.Getenv(deadlyServer) == "" {
		t.Skip("another test runs it")
	}
	server := &rest.Config{
		Host: os.Getenv(deadlyServer), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	rules := deadlyRules
	if of := os.Getenv(deadlyResource); of != "" {
		rules = strings.Replace(rules, "configmaps", of, 1)
	}
	c, _ := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(rules)}})
	p, mistakes := plan.Compile(c)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	httpClient, err := rest.HTTPClientFor(server)
	if err != nil {
		t.Fatal(err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	dir := os.Getenv(deadlyDir)
	store, err := state.Open(dir, state.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	marks, err := steps.Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Logger: log, State: store, Steps: marks}
	if of, deaths, ok := strings.Cut(os.Getenv(deadlySuspects), " "); ok {
		o.Suspects = func(context.Context) []steps.Suspect {
			s := marks.Suspects()
			if len(s) != 1 || s[0].Version != of {
				t.Errorf("the suspects are %v", s)
				return nil
			}
			s[0].Deaths = len(deaths)
			return s
		}
	}
	e, err := New(p, Cluster{server, httpClient, discoveryClient}, map[string]live.Handler{"record": new(printer)}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.work().Rules {
		if os.Getenv(deadlyMended) != "" {
			break
		}
		own := &r.Preparer.Changes.Own
		own.Cache = deadly{own.Cache, os.Getenv(deadlyKills) != ""}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "status":
			fmt.Printf("ASIDE %d\n", len(e.Status().Asides))
		case "retry":
			n, err := e.RetryRule("r", "shop/b")
			_ = e.Written(ctx)
			fmt.Printf("RETRIED %d %v\n", n, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	marks.Close()
	os.Exit(0) // goleak would wait for the connections
}

// deadlyLife is a series of daemons, each in a process of its own.
type deadlyLife struct {
	*life
	env []string
}

func newDeadlyLife(t *testing.T) *deadlyLife {
	if os.Getenv(deadlyServer) != "" {
		t.Skip("in a child")
	}
	if marks, err := steps.Open(t.TempDir(), time.Now()); err != nil {
		if os.Getenv("INFORMD_SKIP_NOTHING") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	} else {
		marks.Close()
	}
	return &deadlyLife{life: newLife(t)}
}

// deadlyProcess is one of them.
type deadlyProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	all   []string
}

func (l *deadlyLife) begin() *deadlyProcess {
	t := l.t.(*testing.T)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeadlyChild$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), append(l.env, deadlyServer+"="+l.server.Config().Host, deadlyDir+"="+l.dir)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &deadlyProcess{t: t, cmd: cmd, in: in, lines: make(chan string)}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

// await waits for a line that contains text, unless there was one.
func (p *deadlyProcess) await(text string) {
	p.t.Helper()
	if !slices.ContainsFunc(p.all, func(line string) bool { return strings.Contains(line, text) }) {
		p.next(text)
	}
}

// next waits for another line that contains text.
func (p *deadlyProcess) next(text string) (line string) {
	p.t.Helper()
	over := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended; it had to say %q, and said\n%s", text, strings.Join(p.all, "\n"))
			}
			p.all = append(p.all, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-over:
			p.t.Fatalf("it did not say %q, but\n%s", text, strings.Join(p.all, "\n"))
		}
	}
}

// dies waits until the process has died by itself.
func (p *deadlyProcess) dies() {
	p.t.Helper()
	for line := range p.lines {
		p.all = append(p.all, line)
	}
	if p.cmd.Wait() == nil {
		p.t.Fatalf("it did not die, but said\n%s", strings.Join(p.all, "\n"))
	}
}

// ends ends the process, and returns its events.
func (p *deadlyProcess) ends() (events []string) {
	p.t.Helper()
	_ = p.in.Close()
	for line := range p.lines {
		p.all = append(p.all, line)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v: it said\n%s", err, strings.Join(p.all, "\n"))
	}
	for _, line := range p.all {
		if event, ok := strings.CutPrefix(line, "EVENT "); ok {
			events = append(events, event)
		}
	}
	return events
}

// hasAside waits until the process has set aside so many changes.
func (p *deadlyProcess) hasAside(n int) {
	p.t.Helper()
	for range 1000 {
		_, _ = io.WriteString(p.in, "status\n")
		if p.next("ASIDE ") == fmt.Sprint("ASIDE ", n) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("it has not set aside %d changes", n)
}

// informd dies three times of a change, then sets it aside and goes on. Rules see the next change as
// it follows the last one that they saw.
func TestDeadlyChangeIsSetAside(t *testing.T) {
	t.Parallel()
	l := newDeadlyLife(t)
	l.put("a", "1")
	l.put("b", "1")
	p := l.begin()
	p.await("EVENT synced a →1")
	p.await("EVENT synced b →1")
	p.ends()

	l.put("b", "deadly")
	for range steps.MaxDeaths {
		l.begin().dies()
	}
	l.put("a", "2")
	p = l.begin()
	p.await("informd died again and again")
	p.await("EVENT updated a 1→2")
	p.hasAside(1)
	p.ends()

	p = l.begin() // it stays aside over a restart
	p.hasAside(1)
	l.put("a", "3")
	p.await("EVENT updated a 2→3")
	l.put("b", "2")
	p.await("EVENT updated b 1→2")
	p.hasAside(0)
	if got := p.ends(); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "deadly") }) {
		t.Errorf("a handler got the deadly change: %q", got)
	}
	p = l.begin() // all of it is recorded
	l.put("a", "4")
	p.await("EVENT updated a 3→4")
	if got := p.ends(); len(got) != 1 {
		t.Errorf("the events are %q", got)
	}
}

// An object that no rule has seen before is added with its next change, or deleted unseen.
func TestDeadlyObjectIsNew(t *testing.T) {
	t.Parallel()
	l := newDeadlyLife(t)
	l.put("a", "1")
	p := l.begin()
	p.await("EVENT synced a →1")
	l.put("b", "deadly")
	p.dies()
	for range steps.MaxDeaths - 1 {
		l.begin().dies()
	}
	p = l.begin()
	p.await("informd died again and again")
	l.put("a", "2")
	p.await("EVENT updated a 1→2")
	l.put("b", "2")
	p.await("EVENT added b →2")
	l.put("c", "deadly")
	p.dies()
	for range steps.MaxDeaths - 1 {
		l.begin().dies()
	}
	p = l.begin()
	p.await("informd died again and again")
	l.put("a", "3")
	p.await("EVENT updated a 2→3")
	p.hasAside(1)
	l.delete("c")
	l.put("a", "4")
	p.await("EVENT updated a 3→4")
	p.hasAside(0)
	p.ends()
}

// Of a Secret, informd knows only the identity after a restart.
func TestDeadlySecret(t *testing.T) {
	t.Parallel()
	l := newDeadlyLife(t)
	l.env = []string{deadlyResource + "=secrets"}
	for _, name := range []string{"a", "b", "c"} {
		l.secret(name, "1")
	}
	p := l.begin()
	for _, name := range []string{"a", "b", "c"} {
		p.await("EVENT synced " + name)
	}
	p.ends()
	l.secret("b", "deadly")
	for range steps.MaxDeaths {
		l.begin().dies()
	}
	p = l.begin()
	p.await("informd died again and again")
	p.await("source has synced")
	l.secret("a", "2")
	p.await("EVENT updated a")
	p.hasAside(1)
	l.secret("b", "2")
	p.await("EVENT synced b →2")
	p.hasAside(0)
	l.secret("c", "deadly")
	p.dies()
	for range steps.MaxDeaths - 1 {
		l.begin().dies()
	}
	p = l.begin()
	p.await("resourceVersion")
	p.hasAside(1)
	l.server.Delete(secrets, "shop", "c")
	p.await("EVENT deleted c")
	p.hasAside(0)
	p.ends()
}

// Somebody can have informd evaluate the change nevertheless.
func TestDeadlyChangeIsRetried(t *testing.T) {
	t.Parallel()
	l := newDeadlyLife(t)
	l.env = []string{deadlyKills + "=yes"}
	l.put("b", "1")
	p := l.begin()
	p.await("EVENT synced b →1")
	l.put("b", "deadly")
	p.dies()
	for range steps.MaxDeaths - 1 {
		l.begin().dies()
	}
	p = l.begin()
	p.await("informd died again and again")
	l.put("a", "1")
	p.await(" a →1") // added or synced
	_, _ = io.WriteString(p.in, "retry\n")
	p.dies()
	p = l.begin() // once is enough
	p.hasAside(1)
	p.ends()
	l.env = []string{deadlyMended + "=yes"}
	p = l.begin()
	p.hasAside(1)
	_, _ = io.WriteString(p.in, "retry\n")
	p.await("RETRIED 1 <nil>")
	p.await("EVENT updated b 1→deadly")
	p.hasAside(0)
	p.ends()
	p = l.begin()
	p.hasAside(0)
	l.delete("b")
	p.await("EVENT deleted b →deadly")
	if got := p.ends(); len(got) != 1 {
		t.Errorf("the events are %q", got)
	}
}

// The deaths of other replicas count.
func TestDeadlyChangeOfReplicas(t *testing.T) {
	t.Parallel()
	l := newDeadlyLife(t)
	l.put("b", "1")
	p := l.begin()
	p.await("EVENT synced b →1")
	l.put("b", "deadly")
	version := l.server.ResourceVersion()
	p.dies()
	l.env = []string{deadlySuspects + "=" + version + " ab"}
	p = l.begin()
	p.await("informd died again and again")
	p.hasAside(1)
	p.ends()
	l.env = nil
	p = l.begin() // what was set aside is in the state
	p.hasAside(1)
	p.ends()
}
