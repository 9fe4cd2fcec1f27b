package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
)

// A change of which informd died is shown with the command that tries it again.
func TestChangeSetAsideIsWrong(t *testing.T) {
	s := control.Status{Asides: []control.AsideStatus{{
		Resource: "v1/configmaps", Object: "shop/b", ResourceVersion: "7", Deaths: 3, Rules: []string{"r", "s"},
	}}}
	got := problems(s, new(controlFlags), time.Now())
	if len(got) != 1 || !strings.Contains(got[0].what, "informd died 3 times of a change of v1/configmaps shop/b") ||
		!strings.Contains(got[0].todo, "informd rule retry r shop/b") {
		t.Errorf("%+v", got)
	}
}

// Nothing is wrong with what works.
func TestNothingIsWrong(t *testing.T) {
	now := time.Now()
	s := control.Status{
		Sources: []control.SourceStatus{{Name: "pods", State: "synced", Ready: true}},
		Rules: []control.RuleStatus{
			{Name: "a", State: control.RuleActive, Waiting: 3},
			{Name: "b", State: control.RulePaused, Paused: true},
			{Name: "c", State: control.RuleActive, Errors: 1, LastError: &control.ExpressionError{At: now.Add(-time.Hour)}},
		},
		Handlers: []control.HandlerStatus{
			{Name: "h", State: control.Running, PID: 1, Failures: 1, LastLog: []string{"x"}},
			{Name: "i", State: "starting", Full: true}, // without a process none is in flight
			{Name: "j", State: "dry run", Reason: "informd logs what it would deliver"},
		},
		Store: &control.StateStatus{Durable: true},
	}
	for _, p := range problems(s, new(controlFlags), now) {
		t.Errorf("%+v", p)
	}
	s.Rules[2].LastError.At = now.Add(-time.Minute)
	if got := problems(s, new(controlFlags), now); len(got) != 1 || !strings.Contains(got[0].what, "rule c: an expression failed 1 time, last 60s ago") {
		t.Errorf("after an error: %+v", got)
	}
}

// A mistake that a thousand rules share leaves room for the rest of the status.
func TestManyProblems(t *testing.T) {
	all := make([]problem, maxProblems+3)
	for i := range all {
		all[i].what = "it is broken"
	}
	for _, wide := range []bool{false, true} {
		var b strings.Builder
		if err := writeProblems(&b, all, shape{wide: wide}); err != nil {
			t.Fatal(err)
		}
		want, more := maxProblems, "… and 3 more: -o wide shows them\n"
		if wide {
			want, more = len(all), "broken\n"
		}
		if n := strings.Count(b.String(), "it is broken\n"); n != want || !strings.HasSuffix(b.String(), more) {
			t.Errorf("wide %v: %d problems, want %d:\n%s", wide, n, want, b.String())
		}
	}
}

func TestTableFits(t *testing.T) {
	var b bytes.Buffer
	table := newTableWithin(&b, 50, "NAME", "RESOURCE", "STATE")
	table.row("a-name-that-is-quite-long", "apiextensions.k8s.io/v1/customresourcedefinitions", "synced")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 50 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if !strings.Contains(b.String(), "…   synced\n") {
		t.Errorf("got %s", b.String())
	}
}

func TestWrap(t *testing.T) {
	got := wrap("    -> one two three four", "       ", 16)
	if want := "    -> one two\n       three\n       four"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Watching ends with its context, without an error; other failures end it with theirs.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var b bytes.Buffer
	err := watch(ctx, &b, func(w io.Writer) error {
		cancel()
		_, err := io.WriteString(w, "picture\n")
		return err
	})
	if err != nil || b.String() != "picture\n" {
		t.Errorf("got %q, %v", b.String(), err)
	}
	broken := errors.New("broken")
	if err := watch(t.Context(), &b, func(io.Writer) error { return broken }); err != broken {
		t.Errorf("got %v", err)
	}
}

// The commands that the status advises ask the same daemon, even if a flag chose it.
func TestAdviceNamesTheDaemon(t *testing.T) {
	s := control.Status{Rules: []control.RuleStatus{
		{Name: "a", State: control.RulePaused, Paused: true, Waiting: 1},
		{Name: "b", State: control.RuleActive, Failure: "it is forbidden"},
		{Name: "c", State: control.RuleActive, Dead: 1},
		{Name: "d", State: control.RuleActive, Failure: `prune: list v1/pods by label, in all namespaces: 403 Forbidden: pods is forbidden: User "informd" cannot list resource "pods" in API group "" at the cluster scope`},
		{Name: "e", State: control.RuleActive, Failure: "actions[0]: patch of v1/pods shop/web: 401 Unauthorized"},
		{Name: "f", State: control.RuleActive, Failure: "POST https://there: 401 Unauthorized"}, // a handler's own
	}}
	flags := &controlFlags{stateDir: "./my state", context: "it's"}
	const which = ` --state-dir './my state' --context 'it'\''s'`
	for i, want := range []string{
		"informd rule resume a" + which,
		"try now what waits: informd rule retry b" + which,
		"informd dead list --rule c" + which,
		"grant the permission; informd then goes on by itself, or at once: informd rule retry d" + which,
		"renew informd's credentials; informd then goes on by itself, or at once: informd rule retry e" + which,
		"try now what waits: informd rule retry f" + which,
	} {
		if got := problems(s, flags, time.Now())[i].todo; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := new(controlFlags).command("rule", "list"); got != "informd rule list" {
		t.Errorf("without flags: %q", got)
	}
}

// What is to be mended follows from the reason.
func TestAdviceOnFailingSources(t *testing.T) {
	for reason, want := range map[string]string{
		"the API server refuses the credentials: Unauthorized":                             "renew informd's credentials; informd then goes on by itself",
		"500 Internal Server Error":                                                        "informd tries again; look at the API server",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": "informd tries again; look at the kubeconfig's server and certificate-authority, and at the API server's certificate",
		"http: server gave HTTP response to HTTPS client":                                  "informd tries again; mend http:// or https:// in the kubeconfig's server",
		"Client sent an HTTP request to an HTTPS server.":                                  "informd tries again; mend http:// or https:// in the kubeconfig's server",
	} {
		s := control.Status{Sources: []control.SourceStatus{{Name: "pods", State: "failing", Reason: reason}}}
		if got := problems(s, new(controlFlags), time.Now())[0].todo; got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// A dead letter is no longer wrong once a later event of its object was delivered. The rule says so
// below the table.
func TestHealedLettersAreNotWrong(t *testing.T) {
	now := time.Now()
	rules := []control.RuleStatus{
		{Name: "all", State: control.RuleActive, Dead: 2, Healed: 2}, {Name: "one", State: control.RuleActive, Dead: 3, Healed: 1},
	}
	var wrong []string
	for _, p := range problems(control.Status{Rules: rules}, new(controlFlags), now) {
		wrong = append(wrong, p.what)
	}
	if want := []string{"rule one has 2 dead letters"}; !slices.Equal(wrong, want) {
		t.Errorf("wrong is %q, want %q", wrong, want)
	}
	var b strings.Builder
	if err := writeRules(&b, rules, new(controlFlags), shape{}, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"all: after 2 dead letters, a later event of the object was delivered\n",
		"one: after 1 dead letter, a later event of the object was delivered\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A daemon that stops says so first.
func TestStatusWhileStopping(t *testing.T) {
	var b strings.Builder
	s := control.Status{Version: "v1", PID: 7, Started: time.Now(), Stopping: true}
	if err := writeStatus(&b, s, new(controlFlags), shape{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(b.String(), "\n")[1]; line != "informd is stopping: it begins no delivery, and waits for those in flight" {
		t.Errorf("the second line is %q", line)
	}
}

// The rules of a status say when their schedule's next moment is, and if asked for, their next resync.
func TestNextRounds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	rules := []control.RuleStatus{
		{Name: "tick", State: control.RuleActive, NextRound: now.Add(time.Minute)},
		{Name: "hourly", State: control.RuleActive, Source: "pods", NextRound: now.Add(time.Hour)},
		{Name: "nightly", State: control.RuleActive, Source: "pods", Scheduled: true, NextRound: now.Add(time.Hour)},
		{Name: "held", State: control.RuleWaiting, Reason: "waits for it", NextRound: now.Add(time.Hour)},
		{Name: "all", State: control.RuleActive, Source: "pods"},
	}
	for wide, want := range map[bool]string{
		false: "tick: its schedule's next moment is in 1m0s\nnightly: its schedule's next moment, for all members, is in 1h0m0s\nheld: waits for it\n",
		true: "tick: its schedule's next moment is in 1m0s\nhourly: its next resync, of all members, is in 1h0m0s\n" +
			"nightly: its schedule's next moment, for all members, is in 1h0m0s\nheld: waits for it\n",
	} {
		var b strings.Builder
		if err := writeRules(&b, rules, new(controlFlags), shape{wide: wide}, now); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfterN(b.String(), "\n", len(rules)+2)
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("wide %t: %q, want %q", wide, got, want)
		}
	}
}

// The advice about a failure names who is at fault.
func TestAdviceAboutFailures(t *testing.T) {
	now := time.Now()
	for fault, want := range map[string][2]string{
		"":           {"an expression failed 2 times, last 60s ago on shop/a: r", "mend the expression"},
		"expression": {"an expression failed 2 times, last 60s ago on shop/a: r", "mend the expression"},
		"object": {"an expression failed 2 times, last 60s ago on shop/a: r",
			"mend the text of shop/a that cannot be read, or have the expression expect it"},
		"past":    {"an expression failed 2 times, last 60s ago on shop/a: r", "have the expression expect a text that cannot be read: the object has it no more"},
		"bound":   {"failed 2 times, last 60s ago on shop/a: r", "let it count by fewer values, or within a shorter time"},
		"informd": {"failed 2 times, last 60s ago on shop/a: r", "this is a defect of informd: please report it, with the log"},
	} {
		e := &control.ExpressionError{Reason: "r", Object: "shop/a", At: now.Add(-time.Minute), Fault: fault}
		s := control.Status{
			Rules:   []control.RuleStatus{{Name: "x", State: control.RuleActive, Errors: 2, LastError: e}},
			Metrics: []control.MetricStatus{{Name: "x", Rule: "x", Errors: 2, LastError: e}},
		}
		all := problems(s, new(controlFlags), now)
		if len(all) != 2 {
			t.Fatalf("%s: %+v", fault, all)
		}
		for i, of := range []string{"rule", "metric"} {
			if all[i].what != of+" x: "+want[0] || all[i].todo != want[1] {
				t.Errorf("%q of a %s: %+v", fault, of, all[i])
			}
		}
	}
}

// A fault of an object that is over is no problem: the rule says it below the table. Rules that are
// slowed are one, with what to do.
func TestWhatIsOverIsNotWrong(t *testing.T) {
	now := time.Now()
	e := &control.ExpressionError{Reason: "r", Object: "shop/a", At: now.Add(-time.Minute), Fault: "object", Over: true}
	rules := []control.RuleStatus{{Name: "x", State: control.RuleActive, Errors: 1, LastError: e}}
	if all := problems(control.Status{Rules: rules}, new(controlFlags), now); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	var b strings.Builder
	if err := writeRules(&b, rules, new(controlFlags), shape{}, now); err != nil {
		t.Fatal(err)
	}
	if want := "x: an expression failed 1 time, last 60s ago on shop/a: r; the object is gone since, or was mended\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
	slowed := control.RuleStatus{Name: "a", State: control.RuleActive,
		Reason: "slowed: rules a and b chase each other through the cluster on v1/pods shop/web-0, 9 writes deep; next in 2s"}
	all := problems(control.Status{Rules: []control.RuleStatus{slowed}}, new(controlFlags), now)
	if len(all) != 1 || !strings.HasPrefix(all[0].todo, "have one of them leave alone what the other wants") {
		t.Errorf("%+v", all)
	}
}

// The problem that a handler reports is shown with its age, and with the rules that use the handler.
func TestHealthProblem(t *testing.T) {
	now := time.Now()
	s := control.Status{
		Handlers: []control.HandlerStatus{{
			Name: "hook", State: control.Running, PID: 1, Problem: "example.com answered 302 Found", ProblemAt: now.Add(-2 * time.Hour),
		}},
		Rules: []control.RuleStatus{{Name: "other", Handler: "log", State: control.RuleActive}},
	}
	for n, want := range []string{
		"mend that", "mend that; rule a uses it", "mend that; the rules a, b use it", "mend that; the rules a, b, c use it",
		"mend that; a and 3 other rules use it",
	} {
		if n > 0 {
			s.Rules = append(s.Rules, control.RuleStatus{Name: string(rune('a' + n - 1)), Handler: "hook", State: control.RuleActive})
		}
		got := problems(s, new(controlFlags), now)
		if len(got) != 1 || got[0].todo != want || got[0].what != "handler hook reports a problem (first 120m ago): example.com answered 302 Found" {
			t.Errorf("%d rules: %+v", n, got)
		}
	}
}

// A rule that waits in vain is wrong, one that waits for a list is not.
func TestRuleThatWaitsInVain(t *testing.T) {
	for reason, want := range map[string]string{
		"waits for what it looks into: nodes":                      "",
		"waits for what it looks into: nodes is forbidden":         "its changes wait",
		"waits for what it looks into: pods, nodes is not served":  "its changes wait",
		"finds nothing in what it looks into: nodes is not served": "as if it had no objects",
	} {
		state := control.RuleActive
		if strings.HasPrefix(reason, "waits") {
			state = control.RuleWaiting
		}
		got := problems(control.Status{Rules: []control.RuleStatus{{Name: "a", State: state, Reason: reason}}}, new(controlFlags), time.Now())
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || want == "" || got[0].what != "rule a "+reason || !strings.HasSuffix(got[0].todo, want) {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// A resource that Kubernetes has elsewhere today needs nothing to be installed.
func TestMovedResource(t *testing.T) {
	for resource, want := range map[string]string{
		"extensions/v1beta1/ingresses": "Kubernetes has this as networking.k8s.io/v1/ingresses now: mend the resource of the source",
		"example.com/v1/ingresses":     "install what serves example.com/v1/ingresses, or mend the resource of the source",
		"v1/podz":                      "install what serves v1/podz, or mend the resource of the source",
	} {
		s := control.Status{Sources: []control.SourceStatus{{Name: "a", State: "not served", Resource: resource}}}
		if got := problems(s, new(controlFlags), time.Now()); len(got) != 1 || got[0].todo != want {
			t.Errorf("%s: %+v", resource, got)
		}
	}
}

// What the daemon advises can be typed as it stands: its commands get the flags that reach it.
func TestAdviceOfTheDaemonHasTheFlags(t *testing.T) {
	flags := &controlFlags{stateDir: "./my state"}
	const advice = "rule a-1: now: informd rule resync a-1"
	if got, want := flags.complete(advice+"\nrule b"), advice+" --state-dir './my state'\nrule b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := new(controlFlags).complete(advice); got != advice {
		t.Errorf("without flags %q", got)
	}
}
